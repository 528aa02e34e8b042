"""The items left out of an order, and the remaining items."""

# An order may be endless, such as a mix of repeated corpora. So a `LeftOut` returns how many items
# before an index are left out, rather than listing all left-out items.

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import ClassVar, Final, TypeAlias, final

import numpy as np
import numpy.typing as npt

from .block import NO_INDICES, Indices
from .orders import last_up_to

Mask: TypeAlias = npt.NDArray[np.bool_]

KEPT_EPOCHS: Final = 8
"""Number of epochs whose left-out items are kept at a time."""
MOST_LISTED: Final = 1 << 25
"""The most left-out items to list: a list of so many items takes 256 MiB."""
LOOKED_AT_ONCE: Final = 1 << 16
"""The most consecutive items examined together for remaining items."""
FEWEST_AT_ONCE: Final = 64
GUESSES: Final = 8
"""Improvements of a guessed index before a search; enough where few items are left out."""


class LeftOut(ABC):
    """The items of an order that are left out.

    Attributes:
      total: number of left-out items; infinite if endless.
      alike: whether every epoch has the same number.
    """

    total: int | float
    alike: bool = True

    def can_be_listed(self, stop: float = math.inf) -> bool:
        """Whether the left-out items before ``stop`` are few enough for `up_to`."""
        if self.total <= MOST_LISTED:
            return True
        return stop < math.inf and self.before(int(stop)) <= MOST_LISTED

    @abstractmethod
    def before(self, index: int) -> int:
        """Number of left-out items before ``index``."""

    @abstractmethod
    def among(self, indices: Indices) -> Mask:
        """Whether each of the items at ``indices`` is left out; both of shape (n,)."""

    @abstractmethod
    def up_to(self, stop: int) -> Indices:
        """The indices before ``stop`` of the left-out items, ascending; shape (n,)."""

    def kept_before(self, index: int) -> int:
        """Number of remaining items before ``index``."""
        return index - self.before(index) if index else 0

    def remaining(self, places: Indices) -> Indices:
        """The index of each of ``places`` among the remaining items; both of shape (n,)."""
        order = np.argsort(places, kind="stable")
        ascending = places[order]
        found = np.empty_like(places)
        start = 0
        while start < len(places):
            first = int(ascending[start])
            stop = int(np.searchsorted(ascending, first + LOOKED_AT_ONCE))
            found[order[start:stop]] = self._in_a_row(first, ascending[start:stop] - first)
            start = stop
        return found

    def _in_a_row(self, first: int, offsets: Indices) -> Indices:
        """`remaining` for places ``offsets`` after ``first``, ascending."""
        missing, index = int(offsets[-1]) + 1, self._index_of(first)
        kept = list[Indices]()
        while missing > 0:
            size = min(max(missing + missing // 8, FEWEST_AT_ONCE), LOOKED_AT_ONCE)
            some = np.arange(index, index + size, dtype=np.int64)
            kept.append(some[~self.among(some)])
            missing -= len(kept[-1])
            index += size
        return np.concatenate(kept)[offsets]

    def _index_of(self, place: int) -> int:
        """`remaining` for one place."""
        # Invariant: `index` is at most the index searched for.
        index = place
        for _ in range(GUESSES):
            guess = place + self.before(index + 1)
            if guess == index:
                return index
            index = guess
        return last_up_to(place, self.kept_before, index)


@final
class AtPlaces(LeftOut):
    """Items left out at some indices.

    Args:
      count: number of left-out items.
      places: returns the indices, in any order, shape (count,); called once, when needed.
      alike: whether every epoch has the same number.
    """

    NOTHING: ClassVar[AtPlaces]

    def __init__(self, count: int, places: Callable[[], Indices], *, alike: bool = True) -> None:
        self.total = count
        self.alike = alike
        self._unordered = places

    @classmethod
    def of(cls, places: Indices, *, alike: bool = True) -> AtPlaces:
        """Items at ``places``, shape (n,)."""
        return cls(len(places), lambda: places, alike=alike)

    @cached_property
    def places(self) -> Indices:
        """The indices of the left-out items, ascending; shape (total,)."""
        return np.sort(self._unordered()) if self.total else NO_INDICES

    @cached_property
    def _before_gaps(self) -> Indices:
        """Number of remaining items before each left-out item, ascending; shape (total,)."""
        return self.places - np.arange(len(self.places))

    def before(self, index: int) -> int:
        return int(np.searchsorted(self.places, index))

    def among(self, indices: Indices) -> Mask:
        if _follow_each_other(indices):
            first = int(indices[0])
            start, stop = np.searchsorted(self.places, [first, first + len(indices)]).tolist()
            mask: Mask = np.zeros(len(indices), np.bool_)
            mask[self.places[start:stop] - first] = True
            return mask
        found = np.searchsorted(self.places, indices)
        mask = found < len(self.places)
        mask[mask] = self.places[found[mask]] == indices[mask]
        return mask

    def up_to(self, stop: int) -> Indices:
        return self.places[: self.before(stop)]

    def remaining(self, places: Indices) -> Indices:
        if not self.total or not len(places):
            return places
        return places + _counts_up_to(self._before_gaps, places)


AtPlaces.NOTHING = AtPlaces.of(NO_INDICES)


def _follow_each_other(numbers: Indices) -> bool:
    """Whether ``numbers``, shape (n,), ascend by 1; False if empty."""
    if not len(numbers) or int(numbers[-1]) - int(numbers[0]) != len(numbers) - 1:
        return False
    return not np.any(np.diff(numbers) != 1)


def _counts_up_to(ascending: Indices, numbers: Indices) -> Indices:
    """How many of ``ascending`` are at most each of ``numbers``; both of shape (n,)."""
    first, last = int(numbers[0]), int(numbers[-1])
    if not _follow_each_other(numbers):
        counts: Indices = np.searchsorted(ascending, numbers, side="right")
        return counts
    # For consecutive numbers, counting the entries between them takes a tenth of the time.
    before, until = np.searchsorted(ascending, [first, last], side="right").tolist()
    added = np.bincount(ascending[before:until] - first, minlength=len(numbers))
    added[0] += before
    return np.cumsum(added)
