"""Motion through items made of groups of consecutive items."""

# A group is made again on a resume, so the state holds nothing of the group. The group is left
# together with its last item, so a resume never makes a group only to pass over all of it.

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias, TypeVar, final

from ..core.block import Block, block_items, block_length, concatenate, slice_block
from ..core.position import Position
from ..core.relation import Grouped, Relation
from ..core.replay_point import ReplayPoint, check_offset
from ..core.stage import Stage
from ..core.stage_iterator import Items, StageIterator
from ..core.transform import StateForwardingIterator, Transform
from ..state.value import State, unpack, unpack_count

T = TypeVar("T")

Make: TypeAlias = Callable[[Any, int], Block]
"""Makes a block from a group (an item of `Groups`, or a result made of it) and its number."""


@final
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Groups(Transform[Block]):
    """Blocks of ``size`` consecutive items, in their layout; the last block may be shorter.

    State: upstream's, after a whole block.
    """

    size: int

    def relation(self, epoch: int) -> Relation:
        return Grouped(
            self, epoch, size=self.size, make=self.upstream.block_layout.block, in_order=True
        )

    def start(self, epoch: int = 0) -> StageIterator[Block]:
        return _GroupsIterator(self, epoch)


class _GroupsIterator(StateForwardingIterator[Block]):
    _stage: Groups

    def pull(self, count: int) -> Block:
        blocks: list[Block] = []
        size, layout = self._stage.size, self._stage.upstream.block_layout
        while len(blocks) < count and block_length(block := self._upstream.pull(size)):
            blocks.append(layout.block(block))
        return blocks


class BlockIterator(StageIterator[T]):
    """Walk blocks, each made whole, from an offset on.

    A subclass makes the blocks.
    """

    def __init__(self, stage: Stage[T], offset: Position) -> None:
        self._stage = stage
        # Invariant: `_block` has `_length` items. The first `_offset`, fewer than all, were handed
        # out. If `_block` is None, the first `_offset` items of the next block are to be passed
        # over.
        self._block: Block | None = None
        self._length = 0
        self._offset = offset
        # The block of which `_items` are the items: a mix asks for `items()` at each of its turns.
        self._listed: Block | None = None
        self._items: list[T] = []

    @abstractmethod
    def _open(self) -> bool:
        """Make the next block with items left, unless a block is open; False at the end."""

    @abstractmethod
    def _leave(self) -> None:
        """Drop the block: all of its items were handed out."""

    def pull(self, count: int) -> Block:
        return concatenate([slice_block(*part) for part in self._parts(count)])

    def skip(self, count: int) -> int:
        return sum(stop - start for _, start, stop in self._parts(count))

    def items(self) -> Items[T]:
        return Items(chain.from_iterable(self._runs()))

    def _runs(self) -> Iterator[Iterable[T]]:
        """For each block all items but the last, then, with the block left, the last item."""
        while self._open():
            if self._listed is not self._block:
                self._listed, self._items = self._block, block_items(self._block)
            items = self._items[self._offset.number : self._length]
            last = items.pop()  # the list is new
            cursor: Any = iter(items)
            self._offset.end, self._offset.left = self._length - 1, cursor.__length_hint__
            yield cursor
            self._leave()
            self._listed, self._items = None, []  # so that the block's memory is free
            yield (last,)

    def _parts(self, count: int) -> Iterator[tuple[Block, int, int]]:
        """The next ``count`` items: blocks, and the start and stop of the items in each block."""
        while count and self._open():
            block, start = self._block, self._offset.number
            stop = min(start + count, self._length)
            if stop == self._length:
                self._leave()
            else:
                self._offset.move_to(stop)
            count -= stop - start
            yield block, start, stop


class NumberedBlocks(BlockIterator[T]):
    """Walk blocks, each made of a group of items, from an offset in the block of a group on.

    A subclass makes the blocks.

    Attributes:
      outputs: names the items counted by the offset, and the likely cause of a too large offset;
        for an error.
    """

    outputs = "items made of this group; are they the same in every run?"

    _group = 0

    @abstractmethod
    def _next_block(self) -> tuple[Block, int] | None:
        """The block of the next group and its length; None at the end.

        Raises:
          StateMismatch: at the end, if items of a further group are to be passed over.
        """

    def _open(self) -> bool:
        while self._block is None:
            found = self._next_block()
            if found is None:
                return False
            block, length = found
            offset = self._offset.number
            check_offset(offset, length, self.outputs, self._stage)
            if offset == length:
                self._leave()
            else:
                self._block, self._length = block, length
        return True

    def _leave(self) -> None:
        self._block = None
        self._group += 1
        self._offset.move_to(0)


class GroupIterator(NumberedBlocks[T]):
    """Walk the items of the blocks made by ``make``, one for each group.

    State: O(1), the state of ``groups`` before the current group, the number of earlier groups in
    this epoch, and an offset in the block of the current group.

    Args:
      stage: the iterated stage.
      groups: delivers the groups.
      make: the same in every run; may return a block without items.
    """

    def __init__(self, stage: Stage[T], groups: StageIterator[Any], make: Make) -> None:
        self._point = ReplayPoint(stage, groups)
        super().__init__(stage, self._point.offset)
        self._groups = groups
        self._make = make

    @property
    def inputs(self) -> Sequence[StageIterator[Any]]:
        return (self._groups,)

    def _next_block(self) -> tuple[Block, int] | None:
        found = block_items(self._point.next_block())
        if not found:
            self._point.end()
            return None
        block = self._make(found[0], self._group)
        self._point.enter()
        return block, block_length(block)

    def _leave(self) -> None:
        self._point.leave()
        super()._leave()

    @property
    def _items_held(self) -> int:
        return int(self._offset.number > 0)

    def get_state(self) -> State:
        return {"group": self._group, **self._point.get_state()}

    def set_state(self, state: State) -> None:
        group, offset, upstream = unpack(self._stage, state, "group", "offset", "upstream")
        self._group = unpack_count(self._stage, "group", group)
        self._point.set_state(offset, upstream)
