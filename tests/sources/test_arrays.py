"""Arrays: items are rows, blocks are columns, nothing is shared with the source."""

from __future__ import annotations

import numpy as np
import pytest
from support.graphs import Point, columns

import resumable as rs
from resumable.core.block import take_rows


def test_items_have_the_structure_of_the_arrays() -> None:
    x, y = np.arange(3), np.arange(3, dtype=np.float32)
    assert list(rs.from_arrays(x)) == [0, 1, 2]
    pair = rs.from_arrays((x, y))[1]
    assert pair == (1, np.float32(1))
    assert type(pair[1]) is np.float32
    assert rs.from_arrays({"a": x, "b": y})[2] == {"a": 2, "b": np.float32(2)}
    assert isinstance(rs.from_arrays(Point(x, y))[0], Point)


@pytest.mark.parametrize(
    "dtype", ["?", "i1", "i8", "u8", "f2", "f4", "f8", "c8", "c16", "U3", "M8[s]"]
)
def test_dtypes_survive_item_by_item_and_in_batches(dtype: str) -> None:
    array = np.arange(5).astype(dtype)
    for pipeline in (rs.from_arrays(array), rs.from_arrays(array).filter(lambda item: True)):
        (batch,) = pipeline.batch(5)
        assert batch.dtype == array.dtype
        assert (batch == array).all()
    if array.dtype.kind in "biufc":
        (batch,) = rs.from_arrays(array).map(lambda item: item).batch(5)
        assert batch.dtype == array.dtype


def test_a_shuffled_batch_takes_one_gather_and_no_python_object_an_item(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gathered = []

    def noting(arrays: object, indices: np.ndarray) -> object:
        gathered.append(len(indices))
        return take_rows(arrays, indices)

    monkeypatch.setattr("resumable.sources.arrays.take_rows", noting)
    batches = list(rs.from_arrays(columns(1000)).shuffle(0).batch(256))
    assert gathered == [256, 256, 256, 232]
    assert [batch["x"].shape for batch in batches] == [(256, 2)] * 3 + [(232, 2)]


def test_writing_into_an_item_or_a_batch_does_not_reach_the_source() -> None:
    array = np.zeros((6, 2))
    pipeline = rs.from_arrays({"a": array})
    for item in pipeline:
        item["a"][:] = 1
    for batch in pipeline.batch(3):
        batch["a"][:] = 1
    pipeline[0]["a"][:] = 1
    assert not array.any()


@pytest.mark.parametrize("lengths", [(2, 3), (3, 2)])
def test_arrays_of_other_lengths_are_refused_whichever_is_longer(lengths: tuple[int, int]) -> None:
    with pytest.raises(rs.InvalidArgument, match="must have the same first axis"):
        rs.from_arrays(tuple(np.zeros(length) for length in lengths))
