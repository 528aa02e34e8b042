"""The items of a stage by their index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar, final

import numpy as np

from .block import Block, Indices, block_items

T = TypeVar("T")


@final
class Indexed(Generic[T]):
    """Random access to the items of one epoch.

    Args:
      gather: the items at ``indices``, an int64 array within the length, as a block of its own.
      item: the item at one index; by default a `gather` of one.
      span: the items from a start to a stop, for items that are pure arithmetic: these may be
        computed ahead.
    """

    __slots__ = ("base", "gather", "index_map", "item", "span")

    def __init__(
        self,
        gather: Callable[[Indices], Block],
        item: Callable[[int], T] | None = None,
        span: Callable[[int, int], Sequence[T]] | None = None,
    ) -> None:
        self.gather = gather
        self.item = item or _one_by(gather)
        self.span = span
        # Of items that are only reordered: where they come from, and our indices there.
        self.base: Indexed[T] | None = None
        self.index_map: Callable[[Indices], Indices] | None = None

    @classmethod
    def reordered(cls, base: Indexed[T], index_map: Callable[[Indices], Indices]) -> Indexed[T]:
        """The items of ``base`` in another order, which a vectorised ``index_map`` gives."""
        indexed = cls(
            lambda indices: base.gather(index_map(indices)),
            lambda index: base.item(int(index_map(np.array([index], np.int64))[0])),
        )
        indexed.base, indexed.index_map = base, index_map
        return indexed

    def flattened(self) -> tuple[Indexed[T], list[Callable[[Indices], Indices]]]:
        """What holds the items, and the maps that lead from our indices to its indices."""
        indexed, maps = self, []
        while indexed.base is not None and indexed.index_map is not None:
            maps.append(indexed.index_map)
            indexed = indexed.base
        return indexed, maps


def _one_by(gather: Callable[[Indices], Block]) -> Callable[[int], Any]:
    return lambda index: block_items(gather(np.array([index], np.int64)))[0]
