"""Walk several pipelines side by side."""

from __future__ import annotations

import builtins
from dataclasses import dataclass
from typing import Any, final

from ..core.block import Block, block_items, block_length, is_columns, slice_block
from ..core.combine import Combine, CombineIterator
from ..core.derived import derived
from ..core.random_access import Indexed
from ..core.stage_iterator import StageIterator


@final
@dataclass(frozen=True, eq=False, repr=False)
class Zip(Combine[tuple[Any, ...]]):
    """Tuples of one item of each upstream, until the first of them ends.

    State: the upstreams'. Random access if all upstreams have it; columns stay columns.
    """

    state_cost = "nothing"

    @derived
    def length(self) -> int | float | None:
        known = [length for length in self.lengths if length is not None]
        return min(known) if len(known) == len(self.upstreams) or 0 in known else None

    def start(self, epoch: int = 0) -> StageIterator[tuple[Any, ...]]:
        return _ZipIterator(self, epoch)

    def indexed(self, epoch: int = 0) -> Indexed[tuple[Any, ...]] | None:
        inputs = self.indexed_upstreams(epoch)
        if inputs is None:
            return None
        return Indexed(lambda indices: _zipped([each.gather(indices) for each in inputs]))


class _ZipIterator(CombineIterator[tuple[Any, ...]]):
    def pull(self, count: int) -> Block:
        blocks: list[Block] = []
        for upstream in self._upstreams:
            blocks.append(upstream.pull(count))
            # Nothing is asked of the later ones for items that cannot be completed.
            count = block_length(blocks[-1])
        return _zipped([slice_block(block, 0, count) for block in blocks]) if count else []

    def skip(self, count: int) -> int:
        for upstream in self._upstreams:
            count = upstream.skip(count)
        return count


def _zipped(blocks: list[Block]) -> Block:
    if builtins.all(is_columns(block) for block in blocks):
        return tuple(blocks)
    return list(builtins.zip(*(block_items(block) for block in blocks), strict=True))
