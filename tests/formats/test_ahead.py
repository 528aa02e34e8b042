"""Items that are made ahead: only those that the iterator is asked for, and each at its turn."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from resumable.formats.ahead import ReadAheadItems, Turns


class Source:
    """Items that are ten times their indices, of which up to ``most`` are made at once.

    Attributes:
      made: the indices of the items that were made.
    """

    def __init__(self, count: int, most: int) -> None:
        self.made: list[int] = []
        self.most = most
        self.turns = Turns()
        self.items = self.window(np.arange(count))

    def window(self, indices: Any) -> ReadAheadItems[int]:
        return ReadAheadItems(
            self._gather, indices, lambda _: lambda rest, asked: self.most, self.turns
        )

    def _gather(self, indices: Any) -> list[int]:
        self.made += indices.tolist()
        return [10 * index for index in indices.tolist()]

    def take(self, start: int, stop: int) -> Any:
        return list(self.items.gather(range(start, stop)))


def test_a_worker_makes_no_item_that_the_others_deliver() -> None:
    source = Source(1000, most=1)
    for start in range(32, 992, 64):
        assert source.take(start, start + 16) == [10 * n for n in range(start, start + 16)]
        source.most = 96  # from the second turn on, when it is known what is skipped
    assert source.made == [n for n in range(32, 1000) if (n - 32) % 64 < 16]


def test_the_next_indices_are_asked_for_in_the_same_turns() -> None:
    source = Source(100, most=1)
    source.take(0, 4)
    source.most = 12
    source.take(8, 12)
    source.made.clear()
    source.items = source.window(np.arange(100))
    assert source.take(0, 4) == [0, 10, 20, 30]
    assert source.made == [0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19]


@given(
    st.lists(
        st.tuples(
            st.sampled_from([0, 0, 3, 3, 3, 11, -5]),
            st.sampled_from([2, 2, 2, 1, 5]),
            st.booleans(),
        ),
        max_size=30,
    ),
    st.integers(1, 40),
)
def test_whatever_is_skipped_each_item_comes_at_its_turn(
    steps: list[tuple[int, int, bool]], most: int
) -> None:
    source, place = Source(400, most), 0
    for skipped, count, one_by_one in steps:
        place = max(place + skipped, 0)
        places = range(place, place + count)
        if one_by_one:
            found = list(source.items.items(places))
        else:
            found = list(source.items.gather(places))
        assert found == [10 * n for n in places]
        place += count
    assert source.turns.changes <= 12 + len(steps)
