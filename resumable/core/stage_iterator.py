"""The moving half of a stage: a position, and the methods that move, save and restore it."""

# An iterator is a position and nothing else. The contract between iterators is `pull`: a stage
# asks its upstream for exactly the items needed to deliver the items asked for, so between two
# calls every position in the graph is exact.
#
# Restoring is starting: `set_state` is called on an iterator just made by `start`. A call mid-epoch
# is legal only if `state_at(0)` is not None.
# The outermost iterator (iterator.py) builds on this rule to make restoring atomic, and to
# undo a call that an exception interrupted, for every stage at once.

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain, islice
from typing import Any, Final, Generic, TypeAlias, TypeVar, final

from ..state.value import State, take_state, taken_state
from .block import Block, block_items, block_length
from .origin import Origin
from .reach import Reach, reached_by_motion
from .relation import Same
from .saved_state import saved_state
from .source_item import SourceItem

T = TypeVar("T")
U = TypeVar("U")

DeferredState: TypeAlias = Callable[[], State]
"""Returns a state that was noted earlier, or raises the exception from taking the state."""

SKIPPED_AT_ONCE: Final = 1024


def _always() -> bool:
    return True


@final
@dataclass(frozen=True)
class Items(Generic[T]):
    """The remaining items of an iterator, for a loop that takes all of them.

    Iterating over `Items` iterates over ``iterator``, and raises `RuntimeError` if a user function
    raised `StopIteration`. Both are valid until the next `pull` or `set_state`.

    Attributes:
      iterator: gives the items.
      ended: whether a `StopIteration` marked the end of ``iterator``, not an error of a user
        function.
    """

    iterator: Iterator[T]
    ended: Callable[[], bool] = _always

    def __iter__(self) -> Iterator[T]:
        return self.iterator if self.ended is _always else chain(self.iterator, self._end())

    def through(self, make: Callable[[Iterator[T]], Iterator[U]]) -> Items[U]:
        """The items of ``make(iterator)``: a built-in `map` or `filter` with a user function."""
        if self.ended is not _always:
            return Items(make(self.iterator), self.ended)
        ended = False

        def note_end() -> Iterator[T]:
            nonlocal ended
            ended = True
            yield from ()

        return Items(make(chain(self.iterator, note_end())), lambda: ended)

    def _end(self) -> Iterator[T]:
        if not self.ended():
            raise RuntimeError("a user function raised StopIteration")
        yield from ()


class StageIterator(ABC, Generic[T]):
    """Motion through one stage: an iterator owns a position and nothing else.

    A subclass implements `pull`, `get_state` and `set_state`; `close` too if the iterator holds
    threads or files.

    >>> iterator = rs.range(9).take(5).stage.start()
    >>> iterator.pull(3), iterator.skip(9)
    (array([0, 1, 2]), 2)
    """

    _stage: Any = None
    """The stage being iterated; None if an iterator does not say."""
    one_by_one = False
    """Whether the last call that moved the iterator may have called a function with each upstream
    item before taking the next one. The last upstream item is then the item passed to the function.
    """

    @property
    def inputs(self) -> Sequence[StageIterator[Any]]:
        """The iterators of the upstreams."""
        return ()

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        """The next item."""
        try:
            block = self.pull(1)
        except StopIteration as error:
            raise RuntimeError("a user function raised StopIteration") from error
        if not block_length(block):
            raise StopIteration
        return block_items(block)[0]  # type: ignore[no-any-return]

    @abstractmethod
    def pull(self, count: int) -> Block:
        """The next ``count`` items as a block, with fewer items only at the end.

        Nothing is read from upstream beyond the needs of these items.
        """

    def skip(self, count: int) -> int:
        """Pass over up to ``count`` items and return how many; fewer only at the end.

        The position is then as after a `pull` of as many. A subclass may pass over items without
        making them.
        """
        passed = 0
        while passed < count:
            wanted = min(count - passed, SKIPPED_AT_ONCE)
            length = block_length(self.pull(wanted))
            passed += length
            if length < wanted:
                break
        return passed

    @abstractmethod
    def get_state(self) -> State:
        """The state, as a value that never changes afterwards; starts nothing and creates nothing.

        Callers must not change the state either: parts of the state may belong to other states.
        Users get a copy, made by the outermost iterator.
        """

    @abstractmethod
    def set_state(self, state: State) -> None:
        """Move this iterator, just started, to ``state``; reads nothing from a source.

        Raises:
          StateMismatch: if ``state`` cannot have come from this stage.
        """

    def defer_state(self) -> DeferredState:
        """A function that returns the state of this moment, wherever the iterator moves later.

        A subclass may note the moment at less than the cost of a state.
        """
        return state_taken_now(self)

    def state_at(self, offset: int) -> tuple[State, int] | None:
        """The state ``offset`` items ahead, and the actual distance in items; nothing moves.

        A negative ``offset`` goes back. The distance differs from ``offset`` only where the epoch
        ends before. None if the state cannot be known without moving. An iterator may know the
        state for some offsets only, such as -1.

        If ``state_at(0)`` is not None, `set_state` may be called mid-epoch, to go back to an item
        that was handed out.
        """
        return None

    def origin(self, back: int) -> SourceItem | None:
        """Where the item handed out ``back`` items ago comes from; 1 is the last item.

        None where the source item is not known without reading. Asked for after an error, so speed
        does not matter.
        """
        is_same = self.inputs and isinstance(self._stage.relation(0), Same)
        return self.inputs[0].origin(back) if is_same else None

    def _reached(self) -> Iterator[Reach]:
        """Items read of each stage, down to the sources, for the items handed out; may move.

        A state of upstream may predate items already read. An iterator with such a state of
        upstream passes over these items.
        """
        return reached_by_motion(self)

    _first_input = 0
    """The number of the first of `inputs` among the inputs of the stage."""

    @property
    def _items_held(self) -> int | None:
        """Items read of the input since the saved state of the input; None if unknown."""
        return None if saved_state(self._stage).resumes_before else 0

    @property
    def _items_delivered(self) -> int | None:
        """Items of the epoch before the restored state; None if the state does not record them."""
        inner = self.inputs[0]._items_delivered if self.inputs else None
        found = None if inner is None else self._stage.relation(0).outputs_after(inner)
        length = None if found is None else self._stage.length
        return found if length is None else int(min(found, length))

    def _given_by_inputs(self, ahead: int) -> Sequence[float | None]:
        """Items given by each input of a mixture after ``ahead`` more; fewer entries if unknown."""
        return []

    def _place_by_index(self) -> tuple[Any, int, int] | None:
        """(stage looked up by index, its epoch, number of its items handed out), or None."""
        return None

    def _skipped_in_copies(self, path: str) -> Iterable[Mapping[str, int]] | None:
        """Number of items dropped by each stage in copies of earlier stages, by its path.

        The paths begin with ``path``. None if the iterator does not move copies of earlier stages.
        """
        return None

    def _use_workers_of(self, source: Any) -> Any:
        """Take workers from ``source`` and leave them there; called before the first item.

        Returns:
          the source for the upstream iterators.
        """
        return source

    def items(self) -> Items[T]:
        """The remaining items in the fastest available way, moving this iterator along."""
        return Items(self)

    def blocks(self, size: int) -> Iterator[Block]:
        """The results of repeated calls of `pull`; valid as long as the result of `items`.

        A subclass may make a row of blocks with less work than as many calls of `pull`.
        """
        return pulled_blocks(self, size)

    def close(self) -> None:
        """End threads and release files; may be called again."""
        for upstream in self.inputs:
            upstream.close()

    @property
    def epoch(self) -> int:
        """The epoch of the last item handed out; before any item, the first epoch."""
        inputs = self.inputs
        return inputs[0].epoch if inputs else 0


def state_deferrer(iterator: StageIterator[Any]) -> Callable[[], DeferredState]:
    """A function that notes the present state of ``iterator``, in the cheapest available way."""
    if _defers_what_it_takes(type(iterator)):
        return iterator.defer_state
    return partial(state_taken_now, iterator)


@cache
def _defers_what_it_takes(kind: type[StageIterator[Any]]) -> bool:
    """Whether no class extends the state beyond the knowledge of the inherited `defer_state`."""
    of_states = {"get_state", "own_state", "defer_state"}
    last_changed = next(filter(None, (vars(one).keys() & of_states for one in kind.__mro__)))
    return last_changed != {"get_state"}


def state_taken_now(iterator: StageIterator[Any]) -> DeferredState:
    """A function that returns the present state of ``iterator``; the state is taken at once."""
    return partial(taken_state, take_state(iterator.get_state))


def pulled_blocks(iterator: StageIterator[Any], size: int) -> Iterator[Block]:
    """The remaining items of ``iterator`` by calls of `pull`."""
    while length := block_length(block := iterator.pull(size)):
        yield block
        if length < size:
            break


def item_in_work(iterator: StageIterator[Any]) -> SourceItem | None:
    """The source of the item in a function call of ``iterator``, if known."""
    if iterator.one_by_one:
        return iterator.inputs[0].origin(1)
    return None


class ItemByItem(StageIterator[T]):
    """Motion from item to item: a subclass implements `items` instead of `pull`.

    At each ``yield`` the position must already be the position after the item, since a state may be
    taken during the ``yield``.
    """

    one_by_one = True

    @abstractmethod
    def items(self) -> Items[T]: ...

    def pull(self, count: int) -> Block:
        return list(islice(self.items(), count))

    def blocks(self, size: int) -> Iterator[Block]:
        return in_blocks(self.items(), size)


def in_blocks(items: Items[T], size: int) -> Iterator[Block]:
    """``items`` in lists of ``size``, fewer only in the last."""
    iterator = iter(items)
    while block := list(islice(iterator, size)):
        yield block
        if len(block) < size:
            break


class SourceIterator(StageIterator[T]):
    """Motion of a source within one epoch, without input iterators.

    Attributes:
      reread: number of items read again only to reach a restored position.
    """

    reread = 0

    def __init__(self, stage: object, epoch: int) -> None:
        self._stage = stage
        self._epoch = epoch

    @property
    def epoch(self) -> int:
        return self._epoch

    def origin(self, back: int) -> SourceItem | None:
        position = self.get_state().get("position")
        if not isinstance(position, int) or position < back:  # handed out before this epoch
            return None
        return SourceItem(self._stage, position - back, position - back)

    def last_origin(self) -> Origin:
        """The origin of the last item handed out by ``pull(1)``."""
        return Origin(type(self._stage).__name__, self.get_state()["position"] - 1)

    @property
    def digest(self) -> int:
        """A number that depends on the last items handed out; 0 if not computed."""
        return 0
