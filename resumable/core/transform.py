"""The bases of stages with one upstream, and of their iterators."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, TypeVar

from ..state.value import State, unpack, unpack_count
from .block import Block
from .identity import NOTHING, Dependence
from .old_names import OldName
from .orders import Length
from .position import CountsItems, Position
from .relation import Relation, Same
from .saved_state import SavedState
from .source_item import SourceItem
from .stage import Stage, as_stage
from .stage_iterator import (
    DeferredState,
    Items,
    StageIterator,
    state_deferrer,
)

T = TypeVar("T")


@dataclass(frozen=True, eq=False, repr=False)
class Transform(Stage[T]):
    """A stage with one upstream.

    Args:
      upstream: the stage or pipeline to take items from.

    Raises:
      InvalidType: if ``upstream`` is neither.

    >>> from resumable.core import block_items
    >>> class Doubled(rs.Transform):
    ...     def start(self, epoch=0):
    ...         return DoubledIterator(self, epoch)
    >>> class DoubledIterator(rs.TransformIterator):
    ...     def pull(self, count):
    ...         return [2 * item for item in block_items(self._upstream.pull(count))]
    >>> list(rs.range(4).apply(Doubled))
    [0, 2, 4, 6]
    """

    upstream: Stage[Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "upstream", as_stage(self.upstream, "upstream"))
        super().__post_init__()

    @property
    def inputs(self) -> tuple[Stage[Any], ...]:
        return (self.upstream,)


@dataclass(frozen=True, eq=False, repr=False)
class IndexedTransform(Transform[T]):
    """Deprecated until 0.5: a stage with one item per upstream item; write `relation` instead."""

    def relation(self, epoch: int) -> Relation:
        return Same(self, epoch, in_order=True)


@dataclass(frozen=True, eq=False, repr=False)
class PassThrough(Transform[T]):
    """A stage with the items and the state of upstream.

    The stage may be added and removed between a save and a resume, and is left out of the
    fingerprint.
    """

    unchanged = True
    alone = True
    depends_on: ClassVar[Dependence] = NOTHING
    state_cost = SavedState("nothing", levels=0)
    ignores_items: ClassVar[bool] = False
    """Whether the motion never looks at an item, so that items may be replaced by other values."""
    blind = OldName("ignores_items")
    _in_path = False

    def relation(self, epoch: int) -> Relation:
        return Same(self, epoch)

    def start(self, epoch: int = 0) -> StageIterator[T]:
        return self.upstream.start(epoch)


class TransformIterator(StageIterator[T]):
    """Motion of a stage with one upstream and without a separate position.

    Args:
      stage: the stage being iterated.
      epoch: the epoch in which upstream is started too.
      reads: the stage to read from, by default the upstream of ``stage``.

    >>> from resumable.core import block_items
    >>> class Iterator(rs.TransformIterator):  # of a stage that leaves every second item out
    ...     def pull(self, count):
    ...         return block_items(self._upstream.pull(2 * count))[::2]
    >>> list(Iterator(rs.range(9).take(9).stage, epoch=0))
    [0, 2, 4, 6, 8]
    """

    _stage: Transform[Any]

    def __init__(self, stage: Transform[T], epoch: int, reads: Stage[Any] | None = None) -> None:
        self._stage = stage
        self._upstream: StageIterator[Any] = (reads or stage.upstream).start(epoch)

    @property
    def inputs(self) -> Sequence[StageIterator[Any]]:
        return (self._upstream,)

    @property
    def epoch(self) -> int:
        return self._upstream.epoch

    def get_state(self) -> State:
        return {"upstream": self._upstream.get_state()}

    def set_state(self, state: State) -> None:
        (upstream,) = unpack(self._stage, state, "upstream")
        self._upstream.set_state(upstream)


class OwnStateIterator(TransformIterator[T]):
    """Motion of a stage that always reads one upstream; its state adds only values at hand.

    A subclass whose `get_state` adds values returns the same values from `own_state`.
    """

    # Found at the first call: a further frame for each stage in `start` would limit the depth of
    # graphs.
    _note_upstream: Callable[[], DeferredState] | None = None

    def own_state(self) -> State:
        """The values of the state besides upstream's state; by default none."""
        return {}

    def defer_state(self) -> DeferredState:
        if self._note_upstream is None:
            self._note_upstream = state_deferrer(self._upstream)
        return partial(_state_over, self.own_state(), self._note_upstream())


def _state_over(own: State, upstream: DeferredState) -> State:
    return {**own, "upstream": upstream()}


class StateForwardingIterator(TransformIterator[T]):
    """Motion of a stage with the state of upstream."""

    # Found at the first call, as in `OwnStateIterator`.
    _note_upstream: Callable[[], DeferredState] | None = None

    def get_state(self) -> State:
        return self._upstream.get_state()

    def defer_state(self) -> DeferredState:
        if self._note_upstream is None:
            self._note_upstream = state_deferrer(self._upstream)
        return self._note_upstream()

    def set_state(self, state: State) -> None:
        self._upstream.set_state(state)


class ForwardingIterator(StateForwardingIterator[T]):
    """Motion of upstream for a stage with the same items."""

    def pull(self, count: int) -> Block:
        return self._upstream.pull(count)

    def items(self) -> Items[T]:
        return self._upstream.items()

    def blocks(self, size: int) -> Iterator[Block]:
        return self._upstream.blocks(size)

    def skip(self, count: int) -> int:
        return self._upstream.skip(count)

    @property
    def _items_delivered(self) -> int | None:
        return self._upstream._items_delivered

    def origin(self, back: int) -> SourceItem | None:
        return self._upstream.origin(back)


class CountingIterator(CountsItems, OwnStateIterator[T]):
    """Motion of a stage that makes one item of each upstream item, and counts the items."""

    def __init__(self, stage: Transform[T], epoch: int) -> None:
        super().__init__(stage, epoch)
        self._item_position = Position()

    def origin(self, back: int) -> SourceItem | None:
        return self._upstream.origin(back)

    def get_state(self) -> State:
        return {"position": self._item_position.number, "upstream": self._upstream.get_state()}

    def own_state(self) -> State:
        return {"position": self._item_position.number}

    def set_state(self, state: State) -> None:
        position, upstream = unpack(self._stage, state, "position", "upstream")
        limit = self._limit()
        self._position = unpack_count(
            self._stage, "position", position, limit, f"the end, length={limit}"
        )
        self._upstream.set_state(upstream)

    def skip_counted(self, count: int) -> int:
        """`skip` for a stage with the items of upstream, whose functions need no call."""
        passed = self._upstream.skip(count)
        self._position += passed
        return passed

    def _limit(self) -> Length:
        """The largest possible number of items of an epoch; None if unknown."""
        return self._stage.length
