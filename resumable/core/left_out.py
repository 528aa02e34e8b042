"""Which items of an order are left out, and which remain."""

# An order may be endless, such as a mix of repeated corpora. So a `LeftOut` tells how many items before an index
# are left out, rather than listing all of them.

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import ClassVar, Final, TypeAlias, final

import numpy as np
import numpy.typing as npt

from .block import NO_INDICES, Indices

Mask: TypeAlias = npt.NDArray[np.bool_]

KEPT_EPOCHS: Final = 8
"""Epochs of which it is kept at a time what is left out."""
MOST_LISTED: Final = 1 << 25
"""The most left-out items that are listed: a list of so many takes 256 MiB."""
LOOKED_AT_ONCE: Final = 1 << 16
"""The most consecutive items that are looked at together to see which of them remain."""
FEWEST_AT_ONCE: Final = 64
GUESSES: Final = 8
"""How often a guessed index is improved before it is searched for. This suffices where few items are left out."""


class LeftOut(ABC):
    """The items of an order that are left out.

    Attributes:
      total: how many; infinite if they do not end.
      alike: whether there are as many in every epoch.
    """

    total: int | float
    alike: bool = True

    def can_be_listed(self, stop: float = math.inf) -> bool:
        """Whether those before ``stop`` are few enough to be listed by `up_to`."""
        if self.total <= MOST_LISTED:
            return True
        return stop < math.inf and self.before(int(stop)) <= MOST_LISTED

    @abstractmethod
    def before(self, index: int) -> int:
        """How many of the items before ``index`` are left out."""

    @abstractmethod
    def among(self, indices: Indices) -> Mask:
        """Whether each of the items at ``indices`` is left out; both of shape (n,)."""

    @abstractmethod
    def up_to(self, stop: int) -> Indices:
        """The indices before ``stop`` of the items that are left out, ascending; shape (n,)."""

    def kept_before(self, index: int) -> int:
        """How many of the items before ``index`` remain."""
        return index - self.before(index) if index else 0

    def remaining(self, places: Indices) -> Indices:
        """The index of each of ``places`` among the items that remain; both of shape (n,)."""
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
        # Invariant: `index` is at most the index that is looked for.
        index = place
        for _ in range(GUESSES):
            guess = place + self.before(index + 1)
            if guess == index:
                return index
            index = guess
        step = 1
        while self.kept_before(index + step) <= place:
            index, step = index + step, 2 * step
        # Invariant: at most `place` of the items before `index` remain, and more of those before `index + step`.
        while step > 1:
            half = step // 2
            if self.kept_before(index + half) <= place:
                index, step = index + half, step - half
            else:
                step = half
        return index


@final
class AtPlaces(LeftOut):
    """Items that are left out at some indices.

    Args:
      count: how many.
      places: returns their indices, in any order, shape (count,); it is called once, when they are needed.
      alike: whether there are as many in every epoch.
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
        """Their indices, ascending; shape (total,)."""
        return np.sort(self._unordered()) if self.total else NO_INDICES

    @cached_property
    def _before_gaps(self) -> Indices:
        """How many items remain before each one that is left out, ascending."""
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
    """Whether each of ``numbers``, shape (n,), is one more than the one before; False if there are none."""
    if not len(numbers) or int(numbers[-1]) - int(numbers[0]) != len(numbers) - 1:
        return False
    return not np.any(np.diff(numbers) != 1)


def _counts_up_to(ascending: Indices, numbers: Indices) -> Indices:
    """How many of ``ascending`` are at most each of ``numbers``; both of shape (n,)."""
    first, last = int(numbers[0]), int(numbers[-1])
    if not _follow_each_other(numbers):
        counts: Indices = np.searchsorted(ascending, numbers, side="right")
        return counts
    # For consecutive numbers it takes a tenth of the time to count those that lie between them.
    before, until = np.searchsorted(ascending, [first, last], side="right").tolist()
    added = np.bincount(ascending[before:until] - first, minlength=len(numbers))
    added[0] += before
    return np.cumsum(added)
