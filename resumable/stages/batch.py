"""Group consecutive items into batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any, ClassVar, final

import numpy as np

from ..core import (
    ITEMS,
    LISTS,
    NOTHING,
    Block,
    CallsFunction,
    Flow,
    IdentityField,
    IdentityFields,
    Indexed,
    Indices,
    Items,
    Layout,
    Length,
    PreparedItems,
    Reliance,
    Stage,
    StageIterator,
    SteadyIterator,
    block_items,
    block_length,
    blocks_of,
    check_bool,
    check_int,
    check_reach,
    countable,
    derived,
    known_length,
    stacked_layout,
)
from ..core.arguments import check_field
from ..core.block import joined_ranges
from ..core.foreseen import PartUses
from ..core.identity import BATCH_SIZE_HINT
from ..core.lookup import FIRST_BLOCK, LARGEST_BLOCK
from ..core.stage import InputShadows
from ..shadows.traced import CollatesTraced, Each, calling, made_with_state, rows_of_origins


@final
@dataclass(frozen=True, eq=False, repr=False)
class Batch(CallsFunction[Any]):
    """Group consecutive items into batches of ``batch_size``.

    State: upstream's, on a batch boundary, and ``collate``'s own if it carries one. It counts
    items, so another ``batch_size`` may be chosen on resume, unless a later stage counts or
    shuffles the batches. Random access is kept unless ``collate`` carries state.

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

    flow = Flow.GROUPED
    identity: ClassVar[IdentityFields] = {
        "batch_size": IdentityField(ITEMS, hint=BATCH_SIZE_HINT),
        "drop_last": ITEMS,
    }
    relies_on: ClassVar[Reliance] = NOTHING
    calls: ClassVar[str] = "collate"

    _: KW_ONLY
    batch_size: int
    drop_last: bool = False
    collate: Callable[[list[Any]], Any] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_field(self, "batch_size", check_int, minimum=1)
        check_bool("drop_last", self.drop_last)

    @derived
    def length(self) -> Length:
        items = self.upstream.length
        if items is None or items == math.inf:
            return items
        return (
            int(items) // self.batch_size if self.drop_last else -(-int(items) // self.batch_size)
        )

    @derived
    def block_layout(self) -> Layout:
        return stacked_layout(self.upstream.block_layout) if self.collate is None else LISTS

    def _inputs_reached(self, count: float) -> Sequence[float]:
        return [self.batch_size * count]

    def _position_after(self, upstream: int, state: Mapping[str, Any]) -> int:
        return int(min(-(-upstream // self.batch_size), known_length(self)))

    def _traced(self, inputs: InputShadows) -> Stage[Any]:
        if not inputs.paired and not self.carries_state:
            return replace(self, upstream=inputs.alike[0], collate=rows_of_origins)
        made = calling(
            self, CollatesTraced, self.collate or self.collated, upstream=inputs.pairs[0]
        )
        return Each(made, made_with_state) if self.carries_state else made

    def start_calling(self, epoch: int) -> StageIterator[Any]:
        return _BatchIterator(self, epoch)

    def indexed(self, epoch: int = 0) -> Indexed[Any] | None:
        upstream, items = self.upstream.indexed(epoch), self.upstream.length
        if upstream is None or items is None or self.carries_state:
            return None
        size, gather = self.batch_size, upstream.gather

        def item(index: int) -> Any:
            stop = int(min((index + 1) * size, items))
            check_reach(stop - 1)
            return self.collated(gather(np.arange(index * size, stop, dtype=np.int64)))

        prepare = partial(Batches, self.collated, size, size, upstream, countable(items))
        return indexed_batches(upstream, size, size, countable(items), item, prepare)

    @derived
    def collated(self) -> Callable[[Block], Any]:
        """Makes a batch of the items of a block."""
        collate = self.collate
        if collate is None:
            return self.upstream.block_layout.batch
        return lambda block: collate(list(block_items(block)))


class Batches(PreparedItems[Any]):
    """Batches of consecutive items; the items of many batches are prepared at a time.

    Args:
      collated: makes a batch of the block of its items.
      size: of a batch, in items; the last ones may be shorter.
      shift: items from the first one of a batch to the first one of the next.
      upstream: the items.
      items: how many these are.
      indices: of the batches, shape (places,), int64.
    """

    def __init__(
        self,
        collated: Callable[[Block], Any],
        size: int,
        shift: int,
        upstream: Indexed[Any],
        items: int,
        indices: Indices,
    ) -> None:
        self._collated = collated
        self._size = min(size, items)
        self._shift = shift
        self._upstream = upstream
        self._items = items
        self._indices = indices
        # Invariant: for a `place` in `_known`, the items of its batch are those of `_prepared` from
        # `_bounds[place - _known.start]` up to the next bound.
        self._known = range(0)

    def gather(self, places: range) -> Block:
        return [self._batch(place) for place in places]

    def items(self, places: range) -> Iterator[Any]:
        return map(self._batch, places)

    def _batch(self, place: int) -> Any:
        if place not in self._known:
            self._prepare(place)
        number = place - self._known.start
        part = range(self._bounds[number], self._bounds[number + 1])
        return self._collated(self._prepared.gather(part))

    def _prepare(self, place: int) -> None:
        size, shift = self._size, self._shift
        most = self._upstream.most_ahead(LARGEST_BLOCK if self._known else FIRST_BLOCK)
        count = most // size
        numbers = self._indices[place : place + max(count, 1)]
        check_reach(min(int(numbers.max()) * shift + size, self._items) - 1)
        indices, lengths = _items_of_batches(numbers, size, shift, self._items)
        self._prepared = self._upstream.prepared(indices)
        self._bounds = [0, *np.cumsum(lengths).tolist()]
        self._known = range(place, place + len(numbers))


def _items_of_batches(
    numbers: Indices, size: int, shift: int, items: int
) -> tuple[Indices, Indices]:
    """The indices of the items of batches, one after another, and how many each batch has."""
    starts = numbers * shift
    lengths = np.minimum(items - starts, size)
    return joined_ranges(starts, lengths), lengths


def _last_of_batch(size: int, shift: int, items: int, index: int) -> int:
    """The number of the last item of the batch at ``index``; the other arguments as of `Batches`."""
    return min(index * shift + size, items) - 1


def indexed_batches(
    upstream: Indexed[Any],
    size: int,
    shift: int,
    items: int,
    item: Callable[[int], Any],
    prepare: Callable[[Indices], PreparedItems[Any]] | None,
) -> Indexed[Any]:
    """Random access to batches of ``upstream``, which has ``items`` items.

    Args:
      upstream: random access to the items.
      size: items of a batch.
      shift: items between the beginnings of two batches.
      items: how many ``upstream`` has.
      item: makes the batch with a number.
      prepare: makes the `PreparedItems` of batches with some numbers, shape (n,); None if none run ahead.
    """
    needs = upstream.needs

    def of_batches(indices: Indices, at: Indices) -> Iterator[PartUses]:
        assert needs is not None
        numbers, lengths = _items_of_batches(indices, size, shift, items)
        return needs(numbers, np.repeat(at, lengths))

    return Indexed(
        # Not `map`, which would take a StopIteration of ``collate`` for the end.
        lambda indices: [item(index) for index in indices.tolist()],
        item,
        prepare=prepare,
        indices_per_epoch=upstream.indices_per_epoch / shift,
        needs=None if needs is None else of_batches,
        last_of=(upstream, partial(_last_of_batch, size, shift, items)),
        items_each=upstream.items_each * max(min(size, items), 1),
    )


class _BatchIterator(SteadyIterator[Any]):
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
        blocks = blocks_of(self._upstream, size)
        if stage.drop_last:
            blocks = (block for block in blocks if block_length(block) == size)
        if stage.collate is None:
            return Items(stage.upstream.block_layout.batches(blocks))
        # Not `map`, which would take a StopIteration of ``collate`` for the end.
        return Items(stage.collated(block) for block in blocks)

    def skip(self, count: int) -> int:
        size = self._stage.batch_size
        batches, rest = divmod(self._upstream.skip(count * size), size)
        return batches + (rest > 0 and not self._stage.drop_last)
