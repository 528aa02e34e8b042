"""A position counts what was taken, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from resumable.core.position import Position


def failing() -> Iterator[int]:
    yield from range(3)
    raise ValueError("no more")


def test_a_position_moves_on_with_each_item_taken() -> None:
    position = Position()
    position.move_to(7)
    items = position.counting(iter("abc"))
    assert position.number == 7
    for number, item in enumerate(items, 8):
        assert position.number == number, item


def test_neither_the_end_nor_an_error_counts() -> None:
    position = Position()
    assert list(position.counting(iter(""))) == []
    assert position.number == 0
    with pytest.raises(ValueError, match="no more"):
        list(position.counting(failing()))
    assert position.number == 3


def test_what_counted_before_a_move_counts_no_more() -> None:
    position = Position()
    before = position.counting(iter("abc"))
    next(before)
    position.move_to(5)
    next(before)
    assert position.number == 5
    after = position.counting(iter("abc"))
    next(before)
    next(after)
    assert position.number == 6


def test_a_position_can_move_by_several_at_an_item() -> None:
    position = Position()
    items = position.counting(iter("abc"), step=4)
    next(items)
    next(items)
    assert position.number == 8
    next(position.counting(iter("abc")))
    assert position.number == 9
