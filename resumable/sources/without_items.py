"""Leave out items of a source with counted items."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeVar, final

import numpy as np

from ..core.reach import Reach
from ..core.relation import Kept, Relation
from ..core.replay_point import END
from ..core.source_item import SourceItem
from ..core.stage_iterator import ItemByItem, Items, StageIterator
from ..core.transform import PassThrough, StateForwardingIterator
from ..order.remaining import Remaining

T = TypeVar("T")

PLACES_AT_ONCE: Final = 512
"""The most items whose numbers are looked up together."""


@final
@dataclass(frozen=True, eq=False, repr=False)
class WithoutItems(PassThrough[T]):
    """The remaining items of a source with states that count the items read.

    The states are the source's.
    """

    remaining: Remaining

    def relation(self, epoch: int) -> Relation:
        return Kept(self, epoch, remaining=lambda: self.remaining, in_order=True)

    def start(self, epoch: int = 0) -> StageIterator[T]:
        return _WithoutItemsIterator(self, epoch)


class _WithoutItemsIterator(ItemByItem[T], StateForwardingIterator[T]):
    _stage: WithoutItems[T]

    def __init__(self, stage: WithoutItems[T], epoch: int) -> None:
        super().__init__(stage, epoch)
        self._epoch = epoch

    def items(self) -> Items[T]:
        return Items(self._walk())

    def _walk(self) -> Iterator[T]:
        # No count is kept between runs, so an interrupt leaves no wrong count.
        read, place = self._position()
        while True:
            places = np.arange(place, place + PLACES_AT_ONCE, dtype=np.int64)
            for index in self._stage.remaining.indices_of(places).tolist():
                self._upstream.skip(index - read)
                item: Any = next(self._upstream, END)
                if item is END:
                    return
                read = index + 1
                yield item
            place += PLACES_AT_ONCE

    def _position(self) -> tuple[int, int]:
        """The number of items handed out by upstream, and how many remain."""
        read = self._upstream._items_delivered or 0
        return read, bisect_left(range(read), read, key=self._stage.remaining.index_of)

    def origin(self, back: int) -> SourceItem | None:
        return self._upstream.origin(back) if back == 1 else None

    def _reached(self) -> Iterator[Reach]:
        read, place = self._position()
        last = self._stage.remaining.index_of(place - 1) if place else -1
        # At the end the last left-out records were passed over.
        yield Reach(self._stage, place + (read > last + 1))
