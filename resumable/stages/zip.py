"""Walk several pipelines side by side."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, final

from ..core.block import Block, block_items, block_length, slice_block
from ..core.combine import Combine, CombineIterator
from ..core.derived import derived
from ..core.random_access import Indexed
from ..core.stage import ALWAYS, MOST_ITEMS, Reliance
from ..core.stage_iterator import Items, StageIterator


@final
@dataclass(frozen=True, eq=False, repr=False)
class Zip(Combine[Any]):
    """Tuples of one item of each upstream, until the first of them ends; dicts if they have names.

    State: the upstreams'. Random access if all upstreams have it; columns stay columns.

    Args:
      upstreams: one or more, or one dict of them.

    Raises:
      InvalidArgument: if there is no upstream.
      InvalidType: if one is not a pipeline, or a name of the dict is not a string.

    >>> list(rs.zip(rs.range(3), rs.from_sequence("ab")))
    [(0, 'a'), (1, 'b')]
    """

    identity: ClassVar[Mapping[str, Reliance]] = {"names": ALWAYS}
    state_cost = "nothing"

    @derived
    def length(self) -> int | float | None:
        known = [length for length in self.lengths if length is not None]
        return min(known) if len(known) == len(self.upstreams) or 0 in known else None

    def start(self, epoch: int = 0) -> StageIterator[Any]:
        return _ZipIterator(self, epoch)

    def indexed(self, epoch: int = 0) -> Indexed[Any] | None:
        inputs = self.indexed_upstreams(epoch)
        if inputs is None:
            return None
        return Indexed.joined(inputs, lambda *blocks: self.zipped(blocks), self._rows)

    def zipped(self, blocks: Sequence[Block]) -> Block:
        """One block of the items of all ``blocks``, which are of one length."""
        for block in blocks:
            if isinstance(block, list):
                rows = builtins.zip(*map(block_items, blocks), strict=True)
                return list(rows if self.names is None else map(self._row, rows))
        return self._row(blocks)

    def _rows(self, *items: Iterator[Any]) -> Iterator[Any]:
        """The items of all ``items``, which are as many, one of each at a time."""
        rows = builtins.zip(*items, strict=False)
        return rows if self.names is None else map(self._row, rows)

    def _row(self, parts: Sequence[Any]) -> Any:
        if self.names is None:
            return tuple(parts)
        return dict(builtins.zip(self.names, parts, strict=True))


class _ZipIterator(CombineIterator[Any]):
    _stage: Zip

    def pull(self, count: int) -> Block:
        blocks: list[Block] = []
        for upstream in self._upstreams:
            blocks.append(upstream.pull(count))
            # Nothing is asked of the later ones for items that cannot be completed.
            count = block_length(blocks[-1])
        return (
            self._stage.zipped([slice_block(block, 0, count) for block in blocks]) if count else []
        )

    def items(self) -> Items[Any]:
        # As in `pull`, the later ones are not asked once an earlier one has ended.
        rows = builtins.zip(*(upstream.items() for upstream in self._upstreams), strict=False)
        names = self._stage.names
        if names is None:
            return Items(rows)
        return Items(dict(builtins.zip(names, row, strict=True)) for row in rows)

    def blocks(self, size: int) -> Iterator[Block]:
        # As in `pull`, no more is asked of the later ones than can be completed.
        whole = self._whole_blocks(size)
        zipped, streams = self._stage.zipped, [each.blocks(size) for each in self._upstreams]
        yield from map(zipped, islice(builtins.zip(*streams, strict=False), whole))
        yield from super().blocks(size)

    def _whole_blocks(self, size: int) -> int:
        """Of how many blocks it is known that all upstreams have all items."""
        known = [each.state_at(MOST_ITEMS) for each in self._upstreams]
        return min([0 if found is None else found[1] for found in known]) // size

    def skip(self, count: int) -> int:
        for upstream in self._upstreams:
            count = upstream.skip(count)
        return count
