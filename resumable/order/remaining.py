"""What remains where other items are left out from some item on."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import final

import numpy as np

from ..core.block import Indices
from ..core.left_out import LeftOut


@final
class Remaining:
    """The items that remain where other ones are left out from some item on.

    Args:
      length: number of all items, infinite if they do not end.
      firsts: the items, counted among those that remain, at which other ones are left out; ascending from 0.
      left_out: what is left out from each of them on, if it had been so from the beginning.
    """

    def __init__(
        self, length: int | float, firsts: Sequence[int], left_out: Sequence[LeftOut]
    ) -> None:
        self._firsts, self._left_out = list[int](), left_out
        # What a place of a part has to be added to be one of what remains if it is so from the beginning.
        self._shifts = list[int]()
        self.length = length
        index = 0
        for first, part in zip(firsts, left_out, strict=True):
            if self._firsts:
                if first > self.length:
                    break
                index = self.index_of(first - 1) + 1  # what follows the item before
            self._firsts.append(first)
            self._shifts.append(part.kept_before(index) - first)
            kept = length if length == math.inf else length - part.total
            self.length = kept - self._shifts[-1]

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
        return self._left_out[part].remaining(places + self._shifts[part])
