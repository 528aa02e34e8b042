"""Make items ahead of their turn, where many at once cost little more than a single item."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Generic, TypeAlias, TypeVar, final

import numpy as np

from ..core.block import Block, Indices, block_items, copy_block, slice_block
from ..core.prepared_items import PreparedItems
from .io.open_files import ReadingAhead

T = TypeVar("T")


Reach: TypeAlias = Callable[[Indices, int], int]
"""How many items to make: called with the indices from the next item on, and the count asked for."""

NO_PLACES: Final = range(0)

GROWTH: Final = 4
"""Factor by which the number of items made at once grows each time."""


def growing(most: int) -> Callable[[Indices], Reach]:
    """A plan, for indices of shape (n,), that makes few items at once at first, and later ``most``."""

    def plan(planned: Indices) -> Reach:
        count = 0

        def reach(rest: Indices, asked: int) -> int:
            nonlocal count
            made = max(min(count, most) // asked, 1) * asked
            count = min(max(GROWTH * count, asked), most)
            return made

        return reach

    return plan


MOST_CHANGES: Final = 4
"""Changes of turns after which skipped items are no longer taken for a pattern."""


@dataclass(frozen=True)
class Turns:
    """A pattern of items taken and skipped in turns, as by one of several workers.

    Attributes:
      taken: items taken at each turn.
      every: items per turn, taken and skipped; equal to `taken` if none are skipped.
    """

    taken: int = 1
    every: int = 1

    @property
    def are_all(self) -> bool:
        """Whether no item is skipped."""
        return self.taken == self.every


@dataclass
class TurnsSeen:
    """The turns that the windows of an iterator have seen.

    Several windows may be alive at a time, so each window plans by its own turns, and only begins
    with the turns that were seen last.

    Attributes:
      last: the turns that were seen last.
      changes: how often the turns have changed.
    """

    last: Turns = Turns()
    changes: int = 0


@final
class ReadAheadItems(PreparedItems[T], Generic[T]):
    """Items of files at many indices, some made ahead, each handed out once.

    Reading files has no side effects, so reading ahead is not observable. Errors of later items are
    not raised early.

    Args:
      gather: makes a block of the items at some indices.
      indices: of the items, shape (places,), int64.
      plan: returns a `Reach` for the indices of the planned items, shape (n,), int64.
      seen: the turns known from other windows of the iterator.
    """

    def __init__(
        self,
        gather: Callable[[Indices], Block],
        indices: Indices,
        plan: Callable[[Indices], Reach],
        seen: TurnsSeen,
    ) -> None:
        self._gather = gather
        self._all = indices
        self._plan = plan
        self._seen = seen
        self._turns = seen.last
        # The last requested places; the first planned place.
        self._taken, self._from = NO_PLACES, 0
        # The block of the planned places from `_first` to `_stop`; items before `_next` were handed
        # out.
        self._block: Block = []
        self._first = self._next = self._stop = 0
        self._items: Iterator[T] = iter(())
        self._items_next = self._items_stop = 0
        self._begin(0)

    def gather(self, places: range) -> Block:
        self._watch(places)
        places = self._among_own(places)
        if places.start < self._next or places.stop > self._stop:
            self._block, self._stop = self._made(places)
            self._first = places.start
        self._next = places.stop
        part = slice_block(self._block, places.start - self._first, places.stop - self._first)
        return copy_block(part)

    def items(self, places: range) -> Iterator[T]:
        return map(self._item, places)

    def _item(self, place: int) -> T:
        own = place - self._from
        if own != self._items_next or own >= self._items_stop or not self._turns.are_all:
            if not self._turns.are_all:
                self._change(Turns(), place)
            elif own < 0:
                self._begin(place)
            own = place - self._from
            block, self._items_stop = self._made(range(own, own + 1))
            self._items = iter(block_items(block))
        self._taken = NO_PLACES
        self._items_next = own + 1
        return next(self._items)

    def _watch(self, places: range) -> None:
        """Notice skipped items, and plan again if the turns have changed."""
        last, turns = self._taken, self._turns
        self._taken = places
        skips = len(last) == len(places) and last.stop < places.start
        if turns.are_all and skips and self._seen.changes < MOST_CHANGES:
            self._change(Turns(len(places), places.start - last.start), places.start)
        elif (
            not turns.are_all
            and (places.start - self._from) % turns.every + len(places) > turns.taken
        ):
            self._change(Turns(), places.start)
        elif places.start < self._from:
            self._begin(places.start)

    def _change(self, turns: Turns, place: int) -> None:
        """Plan by other turns from ``place`` on."""
        self._turns = self._seen.last = turns
        self._seen.changes += 1
        self._begin(place)

    def _among_own(self, places: range) -> range:
        """The numbers of ``places`` among the planned items."""
        first = places.start - self._from
        if not self._turns.are_all:
            turn, within = divmod(first, self._turns.every)
            first = turn * self._turns.taken + within
        return range(first, first + len(places))

    def _begin(self, place: int) -> None:
        """Plan for the items from ``place`` on, without skipped items."""
        self._from = place
        self._indices = self._all[place:]
        if not self._turns.are_all:
            within = np.arange(len(self._indices)) % self._turns.every
            self._indices = self._indices[within < self._turns.taken]
        self._reach = self._plan(self._indices)
        self._block, self._items = [], iter(())
        self._first = self._next = self._stop = 0
        self._items_next = self._items_stop = 0

    def _made(self, places: range) -> tuple[Block, int]:
        """A block of ``places`` and of more places after them, and the end of the block."""
        count = self._reach(self._indices[places.start :], len(places))
        if count > len(places):
            stop = min(places.start + count, len(self._indices))
            with ReadingAhead():
                return self._gather(self._indices[places.start : stop]), stop
        return self._gather(self._indices[places.start : places.stop]), places.stop
