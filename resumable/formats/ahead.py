"""Make items ahead of their turn, where many at once cost little more than one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar, final

from ..core.block import Block, Indices, block_items, copy_block, slice_block
from ..core.prepared_items import PreparedItems
from .io.open_files import ReadingAhead

T = TypeVar("T")


@final
class ReadAheadItems(PreparedItems[T], Generic[T]):
    """Items of files at many indices, of which some are made ahead, and handed out once each.

    Reading files has no effects, so no user can tell. The error of a later item is not raised.

    Args:
      gather: makes a block of the items at some indices.
      indices: of the items, shape (places,), int64.
      reach: how many items to make at once, if no more are asked for: called with the indices from the
        next item on, and how many are asked for.
    """

    def __init__(
        self,
        gather: Callable[[Indices], Block],
        indices: Indices,
        reach: Callable[[Indices, int], int],
    ) -> None:
        self._gather = gather
        self._indices = indices
        self._reach = reach
        self._block: Block = []  # of the places from `_first` to `_stop`; those before `_next` are gone
        self._first = self._next = self._stop = 0
        self._items = iter(list[T]())
        self._items_next = self._items_stop = 0

    def gather(self, places: range) -> Block:
        if places.start < self._next or places.stop > self._stop:
            self._block, self._stop = self._made(places)
            self._first = places.start
        self._next = places.stop
        part = slice_block(self._block, places.start - self._first, places.stop - self._first)
        return copy_block(part)

    def items(self, places: range) -> Iterator[T]:
        return map(self._item, places)

    def _item(self, place: int) -> T:
        if place != self._items_next or place >= self._items_stop:
            block, self._items_stop = self._made(range(place, place + 1))
            self._items = iter(block_items(block))
        self._items_next = place + 1
        return next(self._items)

    def _made(self, places: range) -> tuple[Block, int]:
        """A block of ``places`` and of more behind them, and where it ends."""
        count = self._reach(self._indices[places.start :], len(places))
        if count > len(places):
            stop = min(places.start + count, len(self._indices))
            with ReadingAhead():
                return self._gather(self._indices[places.start : stop]), stop
        return self._gather(self._indices[places.start : places.stop]), places.stop
