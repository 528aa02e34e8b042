"""A user's stage in a shadow: it reads plain items, and the origins of its inputs are noted."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, ClassVar, Final, final

from ..core.block import Block, block_items
from ..core.computed_once import computed_once
from ..core.graph import with_inputs
from ..core.indexed import Indexed
from ..core.layout import LISTS, Layout
from ..core.orders import Length
from ..core.origin import BatchOrigin, ItemOrigin, UnknownOrigin, ZipOrigin
from ..core.relation import Grouped, InputItems, Kept, Relation, Same, Sliced, kind_of, one_for_each
from ..core.stage import Stage
from ..core.stage_iterator import StageIterator
from ..core.transform import StateForwardingIterator
from ..state.value import State
from .traced import Traced, carried, names_of_inputs

# A stage may read ahead, drop read items, and hold items in its state, without any notice. So the
# items read since the previous item need not be the inputs of the next item. The origin is known
# only if the same object comes out, or if a relation says that an item is made of the inputs with
# the same number.

Noted = tuple[deque[Traced[Any]], ...]
"""Items read from each input and not accounted for."""

OF_INPUTS: Final = frozenset({"upstream", "upstreams"})
"""The keys of a state with the states of the inputs."""
SHARED_NUMBERS: Final = range(-5, 257)
"""CPython keeps one object for each of these integers."""


@final
@dataclass(frozen=True, eq=False, repr=False)
class Tapped(Stage[Traced[Any]]):
    """The items of ``of`` with their origins, as far as known by the relation.

    Args:
      of: any stage with inputs.
      pairs: the shadows of the inputs of ``of``, which deliver items with their origins.
    """

    block_layout: ClassVar[Layout] = LISTS

    of: Stage[Any]
    pairs: tuple[Stage[Any], ...]

    @property
    def inputs(self) -> tuple[Stage[Any], ...]:
        return self.pairs

    def _with_inputs(self, inputs: tuple[Stage[Any], ...]) -> Stage[Any]:
        return Tapped(self.of, inputs)

    @computed_once
    def length(self) -> Length:
        return self.of.length

    def relation(self, epoch: int) -> Relation:
        return Same(self, epoch, input_at=lambda _: InputItems(self.of, epoch), in_order=True)

    def start(self, epoch: int = 0) -> StageIterator[Traced[Any]]:
        noted = self._nothing_noted()
        return _TappedIterator(self, self._over(noted).start(epoch), noted)

    def indexed(self, epoch: int = 0) -> Indexed[Traced[Any]] | None:
        noted = self._nothing_noted()
        indexed = self._over(noted).indexed(epoch)
        if indexed is None:
            return None

        def item(index: int) -> Traced[Any]:
            for of_input in noted:
                of_input.clear()
            found = indexed.item(index)
            return Traced(found, _Telling(self.of, noted).of(found))

        return Indexed(lambda indices: list(map(item, indices.tolist())), item)

    def _over(self, noted: Noted) -> Stage[Any]:
        """The stage over inputs that note the items read."""
        taps = (
            _Tap(one, plain, of_input.append)
            for one, plain, of_input in zip(self.pairs, self.of.inputs, noted, strict=True)
        )
        return with_inputs(self.of, tuple(taps))

    def _nothing_noted(self) -> Noted:
        return tuple(deque() for _ in self.pairs)


@final
@dataclass(frozen=True, eq=False, repr=False)
class _Tap(Stage[Any]):
    """The items of ``pairs`` alone, each passed to ``note``; ``plain`` delivers the same items."""

    pairs: Stage[Traced[Any]]
    plain: Stage[Any]
    note: Callable[[Traced[Any]], None]

    @property
    def inputs(self) -> tuple[Stage[Any], ...]:
        return (self.pairs,)

    @computed_once
    def length(self) -> Length:
        return self.plain.length

    @computed_once
    def block_layout(self) -> Layout:
        return self.plain.block_layout

    def relation(self, epoch: int) -> Relation:
        return Same(self, epoch, in_order=True)

    def start(self, epoch: int = 0) -> StageIterator[Any]:
        return _TapIterator(self, epoch)

    def indexed(self, epoch: int = 0) -> Indexed[Any] | None:
        indexed = self.pairs.indexed(epoch)
        if indexed is None:
            return None
        gather = indexed.gather
        return Indexed(lambda indices: self.noted(gather(indices)))

    def noted(self, block: Block) -> list[Any]:
        """The items of ``block``, after each was passed to ``note``."""
        pairs = block_items(block)
        for one in pairs:
            self.note(one)
        return [one.item for one in pairs]


class _TapIterator(StateForwardingIterator[Any]):
    _stage: Any

    def __init__(self, stage: _Tap, epoch: int) -> None:
        self._stage = stage
        self._upstream = stage.pairs.start(epoch)

    def pull(self, count: int) -> Block:
        return self._stage.noted(self._upstream.pull(count))

    def skip(self, count: int) -> int:
        return self._upstream.skip(count)


class _TappedIterator(StateForwardingIterator[Traced[Any]]):
    """Motion of the stage itself, item by item."""

    _stage: Any

    def __init__(self, stage: Tapped, iterator: StageIterator[Any], noted: Noted) -> None:
        self._stage = stage
        self._upstream = iterator
        self._telling = _Telling(stage.of, noted)

    def pull(self, count: int) -> Block:
        return [Traced(item, self._telling.of(item)) for item in islice(self._upstream, count)]

    def set_state(self, state: State) -> None:
        super().set_state(state)
        self._telling.begin_at(state)


class _Telling:
    """Finds the origin of each item of a stage by the items read.

    Args:
      stage: of the user.
      noted: receives the items read by the stage.
    """

    def __init__(self, stage: Stage[Any], noted: Noted) -> None:
        self._stage = stage
        self._noted = noted
        # Whether the next items may come from the state at which the stage began.
        self._held = False
        # Origins of the items read for the previous item.
        self._last: tuple[ItemOrigin, ...] = ()

    def begin_at(self, state: State) -> None:
        """Go on from ``state``."""
        self._held = _may_hold_items(state)
        self._last = ()
        for of_input in self._noted:
            of_input.clear()

    def of(self, item: Any) -> ItemOrigin:
        """The origin of the newly delivered ``item``."""
        stage, kind = self._stage, kind_of(self._stage)
        if one_for_each(stage):
            return self._of_same_number()
        if stage.unchanged:
            in_order = kind in (Kept, Sliced)
            return self._kept(item, may_repeat=stage.alone) if in_order else self._moved(item)
        if kind is Grouped:
            return self._group(item)
        if any(self._noted):
            self._last = self._all_read()
        return carried(*self._last) if kind is Same else self._unknown(*self._last)

    def _of_same_number(self) -> ItemOrigin:
        """The origin of the next item of each input; items read ahead stay noted."""
        read = [of_input.popleft().origin if of_input else None for of_input in self._noted]
        known = [origin for origin in read if origin is not None]
        if self._held or len(known) < len(read):
            return self._unknown(*known)
        if len(known) == 1:
            return known[0]
        return ZipOrigin(dict(zip(names_of_inputs(self._stage), known, strict=True)))

    def _kept(self, item: Any, *, may_repeat: bool) -> ItemOrigin:
        """The origin of ``item`` if the order is kept, so earlier items were dropped.

        Args:
          item: as read.
          may_repeat: whether an object read several times stays each time.
        """
        places = self._places(item)
        if not places:
            return self._unknown(*self._all_read())
        (noted,) = self._noted
        origins = [noted[place].origin for place in places]
        for _ in range((places[0] if may_repeat else places[-1]) + 1):
            noted.popleft()
        return origins[0] if may_repeat or len(origins) == 1 else self._unknown(*origins)

    def _moved(self, item: Any) -> ItemOrigin:
        """The origin of ``item`` if all items are delivered sooner or later."""
        found = [(of_input, place) for of_input in self._noted for place in _places(of_input, item)]
        if len(found) == 1 and not (self._held and _may_be_one_object(item)):
            of_input, place = found[0]
            origin = of_input[place].origin
            del of_input[place]
            return origin
        if not found and not self._held:  # a copy of a noted item
            origins = self._origins_read()
            oldest = max(self._noted, key=len)
            if oldest:
                oldest.popleft()
            return self._unknown(*origins)
        return self._unknown(*(of_input[place].origin for of_input, place in found))

    def _group(self, item: Any) -> ItemOrigin:
        """The origins of the members of ``item``, if a list of items read."""
        places = [self._places(member) for member in item] if type(item) in (list, tuple) else []
        if not places or any(len(of_member) != 1 for of_member in places):
            return self._unknown(*self._all_read())
        (noted,) = self._noted
        numbers = [place for (place,) in places]
        rows = tuple(noted[number].origin for number in numbers)
        for _ in range(min(numbers)):
            noted.popleft()  # not the rest: groups may overlap
        return BatchOrigin(rows)

    def _places(self, item: Any) -> list[int]:
        """The places of ``item`` among noted items; empty also if unknown."""
        if len(self._noted) > 1 or (self._held and _may_be_one_object(item)):
            return []
        return _places(self._noted[0], item)

    def _origins_read(self) -> tuple[ItemOrigin, ...]:
        return tuple(one.origin for one in chain.from_iterable(self._noted))

    def _all_read(self) -> tuple[ItemOrigin, ...]:
        """The origins of all noted items; the notes are cleared."""
        found = self._origins_read()
        for of_input in self._noted:
            of_input.clear()
        return found

    def _unknown(self, *parts: ItemOrigin) -> UnknownOrigin:
        return UnknownOrigin(f"what {type(self._stage).__name__} made it of", parts)


def _places(noted: deque[Traced[Any]], item: Any) -> list[int]:
    return [place for place, one in enumerate(noted) if one.item is item]


def _may_be_one_object(item: Any) -> bool:
    """Whether an equal item made elsewhere may be the same object."""
    if item is None or type(item) is bool:
        return True
    if type(item) is int:
        return item in SHARED_NUMBERS
    return type(item) in (str, bytes, tuple, frozenset) and len(item) <= 1


def _may_hold_items(state: State) -> bool:
    """Whether a stage may have put items in ``state``, without their origins."""
    if not isinstance(state, Mapping):
        return True
    own = [value for name, value in state.items() if name not in OF_INPUTS]
    return any(not isinstance(value, (int, float, type(None))) and len(value) for value in own)
