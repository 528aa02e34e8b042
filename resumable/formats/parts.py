"""The source of items that lie in parts, such as files, which a package reads by number, many at once."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import numpy as np

from ..core.block import Block, Indices, ungroup
from ..core.derived import derived
from ..core.indexed import Indexed
from ..core.lookup import LookedUp
from ..core.prepared_items import grouped
from ..core.stage import MOST_ITEMS
from ..errors import MalformedItem
from .ahead import ReadAheadItems, TurnsSeen, always

T = TypeVar("T")


@dataclass(frozen=True, eq=False, repr=False)
class FoundInParts(LookedUp[T]):
    """What all sources share whose items lie in parts: where the parts end, and how another process finds them."""

    state_cost = "the position"

    # Item numbers at which each part ends: shape (parts,), int64.
    _ends: Indices = field(init=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        # Another process opens the parts again.
        state = super().__getstate__()
        del state["_ends"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()

    @property
    def length(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0


@dataclass(frozen=True, eq=False, repr=False)
class ItemsInParts(FoundInParts[T]):
    """A source whose parts are read by the numbers of items in them.

    A subclass calls `_set_counts` when it has opened the parts.

    Attributes:
      most_ahead: how many items are read at once, at the most, if they are asked for one by one.
      ahead_bytes: and how many bytes of the parts for them, about.
    """

    most_ahead: ClassVar[int]
    ahead_bytes: ClassVar[int]

    def _set_counts(self, counts: list[int], where: str) -> None:
        """Take the number of items of each part.

        Raises:
          MalformedItem: if ``where`` claims to have more than there can be.
        """
        if sum(counts) > MOST_ITEMS:
            raise MalformedItem(f"{where}: it claims more than 2**62 items")
        object.__setattr__(self, "_ends", np.cumsum(counts, dtype=np.int64))

    @abstractmethod
    def _read(self, place: int, numbers: Indices) -> Block:
        """The items of the part at ``place`` with these ``numbers`` in it, shape (n,), at least one."""

    @property
    @abstractmethod
    def _size(self) -> int:
        """Bytes of all parts, about."""

    @derived
    def _begins(self) -> Indices:
        """Item numbers at which each part begins."""
        return np.concatenate([np.zeros(1, np.int64), self._ends[:-1]])

    def _parts_of(self, indices: Indices) -> Indices:
        """The number of the part that each item is in, of the same shape."""
        places: Indices = np.searchsorted(self._ends, indices, side="right")
        return places

    def indexed(self, epoch: int = 0) -> Indexed[T]:
        seen = TurnsSeen()
        return Indexed(
            self._gather,
            prepare=lambda indices: ReadAheadItems(
                self._gather, indices, always(self._at_once), seen
            ),
            every_epoch=True,
        )

    @derived
    def _at_once(self) -> int:
        """How many items are read at once, as far as the sizes of the parts tell."""
        fit = self.ahead_bytes * self.length // max(self._size, 1)
        return min(max(fit, 1), self.most_ahead)

    def _gather(self, indices: Indices) -> Block:
        if not len(indices):
            return []
        order, parts = grouped(self._parts_of(indices))
        blocks = [
            self._read(place, indices[order[start:stop]] - self._begins[place])
            for place, start, stop in parts
        ]
        return ungroup(blocks, order)
