"""Items that are made ahead: only those that the iterator is asked for, and each at its turn."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from formats.shard_files import mds_files, write_files
from hypothesis import example, given
from hypothesis import strategies as st

import resumable as rs
from resumable.formats.ahead import ReadAheadItems, TurnsSeen

OfLength = Callable[[int], rs.Pipeline[Any]]


class Source:
    """Items that are ten times their indices, of which up to ``most`` are made at once.

    Attributes:
      made: the indices of the items that were made.
    """

    def __init__(self, count: int, most: int) -> None:
        self.made: list[int] = []
        self.most = most
        self.seen = TurnsSeen()
        self.items = self.window(np.arange(count))

    def window(self, indices: Any) -> ReadAheadItems[int]:
        return ReadAheadItems(
            self._gather, indices, lambda _: lambda rest, asked: self.most, self.seen
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
            st.integers(0, 1),
            st.sampled_from([0, 3, 11, -5]),
            st.sampled_from([2, 1, 5]),
            st.integers(1, 4),
            st.booleans(),
        ),
        max_size=12,
    ),
    st.integers(1, 40),
)
@example([(0, 3, 2, 2, False), (1, 0, 2, 1, False), (1, 3, 2, 3, False)], 1)
def test_whatever_is_skipped_in_each_of_two_windows_each_item_comes_at_its_turn(
    steps: list[tuple[int, int, int, int, bool]], most: int
) -> None:
    source = Source(400, most)
    windows, at = [source.window(np.arange(400)) for _ in range(2)], [0, 0]
    for window, skipped, count, times, one_by_one in steps:
        for _ in range(times):
            place = max(at[window] + skipped, 0)
            places = range(place, place + count)
            ask = windows[window].items if one_by_one else windows[window].gather
            assert list(ask(places)) == [10 * n for n in places]
            at[window] = place + count
    assert source.seen.changes <= 12 + 4 * len(steps)


@pytest.fixture(scope="module")
def of_length(tmp_path_factory: pytest.TempPathFactory) -> OfLength:
    """Returns for a length a data set of so many records, which are read ahead."""
    folder = tmp_path_factory.mktemp("mds")

    @cache
    def written(length: int) -> rs.Pipeline[Any]:
        samples = [(1000 * length + number, "") for number in range(length)]
        return rs.mds(write_files(folder / str(length), mds_files(samples, 40)))

    return written


@given(
    st.lists(st.sampled_from([1, 8, 13, 18, 60, 100, 101]), min_size=2, max_size=6),
    st.integers(1, 9),
    st.integers(1, 3),
)
def test_interleaved_records_come_in_batches_as_they_come_one_by_one(
    of_length: OfLength, lengths: list[int], size: int, block_length: int
) -> None:
    sources = [of_length(length) for length in lengths]
    turns = rs.interleave(*sources, block_length=block_length).map(_number)
    assert [n for batch in turns.batch(size) for n in batch.tolist()] == list(turns)


def _number(record: dict[str, Any]) -> int:
    number: int = record["n"]
    return number
