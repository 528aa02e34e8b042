"""Iterate over the items that a user function makes of each upstream item, from any offset on."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from operator import length_hint
from typing import Any, Final, TypeVar

from ..errors import InvalidType, StateMismatch, shorten
from ..state.value import State, unpack, unpack_count
from .epochs import in_epoch
from .lookup import IndexedIterator
from .position import Position
from .stage import Stage, as_stage, known_length
from .stage_iterator import DeferredState, ItemByItem, Items, StageIterator, state_deferrer
from .transform import Transform, TransformIterator

T = TypeVar("T")

END: Final = object()
PLAIN: Final = frozenset({list, tuple})
OF_PLAIN: Final[frozenset[type]] = frozenset({type(iter([])), type(iter(()))})
"""Checked first: an expansion may have few items, so the cost of starting one matters."""


def inner_stage(made: Any) -> Stage[Any] | None:
    """The stage that ``made`` is or wraps, if it is a pipeline."""
    stage = getattr(made, "stage", made)
    return as_stage(stage) if isinstance(stage, Stage) else None


def expand(made: Any, epoch: int, offset: int, owner: Stage[Any]) -> Iterator[Any]:
    """Iterate over ``made``, an iterable or a pipeline, from item ``offset`` on.

    Raises:
      InvalidType: if it is neither.
      StateMismatch: if it has fewer than ``offset`` items.
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
    check_passed(sum(1 for _ in islice(iterator, offset)), offset, owner)
    return iterator


def items_of(expansion: Iterator[Any]) -> Iterator[Any]:
    """The items of an iterator that `expand` returned, in the fastest way."""
    if type(expansion) not in OF_PLAIN and isinstance(expansion, StageIterator):
        return iter(expansion.items())
    return expansion


def close_expansion(items: Iterator[Any]) -> None:
    """Close an iterator that `expand` returned: the threads of a pipeline, or a generator."""
    if type(items) not in OF_PLAIN and isinstance(items, (StageIterator, Generator)):
        items.close()


def _state_before_last(upstream: StageIterator[Any]) -> State:
    """The state before the item that ``upstream`` handed out last."""
    found = upstream.state_at(-1)
    assert found is not None
    return found[0]


def _expanded_stage(
    stage: Stage[Any], epoch: int, offset: int, owner: Stage[Any]
) -> StageIterator[Any]:
    stage = in_epoch(stage, epoch)
    if stage.random_access:
        indexed: StageIterator[Any] = IndexedIterator(stage, epoch)
        check_passed(int(min(offset, known_length(stage))), offset, owner)
        indexed.set_state({"position": offset})
        return indexed
    iterator = stage.start(epoch)
    if offset:
        check_passed(iterator.skip(offset), offset, owner)
    return iterator


def check_passed(passed: int, offset: int, owner: Stage[Any]) -> None:
    """Refuse an ``offset`` beyond the items of an expansion."""
    if passed < offset:
        raise StateMismatch(
            f"saved offset={offset} lies beyond the {passed} items that the function makes of "
            "this item; does it return the same items in every run?",
            owner,
        )


class ExpandingIterator(ItemByItem[T], TransformIterator[T]):
    """Motion through the items that ``fn`` makes of each upstream item."""

    def __init__(self, stage: Transform[T], epoch: int, fn: Callable[[Any], Iterable[T]]) -> None:
        super().__init__(stage, epoch)
        self._fn = fn
        self._start_epoch = epoch
        self._note_upstream = state_deferrer(self._upstream)
        self._inner: Iterator[T] | None = None
        # The list or tuple that `_inner` walks, if it is one: how many of its items are left, the iterator tells.
        self._plain: Sequence[T] | None = None
        # Upstream's state before the item that `_inner` was made from, while there is one.
        self._before: DeferredState | None = None
        # Items of another `_inner` that were handed out, or, while it is None, that are to be skipped.
        self._offset = Position()

    def items(self) -> Items[T]:
        return Items(chain.from_iterable(self._expansions()))

    def _expansions(self) -> Iterator[Iterator[T]]:
        """The rest of the current expansion, then those of all further items."""
        if self._inner is not None:
            yield from self._walked(self._inner)
        upstream, fn, offset = iter(self._upstream.items()), self._fn, self._offset.number
        known, is_first, note_state = None, True, self._note_upstream
        before = note_state()
        for item in upstream:
            if is_first:
                known, is_first = self.state_before_last(), False
                before = known or before
            made: Any = fn(item)
            if type(made) in PLAIN and not offset:
                # Inline, since an expansion may have few items.
                inner = iter(made)
                self._inner, self._plain, self._before = inner, made, before
                yield inner
            else:
                inner = expand(made, self._start_epoch, offset, self._stage)
                self._inner, self._plain, self._before = inner, None, before
                yield from self._walked(inner)
                offset = 0
            # Where upstream knows the state before its last item, states need not be noted.
            if known is None:
                before = note_state()
        self._inner = self._plain = self._before = None
        if offset:
            raise self.ended_within(offset)

    def _walked(self, inner: Iterator[T]) -> Iterator[Iterator[T]]:
        """What is left of ``inner``; then it is closed."""
        yield inner if self._plain is not None else self._offset.counting(items_of(inner))
        close_expansion(inner)
        self._inner = self._plain = self._before = None
        self._offset.move_to(0)

    @property
    def _place(self) -> int:
        """How many items of the current expansion were handed out, or are to be skipped of the next one."""
        if self._plain is None:
            return self._offset.number
        return len(self._plain) - length_hint(self._inner)

    def state_before_last(self) -> DeferredState | None:
        """A function that returns the state before the item that upstream has last handed out by then.

        None if upstream does not know that state without moving; it must then be noted before each item.
        Call this only after upstream has handed out an item.
        """
        if self._upstream.state_at(-1) is None:
            return None
        return partial(_state_before_last, self._upstream)

    def close(self) -> None:
        if self._inner is not None and self._plain is None:
            inner, self._inner = self._inner, None
            close_expansion(inner)
        super().close()

    @property
    def _items_held(self) -> int:
        return int(self._place > 0)

    @property
    def _items_delivered(self) -> int | None:
        whole = super()._items_delivered
        return None if whole is None else whole + self._place

    def get_state(self) -> State:
        before = self._before
        upstream = self._upstream.get_state() if before is None else before()
        return {"offset": self._place, "upstream": upstream}

    def set_state(self, state: State) -> None:
        offset, upstream = unpack(self._stage, state, "offset", "upstream")
        self._offset.move_to(unpack_count(self._stage, "offset", offset))
        self._upstream.set_state(upstream)

    def ended_within(self, offset: int) -> StateMismatch:
        """The error for an ``offset`` in an item that upstream does not have."""
        return StateMismatch(
            f"saved offset={offset}, but upstream has no further item; "
            "did the data shrink since the save?",
            self._stage,
        )
