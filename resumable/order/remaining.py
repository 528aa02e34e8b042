"""The remaining items, with records left out from given items on."""

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
    """The remaining items, where the left-out items change at given items.

    Args:
      length: number of all items, infinite without an end.
      firsts: the items, counted among the remaining items, where the left-out items change;
        ascending from 0.
      left_out: the items left out from each of ``firsts`` on, as if left out from the start.
    """

    def __init__(
        self, length: int | float, firsts: Sequence[int], left_out: Sequence[LeftOut]
    ) -> None:
        self._firsts, self._left_out = list[int](), left_out
        # For each part, the offset from a place to the index among the items kept by the part.
        self._shifts = list[int]()
        self.length = length
        index = 0
        for first, part in zip(firsts, left_out, strict=True):
            if self._firsts:
                if first > self.length:
                    break
                index = self.index_of(first - 1) + 1  # after the previous item
            self._firsts.append(first)
            self._shifts.append(part.kept_before(index) - first)
            kept = length if length == math.inf else length - part.total
            self.length = kept - self._shifts[-1]

    def index_of(self, place: int) -> int:
        """The index, among all items, of the remaining item at ``place``."""
        return int(self.indices_of(np.array([place], np.int64))[0])

    def indices_of(self, places: Indices) -> Indices:
        """The indices, among all items, of the remaining ones at ``places``; both of shape (n,)."""
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
