"""Batches are cut and joined to another size, and columns stay columns."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import Point, stream

import resumable as rs
from resumable.testing.comparing import assert_same
from resumable.testing.laws import resumes_at_every_position, skip_agrees_with_next

KINDS: dict[str, Callable[[Any], Any]] = {
    "numbers": lambda rows: rows,
    "narrow": lambda rows: rows.astype(np.int8),
    "booleans": lambda rows: rows % 2 == 0,
    "objects": lambda rows: rows.astype(object),
    "matrices": lambda rows: rows[:, None] * np.ones(3, np.float32),
    "dict": lambda rows: {"x": rows, "y": (rows, -rows)},
    "ordered dict": lambda rows: OrderedDict(x=rows),
    "named tuple": lambda rows: Point(rows, rows * 0.5),
    "list": lambda rows: rows.tolist(),
    "lists in a dict": lambda rows: {"text": list(map(str, rows)), "x": rows},
    "numbers in a dict": lambda rows: {"x": rows.tolist()},
    "several dtypes": lambda rows: rows * (0.5 if len(rows) > 2 else 1),
}


def batches(kind: str, lengths: list[int]) -> rs.Pipeline[Any]:
    ends = np.cumsum(lengths)
    parts = [KINDS[kind](np.arange(end - n, end)) for end, n in zip(ends, lengths, strict=True)]
    return rs.from_iterable(lambda: iter(parts))


@pytest.mark.parametrize("kind", KINDS)
@given(
    lengths=st.lists(st.integers(0, 7), max_size=8),
    size=st.integers(1, 9),
    drop_last=st.booleans(),
)
def test_rows_come_one_after_another_in_batches_of_the_other_size(
    kind: str, lengths: list[int], size: int, drop_last: bool
) -> None:
    given_batches = batches(kind, lengths)
    got = list(given_batches.rebatch(size, drop_last=drop_last))
    assert_same(got, list(given_batches.unbatch().batch(size, drop_last=drop_last)), "rebatch")


def test_strings_keep_the_dtype_of_their_arrays() -> None:
    names = np.array(["a", "bcd", "ef"])
    first, second = rs.from_sequence([names, names]).rebatch(4)
    assert first.tolist() == ["a", "bcd", "ef", "a"]
    assert first.dtype == second.dtype == names.dtype


@given(st.lists(st.integers(0, 7), max_size=8), st.integers(1, 9), st.booleans())
def test_it_resumes_at_every_batch(lengths: list[int], size: int, drop_last: bool) -> None:
    rebatched = batches("dict", lengths).rebatch(size, drop_last=drop_last)
    resumes_at_every_position(rebatched)
    skip_agrees_with_next(rebatched, [1, 0, 2, 50])


def test_the_rows_of_arrays_are_never_made_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(block: Any) -> Any:
        raise AssertionError("rows were made")

    monkeypatch.setattr("resumable.stages.unbatch.block_items", refuse)
    rebatched = list(rs.from_sequence([{"x": np.arange(10**6)}] * 3).rebatch(700_000))
    assert [len(batch["x"]) for batch in rebatched] == [700_000] * 4 + [200_000]


def test_a_batch_of_upstream_is_read_when_a_row_of_it_is_needed() -> None:
    read: list[int] = []

    def note(rows: Any) -> Any:
        read.append(len(rows))
        return rows

    iterator = iter(stream(30).batch(4).map(note).rebatch(6))
    for expected in ([4, 4], [4, 4, 4], [4, 4, 4, 4, 4]):
        assert len(next(iterator)) == 6
        assert read == expected


def test_what_is_no_batch_is_refused() -> None:
    with pytest.raises(rs.MalformedItem, match=r"unbatch needs batches.*got int"):
        list(stream(3).rebatch(2))
    with pytest.raises(rs.MalformedItem, match=r"must have one length, got \[2, 3\]"):
        list(rs.from_sequence([{"x": np.arange(3), "y": np.arange(2)}]).rebatch(2))
    masked = np.ma.masked_array(np.arange(4), np.arange(4) > 1)
    with pytest.raises(rs.MalformedItem, match="cannot stack masked arrays"):
        list(rs.from_sequence([[*masked]]).rebatch(2))


def test_bad_arguments_and_foreign_states_are_refused() -> None:
    with pytest.raises(rs.InvalidArgument, match="batch_size must be at least 1, got 0"):
        rs.range(9).batch(3).rebatch(0)
    with pytest.raises(rs.InvalidType, match="drop_last must be"):
        rs.range(9).batch(3).rebatch(2, drop_last=None)  # type: ignore[arg-type]
    state = iter(rs.range(9).batch(3).rebatch(2)).get_state()
    state["pipeline"]["upstream"]["offset"] = -1
    with pytest.raises(
        rs.StateMismatch, match=r"Unbatch at pipeline.upstream: saved offset=-1 is below 0"
    ):
        rs.range(9).batch(3).rebatch(2).resume(state)


@pytest.mark.parametrize("kind", [">i4", "U3", "S2", "M8[s]", [("a", "i2")], object])
def test_arrays_of_unusual_dtypes_are_cut_as_their_rows_would_be_stacked(kind: Any) -> None:
    batches = [np.arange(4).astype(kind), np.arange(3).astype(kind)]
    rows = [row for batch in batches for row in batch]
    expected = list(rs.from_sequence(rows).batch(3))
    for made in (rs.from_sequence(batches), rs.from_iterable(lambda: iter(batches))):
        assert_same(list(made.rebatch(3)), expected, str(kind))
