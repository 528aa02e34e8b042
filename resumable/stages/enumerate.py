"""Number the items."""

from __future__ import annotations

import builtins
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from ..core.block import Block, Indices, block_length, is_columns
from ..core.random_access import OWN_INDICES, Indexed
from ..core.stage_iterator import Items, StageIterator
from ..core.transform import CountingIterator, IndexedTransform


@final
@dataclass(frozen=True, eq=False, repr=False)
class Enumerate(IndexedTransform[tuple[int, Any]]):
    """Pairs of a position and the item at it; positions start at 0 in every epoch.

    State: O(1), the position and upstream's. Random access is kept, and columns stay columns.

    >>> list(rs.from_sequence("ab").enumerate())
    [(0, 'a'), (1, 'b')]
    """

    state_cost = "the position"

    def start(self, epoch: int = 0) -> StageIterator[tuple[int, Any]]:
        return _EnumerateIterator(self, epoch)

    def indexed(self, epoch: int = 0) -> Indexed[tuple[int, Any]] | None:
        upstream = self.upstream.indexed(epoch)
        return upstream and Indexed.joined([OWN_INDICES, upstream], _numbered, builtins.zip)


class _EnumerateIterator(CountingIterator[tuple[int, Any]]):
    def pull(self, count: int) -> Block:
        block = self._upstream.pull(count)
        first, length = self._position, block_length(block)
        numbered = _numbered(np.arange(first, first + length, dtype=np.int64), block)
        self._position += length
        return numbered

    def items(self) -> Items[tuple[int, Any]]:
        pairs = builtins.enumerate(self._upstream.items(), self._position)
        return Items(self._place.counting(pairs))

    def skip(self, count: int) -> int:
        return self.skip_counted(count)


def _numbered(indices: Indices, block: Block) -> Block:
    if is_columns(block):
        return (indices.astype(np.int64), block)
    return list(builtins.zip(indices.tolist(), block, strict=True))
