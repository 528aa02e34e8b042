"""One test for each fault in what other loaders take for the same data, or make of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import resumable as rs


class Count:
    """An iterator with get_state/set_state that counts from any number on."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        self.number += 1
        return self.number - 1

    def get_state(self) -> dict[str, int]:
        return {"number": self.number}

    def set_state(self, state: dict[str, int]) -> None:
        self.number = state["number"]


def state_after(pipeline: rs.Pipeline[Any], steps: int) -> dict[str, Any]:
    """A state in the middle of a pass, through bytes."""
    with iter(pipeline) as iterator:
        iterator.pull(steps)
        return rs.loads(rs.dumps(iterator.get_state()))


def test_a_state_before_the_first_item_holds_where_the_iterator_stood() -> None:
    start = state_after(rs.from_iterable(Count(5)), 0)
    iterator = rs.from_iterable(Count(0)).resume(start)
    assert [next(iterator), next(iterator)] == [5, 6]
    again = rs.from_iterable(Count(0)).resume(start).get_state()
    assert again == start, "a state that was not used yet is the same when it is taken again"


def test_a_state_before_the_first_item_holds_where_a_file_stood(tmp_path: Any) -> None:
    (tmp_path / "f").write_text("a\nb\nc\n")
    with open(tmp_path / "f") as file:
        file.readline()
        start = state_after(rs.from_iterable(file), 0)
    with open(tmp_path / "f") as file:
        assert list(rs.from_iterable(file).resume(start)) == ["b\n", "c\n"]


def test_a_position_without_the_state_of_the_iterator_is_refused() -> None:
    by_count = state_after(rs.from_iterable(lambda: iter(range(9))), 3)
    with pytest.raises(rs.StateMismatch, match=r"saved position=3 without a state for get_state"):
        rs.from_iterable(Count(0)).resume(by_count)
