"""Items that travel with their origins, and functions called with the item alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar, final

from ..core.block import Block, block_items
from ..core.callables import StandIn
from ..core.combine import Combine
from ..core.foreign_protocol import PROTOCOLS
from ..core.function_state import CallsFunction, with_function
from ..core.layout import LISTS, Layout
from ..core.origin import (
    BatchOrigin,
    ItemOrigin,
    Name,
    Origin,
    PartOrigin,
    UnknownOrigin,
    ZipOrigin,
)
from ..core.relation import Joined, Relation, Same
from ..core.stage import Stage
from ..core.stage_iterator import Items, StageIterator
from ..core.transform import ForwardingIterator, PassThrough

T = TypeVar("T")
S = TypeVar("S", bound=CallsFunction[Any])


@final
class Traced(Generic[T]):
    """An item and its origin.

    No stage looks inside: a tuple would be stacked by a batch, field by field.

    Attributes:
      item: as the pipeline delivers it.
      origin: of the item.
    """

    __slots__ = ("item", "origin")

    def __init__(self, item: T, origin: ItemOrigin) -> None:
        self.item: Any = item
        self.origin = origin

    def __getitem__(self, name: Any) -> Any:
        """A field of the item, for a stage that takes fields by name."""
        return self.item[name]

    def __repr__(self) -> str:
        return f"Traced({self.item!r}, {self.origin!r})"


def origin_alone(found: Any) -> Any:
    """The origin of a `Traced`; an origin is returned unchanged."""
    return found.origin if type(found) is Traced else found


@dataclass(frozen=True, eq=False, repr=False)
class Each(PassThrough[Any]):
    """The result of ``make`` for each item. Adds nothing to a state, and is only in shadows."""

    block_layout: ClassVar[Layout] = LISTS

    make: Callable[[Any], Any]

    def relation(self, epoch: int) -> Relation:
        return Same(self, epoch, make=Joined(self._made, partial(map, self.make)))

    def _made(self, block: Block) -> list[Any]:
        return list(map(self.make, block_items(block)))

    def start(self, epoch: int = 0) -> StageIterator[Any]:
        return _EachIterator(self, epoch)


class _EachIterator(ForwardingIterator[Any]):
    _stage: Each

    def pull(self, count: int) -> Block:
        return self._stage._made(self._upstream.pull(count))

    def items(self) -> Items[Any]:
        return self._upstream.items().through(partial(map, self._stage.make))

    def blocks(self, size: int) -> Iterator[Block]:
        for block in self._upstream.blocks(size):
            yield self._stage._made(block)

    def state_at(self, offset: int) -> Any:
        return self._upstream.state_at(offset)


class CallsTraced(StandIn[Callable[..., Any]]):
    """Replaces a user's function; the function's own state is saved with the calling stage."""

    def __getattr__(self, name: str) -> Any:
        # A function with state is known by these methods, and called through them.
        if name in _STATE_METHODS:
            return getattr(self.fn, name)
        raise AttributeError(name)


_STATE_METHODS = frozenset(name for protocol in PROTOCOLS for name in protocol)


@final
class MapsTraced(CallsTraced):
    """Calls a function with the item, and returns the result with the origin of the item."""

    def __call__(self, traced: Traced[Any], *more: Any) -> Traced[Any]:
        return Traced(self.fn(traced.item, *more), traced.origin)


@final
class AsksTraced(CallsTraced):
    """Calls a function with the item, and returns the result alone."""

    def __call__(self, traced: Traced[Any]) -> Any:
        return self.fn(traced.item)


@final
class CollatesTraced(CallsTraced):
    """Calls a function with the items of a list, and returns the result with all their origins."""

    def __call__(self, traced: Sequence[Traced[Any]]) -> Traced[Any]:
        return Traced(self.fn([one.item for one in traced]), rows_of(traced))


@final
class ScansTraced(CallsTraced):
    """Calls the function of a scan with the carry and the item."""

    def __call__(self, carry: Any, traced: Traced[Any]) -> Any:
        made = self.fn(carry, traced.item)
        if not isinstance(made, (tuple, list)) or len(made) != 2:
            return made  # refused by the stage
        return made[0], Traced(made[1], carried(traced.origin))


def calling(
    stage: S, kind: type[CallsTraced], fn: Callable[..., Any] | None = None, **changes: Any
) -> S:
    """``stage`` with its function, or ``fn``, called through ``kind``.

    A function with state is copied, since the pipeline may be running with the function.
    """
    function = stage.function if fn is None else fn
    if stage.carries_state:
        function = deepcopy(function)
    return with_function(stage, kind(function), **changes)


def carried(*origins: ItemOrigin) -> UnknownOrigin:
    """The origin of a result from items with ``origins`` and earlier items kept by a function."""
    return UnknownOrigin("what its function keeps of earlier items", origins)


def made_with_state(traced: Traced[Any]) -> Traced[Any]:
    """``traced``, made by a function with its own state."""
    return Traced(traced.item, carried(traced.origin))


def names_of_inputs(stage: Stage[Any]) -> Sequence[Name]:
    """The names of the inputs of ``stage``, or else their numbers."""
    names = stage.names if isinstance(stage, Combine) else None
    return range(len(stage.inputs)) if names is None else names


def through_input(name: Name, found: Any) -> Any:
    """``found``, an origin or a `Traced` after input ``name``, with the name in the origin."""
    change = partial(Origin.through, name=name)
    if type(found) is Traced:
        return Traced(found.item, found.origin.mapped(change))
    return found.mapped(change)


def joined_origins(row: Any) -> Any:
    """The origin of a row of ``zip``, one part for each input; with the row if traced."""
    parts = dict(row) if isinstance(row, dict) else dict(enumerate(row))
    if any(type(part) is not Traced for part in parts.values()):
        return ZipOrigin(parts)
    origin = ZipOrigin({name: part.origin for name, part in parts.items()})
    items = {name: part.item for name, part in parts.items()}
    return Traced(items if isinstance(row, dict) else tuple(items.values()), origin)


def origin_beside(row: tuple[Any, Any]) -> Any:
    """The origin of a pair of a number and an item, with the pair if the item is traced."""
    number, found = row
    return Traced((number, found.item), found.origin) if type(found) is Traced else found


def rows_of(traced: Sequence[Traced[Any]]) -> BatchOrigin:
    """The origins of a batch of items."""
    return BatchOrigin(tuple(one.origin for one in traced))


def rows_of_origins(origins: Sequence[ItemOrigin]) -> BatchOrigin:
    """The origins of a batch of origins."""
    return BatchOrigin(tuple(origins))


def rows_alike(stack: Callable[[list[Any]], Any], found: list[Any]) -> Any:
    """The origins of a list of items, with the result of ``stack`` if the items are traced."""
    if type(found[0]) is Traced:
        return Traced(stack([one.item for one in found]), rows_of(found))
    return rows_of_origins(found)


def row_origins(count: int, batch: ItemOrigin, *, in_order: bool) -> list[ItemOrigin]:
    """The origins of the ``count`` rows of a batch.

    Args:
      count: of the rows.
      batch: origin of the batch.
      in_order: whether the rows are the items of the batch, in order.
    """
    if in_order and isinstance(batch, BatchOrigin) and len(batch) == count:
        return list(batch)
    return [PartOrigin(batch, number) for number in range(count)]


def unchanged(item: T, *_: Any) -> T:
    """Replaces a function with an unneeded result."""
    return item
