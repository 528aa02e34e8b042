"""The indices that remain where some items of every epoch are left out."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, final

import numpy as np

from ..core.block import Indices

KEPT_EPOCHS: Final = 8
"""Epochs whose left-out indices are kept at a time."""


@final
class Remaining:
    """The items of all epochs but ``left_out`` ones of each, in their order.

    Args:
      length: items of an epoch; infinite if there is one alone that does not end.
      left_out: how many are left out in each epoch.
      indices_in: returns their indices within an epoch, of any order, shape (left_out,).
    """

    def __init__(
        self, length: int | float, left_out: int, indices_in: Callable[[int], Indices]
    ) -> None:
        self._length = length
        self._kept = length - left_out
        self._left_out = left_out
        self._indices_in = indices_in
        self._before_gaps = lru_cache(KEPT_EPOCHS)(self._before_gaps_of)

    def _before_gaps_of(self, epoch: int) -> Indices:
        """How many items remain before each one that is left out in ``epoch``, ascending."""
        gaps = np.sort(self._indices_in(epoch))
        return gaps - np.arange(len(gaps))

    def indices_of(self, places: Indices) -> Indices:
        """The index among all items of each of ``places`` among those that remain; both of shape (n,)."""
        if not self._left_out or not len(places):
            return places
        kept = int(self._kept)
        first, last = int(places.min()) // kept, int(places.max()) // kept
        if first == last:
            return self._in_epoch(first, places)
        indices, epochs = np.empty_like(places), places // kept
        for epoch in np.unique(epochs).tolist():
            here = epochs == epoch
            indices[here] = self._in_epoch(epoch, places[here])
        return indices

    def _in_epoch(self, epoch: int, places: Indices) -> Indices:
        within = places - epoch * int(self._kept)
        gaps = _counts_up_to(self._before_gaps(epoch), within)
        return within + (gaps + epoch * int(self._length))

    def place_of(self, index: int | float) -> int | float:
        """How many of the items before ``index`` among all remain."""
        if not self._left_out or index == math.inf:
            return index
        epoch, within = divmod(int(index), int(self._length))
        before = 0
        if within:
            gaps = self._before_gaps(epoch)
            before = int(np.searchsorted(gaps + np.arange(len(gaps)), within))
        return epoch * int(self._kept) + within - before


def _counts_up_to(ascending: Indices, numbers: Indices) -> Indices:
    """How many of ``ascending`` are at most each of ``numbers``; both of shape (n,)."""
    first, last = int(numbers[0]), int(numbers[-1])
    if last - first != len(numbers) - 1 or np.any(np.diff(numbers) != 1):
        counts: Indices = np.searchsorted(ascending, numbers, side="right")
        return counts
    # For consecutive numbers it takes a tenth of the time to count those that lie between them.
    before, until = np.searchsorted(ascending, [first, last], side="right").tolist()
    added = np.bincount(ascending[before:until] - first, minlength=len(numbers))
    added[0] += before
    return np.cumsum(added)


@final
class ChangingRemaining:
    """What remains where other items are left out from some item on.

    Args:
      length: number of all items, infinite if they do not end.
      firsts: the items, counted among those that remain, at which other ones are left out; ascending from 0.
      remaining: what remains from each of them on, if it had been so from the beginning.
    """

    def __init__(
        self, length: int | float, firsts: Sequence[int], remaining: Sequence[Remaining]
    ) -> None:
        self._firsts, self._remaining = list[int](), remaining
        # What a place of a part has to be added to be a place of its `Remaining`.
        self._shifts = list[int]()
        self.length = length
        index = 0
        for first, part in zip(firsts, remaining, strict=True):
            if self._firsts:
                if first > self.length:
                    break
                index = self.index_of(first - 1) + 1  # what follows the item before
            self._firsts.append(first)
            self._shifts.append(int(part.place_of(index)) - first)
            self.length = part.place_of(length) - self._shifts[-1]

    def index_of(self, place: int) -> int:
        """The index among all items of one that remains."""
        return int(self.indices_of(np.array([place], np.int64))[0])

    def indices_of(self, places: Indices) -> Indices:
        """The index among all items of each of ``places`` among those that remain; both of shape (n,)."""
        if not len(places):
            return places
        first = bisect_right(self._firsts, int(places.min())) - 1
        last = bisect_right(self._firsts, int(places.max())) - 1
        if first == last:
            return self._part(first, places)
        parts = np.searchsorted(self._firsts, places, side="right") - 1
        indices = np.empty_like(places)
        for part in np.unique(parts).tolist():
            indices[parts == part] = self._part(part, places[parts == part])
        return indices

    def _part(self, part: int, places: Indices) -> Indices:
        return self._remaining[part].indices_of(places + self._shifts[part])
