"""Sequences: indexed, many at once where they can be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.graphs import Torchlike, stream

import resumable as rs


def test_many_items_are_asked_for_at_once_where_the_sequence_can_do_that() -> None:
    asked: list[list[int]] = []

    class Noting(Torchlike):
        def __getitems__(self, indices: list[int]) -> list[dict[str, int]]:
            asked.append(indices)
            return super().__getitems__(indices)

    dataset: Any = Noting()
    list(rs.from_sequence(dataset).shuffle(0).batch(8))
    assert [len(indices) for indices in asked] == [8, 8, 7]
    assert all(type(index) is int for indices in asked for index in indices)


def test_a_list_that_has_become_shorter_is_an_error() -> None:
    items = list(range(10))
    batches = iter(rs.from_sequence(items).batch(4))
    next(batches)
    del items[6:]
    with pytest.raises(IndexError):
        next(batches)


@pytest.mark.parametrize("kind", [list, tuple, range])
def test_batches_of_built_in_sequences_hold_their_items(kind: Any) -> None:
    items = range(7) if kind is range else kind("abcdefg")
    batches = list(rs.from_sequence(items).batch(3, collate=list))
    assert batches == [list(items[:3]), list(items[3:6]), list(items[6:])]


def test_a_memmap_stays_on_disk_and_is_not_changed_through_an_item(tmp_path: Path) -> None:
    array = np.arange(20, dtype=np.float32).reshape(10, 2)
    np.save(tmp_path / "data.npy", array)
    mapped: Any = np.load(tmp_path / "data.npy", mmap_mode="r+")
    for pipeline in (rs.from_sequence(mapped), rs.from_arrays(mapped)):
        for item in pipeline:
            item += 1
        (batch,) = pipeline.batch(10)
        batch += 1
    assert (np.load(tmp_path / "data.npy") == array).all()
    assert (batch == array + 1).all()


def test_repr_says_what_it_is() -> None:
    assert repr(rs.from_sequence([1, 2])) == "Pipeline(FromSequence(list of 2 items, by index))"


class Dropping(list[int]):
    """Leaves out what it takes for damaged."""

    def __getitems__(self, indices: list[int]) -> list[int]:
        return [self[index] for index in indices if index % 4]


def test_fewer_items_than_indices_are_refused() -> None:
    with (
        iter(rs.from_sequence(Dropping(range(20))).batch(4)) as iterator,
        pytest.raises(rs.MalformedItem, match="an item for each of 4 indices, got 3"),
    ):
        next(iterator)


def test_a_pipeline_as_a_sequence_is_known_by_its_own_identity() -> None:
    def made(seed: int) -> rs.Pipeline[int]:
        return rs.from_sequence(rs.range(10).shuffle(seed)).repeat(2)

    assert list(made(0)) == 2 * list(rs.range(10).shuffle(0))
    with iter(made(0)) as iterator:
        next(iterator)
        state = iterator.get_state()
    assert list(made(0).resume(state)) == list(made(0))[1:]
    with pytest.raises(rs.StateMismatch, match=r"ends with Shuffle\(seed=1\) has other content"):
        made(1).resume(state)
    of_0_2 = state | {"fingerprint": '["Repeat",["FromSequence",{"length":10}]]'}
    assert list(made(0).resume(of_0_2)) == list(made(0))[1:]


@pytest.mark.parametrize("wrap", [rs.from_sequence, rs.from_iterable])
def test_a_stream_is_no_source_of_another_pipeline(wrap: Any) -> None:
    with pytest.raises(
        rs.InvalidType, match=r"without random access is no source .* use it as it is"
    ):
        wrap(stream(5).map(abs))
