"""The bytes of a file to read for its groups of rows, and their size once decoded."""

from __future__ import annotations

from typing import Final, final

import numpy as np
import numpy.typing as npt

from ...core.block import Indices, joined_ranges

SMALL_GAP: Final = 1 << 13
"""Largest gap in bytes between two ranges that are read together, as in pyarrow."""

ROUNDS: Final = 4


@final
class GroupReads:
    """The units that are read for the groups of a file; parts of a row group share one unit.

    Args:
      number_of: the number of each group's unit, from 0, ascending, shape (groups,).
      decoded: approximate bytes of each unit in memory, shape (numbers,).
      numbers: of the unit of each range of bytes, shape (ranges,).
      starts: of the ranges, shape (ranges,).
      ends: of the ranges, shape (ranges,).

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
        # The first range of each unit, and the number of all ranges.
        self._firsts = np.searchsorted(numbers[begins], np.arange(len(decoded) + 1))

    def ranges_of(self, numbers: Indices) -> tuple[Indices, Indices, Indices]:
        """The ranges to read for the units ``numbers``, shape (n,).

        Returns:
          for each range the place of its unit in ``numbers``, its start and its end; all of shape
          (ranges,).
        """
        counts = self._firsts[numbers + 1] - self._firsts[numbers]
        places = np.repeat(np.arange(len(numbers)), counts)
        ranges = joined_ranges(self._firsts[numbers], counts)
        return places, self._starts[ranges], self._ends[ranges]

    def of_one(self, number: int) -> list[tuple[int, int]]:
        """The ranges to read for the unit ``number``, in order."""
        _, starts, ends = self.ranges_of(np.array([number], np.int64))
        return list(zip(starts.tolist(), ends.tolist(), strict=True))


def read_again(
    groups: Indices, decoded: Indices, kept: npt.NDArray[np.bool_], most: int
) -> npt.NDArray[np.bool_]:
    """Whether each use of a group must read it, as the group is no longer decoded; shape (n,).

    Args:
      groups: the group of each use, in the order of time, shape (n,).
      decoded: approximate bytes of this group once decoded, shape (n,).
      kept: whether this group is decoded before the first use, shape (n,).
      most: bytes of decoded groups that are kept; the last used groups stay.
    """
    order = np.argsort(groups, kind="stable")
    again = groups[order][1:] == groups[order][:-1]
    previous = np.full(len(groups), -1)
    previous[order[1:]] = np.where(again, order[:-1], -1)
    known, own = (previous >= 0) | kept, np.minimum(decoded, most)
    read = np.ones(len(groups), np.bool_)
    # The bytes decoded since a use are overestimated at first, and less so in each round.
    for _ in range(ROUNDS):
        added = np.where(read, decoded, 0)
        after = np.cumsum(added)
        since = after - added - np.where(previous >= 0, after[previous], 0)
        read = ~known | (since + own > most)
    return read
