"""Motion over a random-access stage: one integer position."""

# Orders (shuffle, skip) are computed for a block of indices at a time, because a vectorised
# permutation costs about 12 ns an index in blocks of 65,536 and fifty times as much in blocks of
# 256. Items run ahead only where computing an item has no effects: numbers that are pure
# arithmetic, and the pages of files. No function of the user is called before its item is asked
# for. A stage whose items are made of items of other stages prepares a `PreparedItems`, so that the
# indices of the other stages run ahead too.

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from operator import length_hint
from typing import Any, ClassVar, TypeVar

import numpy as np

from ..errors import InvalidArgument, InvalidType
from ..state.value import State, unpack, unpack_position
from .block import NO_INDICES, Block, Indices, block_items
from .foreseen import PartUses, foreseeing
from .identity import ITEMS, PARTS, Dependence
from .indexed import FIRST_BLOCK, LARGEST_BLOCK
from .made_of import epoch_at, first_epoch, record_at
from .orders import MOST_ITEMS
from .prepared_items import PreparedItems
from .reach import Reach, reached_by_index
from .relation import one_by_one
from .source_item import SourceItem
from .stage import Stage, by_index, known_length, runs_ahead
from .stage_iterator import (
    DeferredState,
    Items,
    SourceIterator,
    StageIterator,
)

T = TypeVar("T")


@dataclass(frozen=True, eq=False, repr=False)
class LookedUp(Stage[T]):
    """A stage iterated by looking up items by index, wherever the stage has random access.

    Earlier stages then do not move and save nothing. A subclass that also takes streams overrides
    `start`.
    """

    depends_on: ClassVar[Dependence] = ITEMS | PARTS
    """The state is a place among the items, which is the same on all ranks."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if all(one.random_access for one in self.inputs):
            name = type(self).__name__
            check_no_threads(self, f"put it after {name}, which gives the same items")

    def start(self, epoch: int = 0) -> StageIterator[T]:
        if not self.random_access and (
            streams := [one for one in self.inputs if not one.random_access]
        ):
            raise InvalidType(
                f"{type(self).__name__} looks items up by index, so its inputs must have random access, got "
                f"{streams[0]!r}; over a stream, a stage has a start and an iterator of its own"
            )
        return IndexedIterator(self, epoch)


def check_no_threads(stage: Stage[Any], advice: str) -> None:
    """Refuse a stage that looks items up by index over a stage that runs ahead.

    Raises:
      InvalidArgument: naming both stages, with ``advice``.
    """
    waiting = list(stage.inputs)
    while waiting:
        upstream = waiting.pop()
        if runs_ahead(upstream):
            raise InvalidArgument(
                f"{type(stage).__name__} looks items up by index, so {type(upstream).__name__} "
                "before it would run without its threads or processes, got "
                f"{upstream!r}; {advice}"
            )
        if not isinstance(upstream, LookedUp):  # a `LookedUp` has checked the stages before it
            waiting += upstream.inputs


def looks_up(stage: Stage[Any]) -> bool:
    """Whether ``stage`` looks items up by index, so that earlier stages save nothing."""
    return isinstance(stage, LookedUp) and stage.random_access


class IndexedIterator(SourceIterator[T]):
    """Iterate a random-access stage in the order of its indices.

    State: O(1), the index of the next item. A resume reads nothing.
    """

    def __init__(self, stage: Stage[T], epoch: int) -> None:
        super().__init__(stage, epoch)
        # `_base` holds the items; the maps lead from indices of this stage to indices of `_base`.
        indexed = by_index(stage, epoch)
        self._indexed = indexed
        self._base, self._maps = indexed.flattened()
        first = LARGEST_BLOCK if indexed.plans_far else FIRST_BLOCK
        self._first_block = indexed.most_ahead(first)
        self._largest_block = indexed.most_ahead(LARGEST_BLOCK)
        self._plain = not self._maps and self._base.prepare is None
        self._length = int(min(known_length(stage), MOST_ITEMS))
        # This `needs` knows which data of the files is in memory; the `needs` of another start does
        # not.
        self._needs = indexed.needs
        # Invariant: position == _end - (indices left in _cursor).
        self._end = 0
        self._cursor: Iterator[Any] = iter(())
        self._at_end = False
        self._last_block_short = False  # the last block of `blocks` will have fewer items
        # The indices of `_base` for the positions [_block_start, _block_start + len(_block)) of
        # this iterator, and the prepared items of `_base` at the positions, if `_base` prepares
        # items.
        self._block = NO_INDICES
        self._block_start = 0
        self._prepared: PreparedItems[T] | None = None
        # (place, stop, epoch): the items from place to stop have the epoch, as far as it was asked
        # for.
        self._of_epoch = 0, 0, epoch
        # Last, since another thread may ask at once.
        if self._needs is not None:
            foreseeing.add(self)

    def pull(self, count: int) -> Block:
        position = self.position
        stop = min(position + count, self._length)
        if stop <= position:
            return []
        if self._plain:
            block = self._base.gather_range(position, stop)
        else:
            indices = self._indices(position, stop - position)
            if self._prepared is None:
                block = self._base.gather(indices)
            else:
                first = position - self._block_start
                block = self._prepared.gather(range(first, first + len(indices)))
        self._move(stop)
        return block

    def skip(self, count: int) -> int:
        position = self.position
        passed = min(count, self._length - position)
        self._move(position + passed)
        return passed

    def items(self) -> Items[T]:
        self._move(self.position)
        stream: Iterator[Any] = chain.from_iterable(self._cursors())
        # A `StopIteration` out of a user function ends the map; in `chain` it would end only a run.
        if self._base.prepare is not None:
            stream = map(next, stream)
        elif self._base.arithmetic_range is None:
            stream = map(self._base.item, stream)
        return Items(stream, lambda: self._at_end)

    def blocks(self, size: int) -> Iterator[Block]:
        self._move(self.position)
        self._last_block_short = (self._length - self._end) % size > 0
        return self._sections(size) if self._plain else self._gathered(size)

    def _sections(self, size: int) -> Iterator[Block]:
        """`blocks` of items that are not reordered."""
        gather_range, length = self._base.gather_range, self._length
        for start in range(self._end, length, size):
            stop = start + size
            if stop > length:
                stop = length
            block = gather_range(start, stop)
            self._end = stop
            yield block
        self._at_end = True

    def _gathered(self, size: int) -> Iterator[Block]:
        """`blocks` of items whose indices are computed, for many blocks at once."""
        while (left := self._length - self._end) > 0:
            known = self._block_start + len(self._block) - self._end
            whole = max(known - known % size, size)
            indices = self._indices(self._end, min(whole, left))
            gather: Callable[[Any], Block] = self._base.gather
            parts: Any = indices
            if self._prepared is not None:
                first = self._end - self._block_start
                gather, parts = self._prepared.gather, range(first, first + len(indices))
            for start in range(0, len(indices), size):
                part = parts[start : start + size]
                block = gather(part)
                self._end += len(part)
                yield block
        self._at_end = True

    def ahead(self, offsets: Indices) -> PreparedItems[T]:
        """The items ``offsets`` places after the next item, shape (n,); nothing moves."""
        indices = offsets + self.position
        for index_map in self._maps:
            indices = index_map(indices)
        return self._base.prepared(indices)

    @property
    def left(self) -> int:
        """Number of items still to come."""
        return self._length - self.position

    def state_at(self, offset: int) -> tuple[State, int]:
        position = self.position
        moved = min(offset, self._length - position)
        return {"position": position + moved}, moved

    def origin(self, back: int) -> SourceItem | None:
        stage: Any = self._stage
        if self.position < back:  # handed out before this epoch
            return None
        return record_at(stage, self._epoch, self.position - back)

    def _reached(self) -> Iterator[Reach]:
        # An iterator at the end may have seen the end.
        return reached_by_index(self._stage, self.position + (self.position == self._length))

    def get_state(self) -> State:
        return {"position": self.position}

    def defer_state(self) -> DeferredState:
        return partial(dict, position=self.position)

    def set_state(self, state: State) -> None:
        (position,) = unpack(self._stage, state, "position")
        self._move(unpack_position(self._stage, position, self._length))

    @property
    def at_end(self) -> bool:
        """Whether the end was reached: by `items` and `blocks`, or by a short last block."""
        return self._at_end or (self._last_block_short and self.position == self._length)

    @property
    def position(self) -> int:
        """Index of the next item."""
        return self._end - length_hint(self._cursor)

    @property
    def epoch(self) -> int:
        """The epoch of the last item; before any item, the first epoch."""
        position = self.position
        return self.epoch_at(position - 1) if position else self.first_epoch

    @property
    def first_epoch(self) -> int:
        """The epoch before any item was handed out."""
        first = first_epoch(self._stage, self._epoch) if self._length else None
        return self._epoch if first is None else first

    def epoch_at(self, place: int) -> int:
        """The epoch of the item at ``place``."""
        first, stop, epoch = self._of_epoch
        if first <= place < stop or not self._length:
            return epoch
        found, stop, step = epoch_at(self._stage, self._epoch, place), place + 1, 1
        if found is None:
            self._of_epoch = 0, self._length, self._epoch
            return self._epoch
        # The epochs of the next places are looked up in steps that grow.
        while found.ascending and stop < self._length:
            last = min(stop + step, self._length) - 1
            if epoch_at(self._stage, self._epoch, last) != found:
                break
            stop, step = last + 1, 2 * step
        self._of_epoch = place, stop, found.epoch
        return found.epoch

    def horizon(self, most: int) -> int:
        """Number of next items that need about ``most`` items of the sources, at least 1."""
        return self._indexed.items_within(most)

    def foreseen(self, start: int, stop: int) -> Iterator[PartUses]:
        """Needs of the items from ``start`` to ``stop``, to the end of the next epoch at most.

        Items are counted from the next item.
        """
        length, position = self._length, self.position
        begin, end = position + start, min(position + stop, 2 * length)
        while begin < end and length:
            later, first = divmod(begin, length)
            last = min(first + end - begin, length)
            needs = by_index(self._stage, self._epoch + later).needs if later else self._needs
            if needs is not None:
                indices = np.arange(first, last, dtype=np.int64)
                yield from needs(indices, indices + (later * length - position))
            begin += last - first

    @property
    def _items_delivered(self) -> int:
        return self.position

    def _place_by_index(self) -> tuple[Stage[Any], int, int]:
        return self._stage, self._epoch, self.position

    def close(self) -> None:
        foreseeing.discard(self)
        super().close()

    def _move(self, position: int) -> None:
        self._end = position
        self._cursor = iter(())
        self._at_end = self._last_block_short = False

    def _cursors(self) -> Iterator[Iterator[Any]]:
        """Iterators with one entry for each item, for `items` to chain.

        An entry is an index of `_base`. If `_base` prepares items, the entry is an iterator whose
        next item is wanted. If computing items has no effects, the entry is the item itself.
        `chain` needs no Python code for an item, and the number of entries left gives the position.
        """
        size = self._first_block
        while self._end < self._length:
            values = self._run(min(size, self._length - self._end))
            self._cursor = iter(values)
            self._end += length_hint(self._cursor)
            size = self._largest_block
            yield self._cursor
        self._at_end = True

    def _run(self, count: int) -> Iterable[Any]:
        """The next ``count`` entries for `_cursors`; all remaining entries of a range."""
        base = self._base
        if self._plain:
            return (base.arithmetic_range or range)(self._end, self._length)
        indices = self._indices(self._end, count)
        if self._prepared is not None:
            first = self._end - self._block_start
            return self._prepared.iterators_for(range(first, first + count))
        if base.arithmetic_range is not None:
            return block_items(base.gather(indices))
        run: list[int] = indices.tolist()
        return run

    def _indices(self, position: int, count: int) -> Indices:
        """Indices of `_base` for the ``count`` positions from ``position`` on."""
        start = position - self._block_start
        if start < 0 or start + count > len(self._block):
            size = self._largest_block if len(self._block) else self._first_block
            size = min(size, self._length - position)
            block = np.arange(position, position + max(size, count), dtype=np.int64)
            for index_map in self._maps:
                block = index_map(block)
            prepare = self._base.prepare
            prepared = None if prepare is None else prepare(block)
            self._block, self._block_start, self._prepared, start = block, position, prepared, 0
        return self._block[start : start + count]


def looked_up_for(iterator: StageIterator[Any]) -> IndexedIterator[Any] | None:
    """The iterator that looks up one item for each of ``iterator``, maybe itself; None if none."""
    if iterator.state_at(0) is None:
        return None
    while not isinstance(iterator, IndexedIterator):
        stage, inputs = iterator._stage, iterator.inputs
        if not isinstance(stage, Stage) or not one_by_one(stage):
            return None
        (iterator,) = inputs
    return iterator
