"""Number the items."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from ..core import (
    ITEMS,
    PARTS,
    Block,
    CountingIterator,
    Dependence,
    Indices,
    Items,
    Joined,
    Relation,
    Same,
    StageIterator,
    Transform,
    block_length,
    computed_once,
)
from ..core.indexed import OWN_INDICES
from ..core.layout import INTEGERS, Layout, joined_layout


@final
@dataclass(frozen=True, eq=False, repr=False)
class Enumerate(Transform[tuple[int, Any]]):
    """Pairs of position and item; positions start at 0 in every epoch.

    State: O(1), the position and upstream's. Random access is kept, and columns stay columns.

    >>> list(rs.from_sequence("ab").enumerate())
    [(0, 'a'), (1, 'b')]
    """

    depends_on: ClassVar[Dependence] = ITEMS | PARTS
    state_cost = "the position"

    def relation(self, epoch: int) -> Relation:
        numbered = Joined(_numbered, builtins.zip, OWN_INDICES, is_row=True)
        return Same(self, epoch, make=numbered, numbered=True)

    @computed_once
    def block_layout(self) -> Layout:
        return joined_layout([INTEGERS, self.upstream.block_layout])

    def start(self, epoch: int = 0) -> StageIterator[tuple[int, Any]]:
        return _EnumerateIterator(self, epoch)


class _EnumerateIterator(CountingIterator[tuple[int, Any]]):
    def pull(self, count: int) -> Block:
        self._item_position.stop_counting()
        return self._numbered(self._upstream.pull(count))

    def _numbered(self, block: Block) -> Block:
        """``block``, which upstream has just handed out, with its numbers."""
        first = self._item_position.end
        self._item_position.end = end = first + block_length(block)
        return _numbered(np.arange(first, end, dtype=np.int64), block)

    def items(self) -> Items[tuple[int, Any]]:
        pairs = builtins.enumerate(self._upstream.items(), self._position)
        return Items(self._item_position.counting(pairs))

    def blocks(self, size: int) -> Iterator[Block]:
        self._item_position.stop_counting()
        for block in self._upstream.blocks(size):
            yield self._numbered(block)

    def skip(self, count: int) -> int:
        return self.skip_counted(count)


def _numbered(indices: Indices, block: Block) -> Block:
    if isinstance(block, list):
        return list(builtins.zip(indices.tolist(), block, strict=True))
    return (indices, block)
