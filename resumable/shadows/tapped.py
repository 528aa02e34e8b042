"""A stage of the user in a shadow: it reads plain items, and the origins of what it reads are noted."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, final

from ..core.block import Block, block_items, block_length
from ..core.derived import derived
from ..core.flow import Flow
from ..core.graph import with_inputs
from ..core.indexed import Indexed
from ..core.layout import LISTS, Layout
from ..core.origin import ItemOrigin, PartOrigin, UnknownOrigin
from ..core.stage import Length, Stage
from ..core.stage_iterator import StageIterator
from ..core.transform import PassThroughIterator
from ..state.value import State
from .traced import Traced, carried, rows_of

Noted = deque[Traced[Any]]


@final
@dataclass(frozen=True, eq=False, repr=False)
class Tapped(Stage[Traced[Any]]):
    """The items of ``of`` with their origins, as far as its `flow` tells them.

    Args:
      of: any stage with inputs.
      pairs: the shadows of its inputs, which deliver items with their origins.
    """

    block_layout: ClassVar[Layout] = LISTS

    of: Stage[Any]
    pairs: tuple[Stage[Any], ...]

    @property
    def inputs(self) -> tuple[Stage[Any], ...]:
        return self.pairs

    def _with_inputs(self, inputs: tuple[Stage[Any], ...]) -> Stage[Any]:
        return Tapped(self.of, inputs)

    @derived
    def length(self) -> Length:
        return self.of.length

    def start(self, epoch: int = 0) -> StageIterator[Traced[Any]]:
        noted: Noted = deque()
        return _TappedIterator(self, self._over(noted).start(epoch), noted)

    def indexed(self, epoch: int = 0) -> Indexed[Traced[Any]] | None:
        noted: Noted = deque()
        indexed = self._over(noted).indexed(epoch)
        if indexed is None:
            return None

        def item(index: int) -> Traced[Any]:
            noted.clear()
            found = indexed.item(index)
            return Traced(found, _Telling(self.of).of(found, noted))

        return Indexed(lambda indices: list(map(item, indices.tolist())), item)

    def _over(self, noted: Noted) -> Stage[Any]:
        """The stage over inputs that note what it reads."""
        taps = (
            _Tap(pairs, plain, noted.append)
            for pairs, plain in zip(self.pairs, self.of.inputs, strict=True)
        )
        return with_inputs(self.of, tuple(taps))


@final
@dataclass(frozen=True, eq=False, repr=False)
class _Tap(Stage[Any]):
    """The items of ``pairs`` alone, each of which is told to ``note``; ``plain`` delivers the same items."""

    pairs: Stage[Traced[Any]]
    plain: Stage[Any]
    note: Callable[[Traced[Any]], None]

    @property
    def inputs(self) -> tuple[Stage[Any], ...]:
        return (self.pairs,)

    @derived
    def length(self) -> Length:
        return self.plain.length

    @derived
    def block_layout(self) -> Layout:
        return self.plain.block_layout

    def start(self, epoch: int = 0) -> StageIterator[Any]:
        return _TapIterator(self, epoch)

    def indexed(self, epoch: int = 0) -> Indexed[Any] | None:
        indexed = self.pairs.indexed(epoch)
        if indexed is None:
            return None
        gather = indexed.gather
        return Indexed(lambda indices: self.noted(gather(indices)))

    def noted(self, block: Block) -> list[Any]:
        """The items of ``block``, after they were told."""
        pairs = block_items(block)
        for one in pairs:
            self.note(one)
        return [one.item for one in pairs]


class _TapIterator(PassThroughIterator[Any]):
    _stage: Any

    def __init__(self, stage: _Tap, epoch: int) -> None:
        self._stage = stage
        self._upstream = stage.pairs.start(epoch)

    def pull(self, count: int) -> Block:
        return self._stage.noted(self._upstream.pull(count))

    def skip(self, count: int) -> int:
        return self._upstream.skip(count)


class _TappedIterator(StageIterator[Traced[Any]]):
    """Motion of the stage itself, item by item."""

    def __init__(self, stage: Tapped, iterator: StageIterator[Any], noted: Noted) -> None:
        self._stage = stage
        self._iterator = iterator
        self._noted = noted
        self._telling = _Telling(stage.of)

    @property
    def inputs(self) -> tuple[StageIterator[Any], ...]:
        return (self._iterator,)

    def pull(self, count: int) -> Block:
        found: list[Traced[Any]] = []
        while len(found) < count and block_length(block := self._iterator.pull(1)):
            (item,) = block_items(block)
            found.append(Traced(item, self._telling.of(item, self._noted)))
        return found

    def get_state(self) -> State:
        return self._iterator.get_state()

    def set_state(self, state: State) -> None:
        self._iterator.set_state(state)
        offset = state.get("offset")
        self._telling.begin_at(offset if isinstance(offset, int) else None)


class _Telling:
    """Tells the origin of each item of a stage by what was read since the one before."""

    def __init__(self, stage: Stage[Any]) -> None:
        self._stage = stage
        # What the last item was made of, and the number of the next one made of it.
        self._whole: ItemOrigin | None = None
        self._number: int | None = 0

    def begin_at(self, number: int | None) -> None:
        """Let the next item have this ``number`` among those made of one."""
        self._number = number

    def of(self, item: Any, noted: Noted) -> ItemOrigin:
        """The origin of ``item``; takes from ``noted`` what was read for it."""
        flow = self._stage.flow
        if flow.one_for_each and noted:
            return noted.popleft().origin  # what was read ahead stays
        if flow is Flow.EXPANDED:
            return self._part(noted)
        if flow in (Flow.REORDERED, Flow.REPEATED, Flow.JOINED):
            return self._same(item, noted)
        read = [*noted]
        noted.clear()
        if not read:
            return self._unknown()
        if flow in (Flow.FILTERED, Flow.SUBSET):
            return read[-1].origin
        if flow is Flow.GROUPED:
            return rows_of(read)
        if flow is Flow.COUNTED:
            return carried(read[-1].origin)
        return self._unknown(*[one.origin for one in read])

    def _part(self, noted: Noted) -> ItemOrigin:
        if noted:
            if self._whole is not None:
                self._number = 0
            self._whole = noted[-1].origin
            noted.clear()
        if self._whole is None:
            return self._unknown()
        number = self._number
        self._number = None if number is None else number + 1
        return PartOrigin(self._whole, number)

    def _same(self, item: Any, noted: Noted) -> ItemOrigin:
        """That of the only item read that is ``item`` itself."""
        places = [place for place, one in enumerate(noted) if one.item is item]
        if len(places) != 1:
            return self._unknown()
        origin = noted[places[0]].origin
        del noted[places[0]]
        return origin

    def _unknown(self, *parts: ItemOrigin) -> UnknownOrigin:
        return UnknownOrigin(f"what {type(self._stage).__name__} made it of", parts)
