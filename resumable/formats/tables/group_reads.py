"""Which bytes of a file are read for its groups of rows, and what they take once they are decoded."""

from __future__ import annotations

from typing import Final, final

import numpy as np
import numpy.typing as npt

from ...core.block import Indices, joined_ranges

SMALL_GAP: Final = 1 << 13
"""Bytes between two ranges that are read with them, as pyarrow does."""

ROUNDS: Final = 4


@final
class GroupReads:
    """What is read for each group of a file; a part of a row group is read with all of that.

    Args:
      number_of: the number of what is read for each group, from 0, ascending, shape (groups,).
      decoded: bytes that each of these takes in memory, about, shape (numbers,).
      numbers: of each range of bytes the number of what it is read for, shape (ranges,).
      starts: where it begins, shape (ranges,).
      ends: where it ends, shape (ranges,).

    Attributes:
      number_of: as given.
      decoded: as given.
    """

    def __init__(
        self,
        number_of: Indices,
        decoded: Indices,
        numbers: Indices,
        starts: Indices,
        ends: Indices,
    ) -> None:
        self.number_of, self.decoded = number_of, decoded
        order = np.lexsort((starts, numbers))
        numbers, starts, ends = numbers[order], starts[order], ends[order]
        apart = (np.diff(numbers) != 0) | (starts[1:] - ends[:-1] > SMALL_GAP)
        begins = np.flatnonzero(np.concatenate([np.ones(min(len(order), 1), np.bool_), apart]))
        lasts = np.append(begins[1:], len(order))[: len(begins)] - 1
        self._starts, self._ends = starts[begins], ends[lasts]
        # The first range of each number, and the end of all.
        self._firsts = np.searchsorted(numbers[begins], np.arange(len(decoded) + 1))

    def ranges_of(self, numbers: Indices) -> tuple[Indices, Indices, Indices]:
        """The ranges that are read for ``numbers``, shape (n,).

        Returns:
          for each range its place in ``numbers``, where it begins and where it ends; all of shape (ranges,).
        """
        counts = self._firsts[numbers + 1] - self._firsts[numbers]
        places = np.repeat(np.arange(len(numbers)), counts)
        ranges = joined_ranges(self._firsts[numbers], counts)
        return places, self._starts[ranges], self._ends[ranges]

    def of_one(self, number: int) -> list[tuple[int, int]]:
        """The ranges that are read for ``number``, in order."""
        _, starts, ends = self.ranges_of(np.array([number], np.int64))
        return list(zip(starts.tolist(), ends.tolist(), strict=True))


def read_again(
    groups: Indices, decoded: Indices, kept: npt.NDArray[np.bool_], most: int
) -> npt.NDArray[np.bool_]:
    """At which of some uses of groups, in the order of time, the group is no longer decoded and must be read.

    Args:
      groups: which group is used, shape (n,).
      decoded: bytes that it takes once it is decoded, about, shape (n,).
      kept: whether it is decoded before the first use, shape (n,).
      most: bytes of decoded groups that are kept, those that were used last.
    """
    order = np.argsort(groups, kind="stable")
    again = groups[order][1:] == groups[order][:-1]
    previous = np.full(len(groups), -1)
    previous[order[1:]] = np.where(again, order[:-1], -1)
    known, own = (previous >= 0) | kept, np.minimum(decoded, most)
    read = np.ones(len(groups), np.bool_)
    # What was decoded since a group was used is at first taken for more than it is, and less in each round.
    for _ in range(ROUNDS):
        added = np.where(read, decoded, 0)
        after = np.cumsum(added)
        since = after - added - np.where(previous >= 0, after[previous], 0)
        read = ~known | (since + own > most)
    return read
