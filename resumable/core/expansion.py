"""Walk what a user function makes of each item, from any offset on."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any, Final, TypeVar

from ..errors import InvalidType, StateMismatch, shorten
from ..state.value import State, unpack, unpack_count
from .block import Block
from .indexed import IndexedIterator
from .stage import Stage, as_stage
from .stage_iterator import Items, Mark, StageIterator
from .transform import Transform, TransformIterator

T = TypeVar("T")

END: Final = object()
PLAIN: Final = frozenset({list, tuple})
OF_PLAIN: Final[frozenset[type]] = frozenset({type(iter([])), type(iter(()))})
"""Looked for first: an expansion may have few items, so that what it costs to begin it counts."""


def inner_stage(made: Any) -> Stage[Any] | None:
    """The stage that ``made`` is or wraps, if it is a pipeline."""
    stage = getattr(made, "stage", made)
    return as_stage(stage) if isinstance(stage, Stage) else None


def expand(made: Any, epoch: int, offset: int, owner: Stage[Any]) -> Iterator[Any]:
    """Iterate ``made``, an iterable or a pipeline, from item ``offset`` on.

    Raises:
      InvalidType: if it is neither.
      StateMismatch: if it has fewer items.
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
    """The items of what `expand` gave, in the fastest way there is."""
    if type(expansion) not in OF_PLAIN and isinstance(expansion, StageIterator):
        return iter(expansion.items())
    return expansion


def close_expansion(items: Iterator[Any]) -> None:
    """End what `expand` opened: its threads, or the generator that was made."""
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
    if stage.random_access:
        indexed: StageIterator[Any] = IndexedIterator(stage, epoch)
        length = stage.length
        assert length is not None
        check_passed(int(min(offset, length)), offset, owner)
        indexed.set_state({"position": offset})
        return indexed
    iterator = stage.start(epoch)
    check_passed(sum(1 for _ in islice(iterator, offset)), offset, owner)
    return iterator


def check_passed(passed: int, offset: int, owner: Stage[Any]) -> None:
    """Refuse an ``offset`` beyond the items of an expansion."""
    if passed < offset:
        raise StateMismatch(
            f"saved offset={offset} lies beyond the {passed} items that the function makes of "
            "this item; does it return the same items in every run?",
            owner,
        )


class ExpandingIterator(TransformIterator[T]):
    """Walk the items that ``fn`` makes of each upstream item."""

    def __init__(self, stage: Transform[T], epoch: int, fn: Callable[[Any], Iterable[T]]) -> None:
        super().__init__(stage, epoch)
        self._fn = fn
        self._start_epoch = epoch
        self._inner: Iterator[T] | None = None
        # Upstream's state before the item that `_inner` was made of, while there is one.
        self._before: Mark | None = None
        # Items of it that were handed out, or are to be skipped while `_inner` is None.
        self._offset = 0

    def pull(self, count: int) -> Block:
        items: list[T] = []
        expansions = self._expansions()
        while len(items) < count and (inner := next(expansions, None)) is not None:
            drawn = list(islice(inner, count - len(items)))
            self._offset += len(drawn)
            items += drawn
        return items

    def items(self) -> Items[T]:
        return Items(self._walk())

    def _walk(self) -> Iterator[T]:
        for inner in self._expansions():
            start = self._offset + 1
            for self._offset, item in enumerate(inner, start):
                yield item

    def _expansions(self) -> Iterator[Iterator[T]]:
        """What is left of the one that this iterator is inside, and those of all further items."""
        upstream, before = iter(self._upstream.items()), self.state_before_last()
        while self._inner is not None or self._open(upstream, before or self._upstream.mark()):
            assert self._inner is not None
            yield items_of(self._inner)
            self._close_inner()
            self._before, self._offset = None, 0

    def state_before_last(self) -> Mark | None:
        """What makes the state before the item that upstream handed out last, whichever it is.

        None where it has to be noted before each, as it is not known without moving.
        """
        if self._upstream.state_at(0) is None:
            return None
        return partial(_state_before_last, self._upstream)

    def close(self) -> None:
        self._close_inner()
        super().close()

    def _close_inner(self) -> None:
        inner, self._inner = self._inner, None
        if inner is not None:
            close_expansion(inner)

    def get_state(self) -> State:
        before = self._before
        upstream = self._upstream.get_state() if before is None else before()
        return {"offset": self._offset, "upstream": upstream}

    def set_state(self, state: State) -> None:
        offset, upstream = unpack(self._stage, state, "offset", "upstream")
        self._offset = unpack_count(self._stage, "offset", offset)
        self._upstream.set_state(upstream)

    def _open(self, upstream: Iterator[Any], before: Mark) -> bool:
        item = next(upstream, END)
        if item is END:
            self.check_end()
            return False
        self._inner = expand(self._fn(item), self._start_epoch, self._offset, self._stage)
        self._before = before
        return True

    def check_end(self) -> None:
        """Refuse an end of upstream where an item was entered before the save."""
        if self._offset:
            raise StateMismatch(
                f"saved offset={self._offset}, but upstream has no further item; "
                "did the data shrink since the save?",
                self._stage,
            )
