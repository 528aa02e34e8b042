"""A pass ends at the first item that the predicate refuses, and reads nothing after it."""

from __future__ import annotations

from itertools import islice, takewhile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import UpTo, stream

import resumable as rs
from resumable.core import block_items


@given(st.lists(st.integers(0, 9), max_size=20), st.integers(0, 9), st.integers(1, 5))
def test_the_items_are_those_of_itertools(items: list[int], bound: int, count: int) -> None:
    taken = rs.from_sequence(items).take_while(lambda item: item < bound)
    expected = list(takewhile(lambda item: item < bound, items))
    assert list(taken) == expected
    iterator = iter(taken)
    pulled: list[Any] = []
    while block := block_items(iterator.pull(count)):
        pulled += block
    assert pulled == expected


def test_only_the_refused_item_is_read_in_vain() -> None:
    read: list[int] = []

    def note(item: int) -> int:
        read.append(item)
        return item

    pipeline = stream(30).map(note).take_while(lambda item: item < 5)
    for iterator in (iter(pipeline), iter(pipeline)):
        read.clear()
        assert block_items(iterator.pull(20)) == [0, 1, 2, 3, 4]
        assert list(iterator) == []
        assert read == [0, 1, 2, 3, 4, 5]


def test_what_has_ended_stays_ended_after_a_resume_whatever_comes_next() -> None:
    pipeline = rs.from_sequence([1, 9, 1, 1]).take_while(lambda item: item < 5)
    iterator = iter(pipeline)
    assert list(iterator) == [1]
    state = rs.loads(rs.dumps(iterator.get_state()))
    assert state["pipeline"]["ended"] is True
    assert list(pipeline.resume(state)) == []
    assert list(pipeline.repeat(2)) == [1, 1]


def test_a_predicate_with_state_goes_on_after_a_resume() -> None:
    iterator = iter(rs.range(20).take_while(UpTo(30)))
    first = list(islice(iterator, 4))
    resumed = rs.range(20).take_while(UpTo(30)).resume(iterator.get_state())
    assert first + list(resumed) == [0, 1, 2, 3, 4, 5, 6, 7]


def test_an_error_of_the_predicate_changes_nothing() -> None:
    broken = True

    def below(item: int) -> bool:
        if broken and item == 2:
            raise OSError("no answer")
        return item < 4

    iterator = iter(stream(9).take_while(below))
    assert [next(iterator), next(iterator)] == [0, 1]
    state = iterator.get_state()
    with pytest.raises(OSError, match="no answer"):
        next(iterator)
    assert iterator.get_state() == state
    broken = False
    assert list(iterator) == [2, 3]


def test_a_predicate_must_be_a_function() -> None:
    with pytest.raises(rs.InvalidType, match="predicate must be"):
        rs.range(9).take_while(3)  # type: ignore[arg-type]
    assert rs.range(9).take_while(bool).length is None
