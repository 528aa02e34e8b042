"""Iterate over the items that a user function makes of each upstream item, from any offset on."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import chain
from typing import Any, Final, TypeVar

from ..errors import InvalidType, shorten
from ..state.value import State, unpack
from .epochs import in_epoch
from .lookup import IndexedIterator
from .replay_point import ReplayPoint, check_offset, skip_outputs
from .stage import Stage, as_stage, known_length
from .stage_iterator import ItemByItem, Items, StageIterator
from .transform import Transform, TransformIterator

T = TypeVar("T")

OUTPUTS: Final = (
    "items that the function makes of this item; does it return the same items in every run?"
)
PLAIN: Final = frozenset({list, tuple})
OF_PLAIN: Final[frozenset[type]] = frozenset({type(iter([])), type(iter(()))})
"""Checked first: an expansion may have few items, so the cost of starting an iterator matters."""


def inner_stage(made: Any) -> Stage[Any] | None:
    """The stage ``made``, or the stage of the pipeline ``made``; None for other values."""
    stage = getattr(made, "stage", made)
    return as_stage(stage) if isinstance(stage, Stage) else None


def expand(made: Any, epoch: int, offset: int, owner: Stage[Any]) -> Iterator[Any]:
    """Iterate over ``made``, an iterable or a pipeline, from item ``offset`` on.

    Raises:
      InvalidType: if ``made`` is neither.
      StateMismatch: if ``made`` has fewer than ``offset`` items.
    """
    if not offset and type(made) in PLAIN:
        return iter(made)
    stage = inner_stage(made)
    if stage is not None:
        return _expanded_stage(stage, epoch, offset, owner)
    try:
        iterator: Iterator[Any] = iter(made)
    except TypeError:
        raise InvalidType(
            f"the function of {type(owner).__name__} must return an iterable or a pipeline, "
            f"got {shorten(made)}"
        ) from None
    skip_outputs(iterator, offset, OUTPUTS, owner)
    return iterator


def items_of(expansion: Iterator[Any]) -> Iterator[Any]:
    """The items of an iterator returned by `expand`, in the fastest way."""
    if type(expansion) not in OF_PLAIN and isinstance(expansion, StageIterator):
        return iter(expansion.items())
    return expansion


def close_expansion(items: Iterator[Any]) -> None:
    """Close an iterator returned by `expand`: the threads of a pipeline, or a generator."""
    if type(items) not in OF_PLAIN and isinstance(items, (StageIterator, Generator)):
        items.close()


def _expanded_stage(
    stage: Stage[Any], epoch: int, offset: int, owner: Stage[Any]
) -> StageIterator[Any]:
    stage = in_epoch(stage, epoch)
    if stage.random_access:
        indexed: StageIterator[Any] = IndexedIterator(stage, epoch)
        check_offset(offset, int(min(offset, known_length(stage))), OUTPUTS, owner)
        indexed.set_state({"position": offset})
        return indexed
    iterator = stage.start(epoch)
    if offset:
        check_offset(offset, iterator.skip(offset), OUTPUTS, owner)
    return iterator


class ExpandingIterator(ItemByItem[T], TransformIterator[T]):
    """Motion through the items that ``fn`` makes of each upstream item."""

    def __init__(self, stage: Transform[T], epoch: int, fn: Callable[[Any], Iterable[T]]) -> None:
        super().__init__(stage, epoch)
        self._fn = fn
        self._start_epoch = epoch
        self._point = ReplayPoint(stage, self._upstream)

    def items(self) -> Items[T]:
        return Items(chain.from_iterable(self._expansions()))

    def _expansions(self) -> Iterator[Iterator[T]]:
        """The rest of the current expansion, then the expansions of all further items."""
        point, fn = self._point, self._fn
        if point.outputs is not None:
            yield from self._rest(point.outputs)
        skipped = point.number
        for item in point.upstream_items():
            made: Any = fn(item)
            if type(made) in PLAIN:
                # Inline, since an expansion may have few items.
                outputs = iter(made)
                if skipped:
                    skip_outputs(outputs, skipped, OUTPUTS, self._stage)
                    skipped = 0
                point.outputs, point.rows, point.before = outputs, made, point.noted
                yield outputs
            else:
                outputs = expand(made, self._start_epoch, skipped, self._stage)
                point.offset.move_to(skipped)
                point.outputs, point.rows, point.before = outputs, None, point.noted
                yield from self._rest(outputs)
                skipped = 0
        point.end()

    def _rest(self, outputs: Iterator[T]) -> Iterator[Iterator[T]]:
        """The rest of the current expansion; afterwards the expansion is closed and left."""
        if self._point.rows is None:
            yield self._point.offset.counting(items_of(outputs))
            close_expansion(outputs)
        else:
            yield outputs
        self._point.leave()

    def close(self) -> None:
        if self._point.outputs is not None:
            close_expansion(self._point.outputs)
        super().close()

    @property
    def _items_held(self) -> int:
        return int(self._point.number > 0)

    @property
    def _items_delivered(self) -> int | None:
        whole = super()._items_delivered
        return None if whole is None else whole + self._point.number

    def get_state(self) -> State:
        return self._point.get_state()

    def set_state(self, state: State) -> None:
        self._point.set_state(*unpack(self._stage, state, "offset", "upstream"))
