"""Group consecutive items into batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

from ..core import (
    ITEMS,
    LISTS,
    NOTHING,
    Block,
    CallsFunction,
    Dependence,
    Grouped,
    IdentityField,
    IdentityFields,
    Items,
    OwnStateIterator,
    Relation,
    Stage,
    StageIterator,
    block_items,
    block_length,
    check_int,
    computed_once,
)
from ..core.arguments import check_bool, check_field
from ..core.identity import BATCH_SIZE_HINT
from ..core.layout import Layout, stacked_layout
from ..core.stage import InputShadows
from ..shadows.traced import CollatesTraced, Each, calling, made_with_state, rows_of_origins


@final
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Batch(CallsFunction[Any]):
    """Group consecutive items into batches of ``batch_size``.

    State: upstream's, on a batch boundary, and ``collate``'s if ``collate`` carries state. The
    state counts items, so another ``batch_size`` may be chosen on resume, unless a later stage
    counts or shuffles the batches. Random access is kept unless ``collate`` carries state.

    Args:
      upstream: stage whose items are grouped.
      batch_size: items per batch, at least 1.
      drop_last: leave out a final batch shorter than ``batch_size``.
      collate: turns a list of items into a batch; by default arrays and numbers are stacked
        along a new first axis, and dicts and tuples field by field. Anything else stays a list:
        strings, lists, None, and numbers that no dtype holds exactly together. Pairs of a string
        and a number become a pair of a list and an array.

    Raises:
      InvalidArgument: if ``batch_size`` is less than 1.
      MalformedItem: while iterating, if items of a batch cannot be stacked, such as masked arrays.
      InvalidType: if an argument has the wrong type.

    >>> list(rs.range(5).batch(2))
    [array([0, 1]), array([2, 3]), array([4])]
    """

    identity: ClassVar[IdentityFields] = {
        "batch_size": IdentityField(ITEMS, hint=BATCH_SIZE_HINT),
        "drop_last": ITEMS,
    }
    depends_on: ClassVar[Dependence] = NOTHING
    calls: ClassVar[str] = "collate"

    batch_size: int
    drop_last: bool = False
    collate: Callable[[list[Any]], Any] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_field(self, "batch_size", check_int, minimum=1)
        check_bool("drop_last", self.drop_last)

    @computed_once
    def block_layout(self) -> Layout:
        return stacked_layout(self.upstream.block_layout) if self.collate is None else LISTS

    def relation(self, epoch: int) -> Relation:
        return Grouped(
            self,
            epoch,
            size=self.batch_size,
            make=self.collated,
            drop_last=self.drop_last,
            in_order=self.carries_state,
        )

    def _traced(self, inputs: InputShadows) -> Stage[Any]:
        if not inputs.paired and not self.carries_state:
            return replace(self, upstream=inputs.alike[0], collate=rows_of_origins)
        made = calling(
            self, CollatesTraced, self.collate or self.collated, upstream=inputs.pairs[0]
        )
        return Each(made, made_with_state) if self.carries_state else made

    def start_calling(self, epoch: int) -> StageIterator[Any]:
        return _BatchIterator(self, epoch)

    @computed_once
    def collated(self) -> Callable[[Block], Any]:
        """Makes a batch of the items of a block."""
        collate = self.collate
        if collate is None:
            return self.upstream.block_layout.batch
        return lambda block: collate(list(block_items(block)))


class _BatchIterator(OwnStateIterator[Any]):
    _stage: Batch

    def pull(self, count: int) -> Block:
        stage = self._stage
        batches: list[Any] = []
        while len(batches) < count:
            block = self._upstream.pull(stage.batch_size)
            length = block_length(block)
            if length == stage.batch_size or (length and not stage.drop_last):
                batches.append(stage.collated(block))
            if length < stage.batch_size:
                break
        return batches

    def items(self) -> Items[Any]:
        stage, size = self._stage, self._stage.batch_size
        blocks = self._upstream.blocks(size)
        if stage.drop_last:
            blocks = (block for block in blocks if block_length(block) == size)
        if stage.collate is None:
            return Items(stage.upstream.block_layout.batches(blocks))
        # Not `map`: it would take a StopIteration raised by ``collate`` for the end.
        return Items(stage.collated(block) for block in blocks)

    def skip(self, count: int) -> int:
        size = self._stage.batch_size
        batches, rest = divmod(self._upstream.skip(count * size), size)
        return batches + (rest > 0 and not self._stage.drop_last)
