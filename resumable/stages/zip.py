"""Walk several pipelines side by side."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, ClassVar, final

from ..core import (
    ITEMS,
    PARTS,
    Aligned,
    Block,
    Combine,
    CombineIterator,
    Dependence,
    IdentityFields,
    Items,
    Joined,
    Relation,
    SavedState,
    StageIterator,
    block_items,
    block_length,
    computed_once,
)
from ..core.arguments import check_bool
from ..core.block import slice_block
from ..core.combine import NAMES
from ..core.layout import Layout, joined_layout
from ..core.orders import MOST_ITEMS
from ..core.stage_iterator import pulled_blocks
from ..errors import InvalidArgument


@final
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Zip(Combine[Any]):
    """Tuples of one item of each upstream, until the first upstream ends; dicts if named.

    Further items of longer upstreams are left out; ``strict`` refuses longer upstreams.

    State: the upstreams' states. Random access if all upstreams have random access; columns stay
    columns.

    Args:
      upstreams: one or more pipelines, or a dict of pipelines.
      strict: whether all upstreams must have the same number of items. Known lengths are compared
        at once, other lengths when the first upstream ends. May differ between save and resume.

    Raises:
      InvalidArgument: without upstreams, or under ``strict`` if the lengths differ; while
        iterating, instead of the end, if an upstream has further items.
      InvalidType: if an upstream is not a pipeline, or a name of the dict is not a string.

    >>> list(rs.zip(rs.range(3), rs.from_sequence("ab")))
    [(0, 'a'), (1, 'b')]
    """

    identity: ClassVar[IdentityFields] = {"names": NAMES}
    # Ranks are at the same position in their items.
    depends_on: ClassVar[Dependence] = ITEMS | PARTS
    state_cost = SavedState("nothing", levels=2)

    strict: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_bool("strict", self.strict)
        known = {length: at for at, length in enumerate(self.lengths) if length is not None}
        if self.strict and len(known) > 1:
            shown = " and ".join(f"{length} of {self.called(at)}" for length, at in known.items())
            raise InvalidArgument(
                f"strict=True needs pipelines of one length, got {shown}; strict=False leaves out what "
                "the longer ones have beyond the shortest"
            )

    def called(self, number: int) -> str:
        """The name of an upstream in errors."""
        return f"upstreams[{number}]" if self.names is None else repr(self.names[number])

    @computed_once
    def block_layout(self) -> Layout:
        layouts = [upstream.block_layout for upstream in self.upstreams]
        if self.names is None:
            return joined_layout(layouts)
        return joined_layout(dict(builtins.zip(self.names, layouts, strict=True)))

    def relation(self, epoch: int) -> Relation:
        return Aligned(
            self, epoch, make=Joined(lambda *blocks: self.zipped(blocks), self._rows, is_row=True)
        )

    def start(self, epoch: int = 0) -> StageIterator[Any]:
        return _ZipIterator(self, epoch)

    def zipped(self, blocks: Sequence[Block]) -> Block:
        """One block made of ``blocks`` of the same length."""
        for block in blocks:
            if isinstance(block, list):
                rows = builtins.zip(*map(block_items, blocks), strict=True)
                return list(rows if self.names is None else map(self._row, rows))
        return self._row(blocks)

    def _rows(self, *items: Iterator[Any]) -> Iterator[Any]:
        """Tuples or dicts with one item of each of ``items``, iterators of the same length."""
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
        lengths = []
        for upstream in self._upstreams:
            lengths.append(count)
            blocks.append(upstream.pull(count))
            # Later upstreams are not read for tuples that cannot be completed.
            count = block_length(blocks[-1])
        self._check_ends(lengths, count)
        return (
            self._stage.zipped([slice_block(block, 0, count) for block in blocks]) if count else []
        )

    def items(self) -> Items[Any]:
        # As in `pull`, later upstreams are not read once an earlier one has ended.
        if self._stage.strict:
            rows = self._strict_rows()
        else:
            rows = builtins.zip(*(upstream.items() for upstream in self._upstreams), strict=False)
        names = self._stage.names
        if names is None:
            return Items(rows)
        return Items(dict(builtins.zip(names, row, strict=True)) for row in rows)

    def blocks(self, size: int) -> Iterator[Block]:
        # As in `pull`, later upstreams are asked only for items of tuples that can be completed.
        whole = self._whole_blocks(size)
        zipped, streams = self._stage.zipped, [each.blocks(size) for each in self._upstreams]
        yield from map(zipped, islice(builtins.zip(*streams, strict=False), whole))
        yield from pulled_blocks(self, size)

    def _whole_blocks(self, size: int) -> int:
        """Number of blocks that all upstreams are known to have in full."""
        known = [each.state_at(MOST_ITEMS) for each in self._upstreams]
        return min([0 if found is None else found[1] for found in known]) // size

    def skip(self, count: int) -> int:
        lengths = []
        for upstream in self._upstreams:
            lengths.append(count)
            count = upstream.skip(count)
        self._check_ends(lengths, count)
        return count

    def _strict_rows(self) -> Iterator[tuple[Any, ...]]:
        """The rows, followed by the check that no upstream has further items."""
        ended = [False] * len(self._upstreams)

        def rest_of(number: int) -> Iterator[Any]:
            ended[number] = True
            yield from ()

        streams = [
            chain(upstream.items(), rest_of(number))
            for number, upstream in enumerate(self._upstreams)
        ]
        yield from builtins.zip(*streams, strict=False)
        first = ended.index(True)
        for number, stream in enumerate(streams):
            # Upstreams before the first to end have already given an item for the missing row.
            if number < first or next(stream, rest_of) is not rest_of:
                raise self._differ(first, number)

    def _check_ends(self, asked: list[int], made: int) -> None:
        """Under ``strict``, refuse upstreams with items beyond the ``made`` rows.

        Args:
          asked: number of items asked of each upstream.
          made: number of rows made.
        """
        if not self._stage.strict or made == asked[0]:
            return
        first = next(number for number, count in enumerate([*asked[1:], made]) if count == made)
        for number, upstream in enumerate(self._upstreams):
            if number < first or (number > first and upstream.skip(1)):
                raise self._differ(first, number)

    def _differ(self, ended: int, longer: int) -> InvalidArgument:
        called = self._stage.called
        return InvalidArgument(
            f"strict=True needs pipelines of one length, but {called(longer)} has items after "
            f"{called(ended)} has ended; strict=False leaves them out"
        )
