"""Time what happens in each stage, without changing how the items move."""

# A timing stage stands after each stage. It offers what its upstream offers (blocks, single items,
# `items`, random access by block and by index, a pure change of order), so that the stages around
# it take the same ways as without it; any other way would have other costs.

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count, repeat
from typing import Any, ClassVar, Final, TypeVar, final

from ..core.block import Block, Indices
from ..core.graph import rebuilt
from ..core.stage import Stage
from ..core.stage_iterator import StageIterator
from ..core.transform import IndexedTransform, TransformIterator
from ..state.value import State
from .ledger import Ledger

__all__ = ["Timed", "empty_interval", "readers", "timed"]

T = TypeVar("T")

TRIALS: Final = 5
CALLS: Final = 2000


def timed(stage: Stage[Any], ledger: Ledger) -> Stage[Any]:
    """``stage``, such that ``ledger`` is told what goes on in each of its stages."""
    return rebuilt(stage, lambda number, found: Timed(found, number, ledger))


def readers(stage: Stage[Any]) -> list[int | None]:
    """For each stage of the graph, as `walk` numbers them, the number of the one that reads it."""
    numbers = count()
    found: list[int | None] = []

    def add(one: Stage[Any], reader: int | None) -> None:
        number = next(numbers)
        found.append(reader)
        for upstream in one.inputs:
            add(upstream, number)

    add(stage, None)
    return found


def empty_interval(clock: Callable[[], float]) -> float:
    """The seconds between two events of a stage that does nothing: what timing itself costs."""
    costs = []
    for _ in range(TRIALS):
        ledger = Ledger([None], clock)
        deque(_TimedItems(repeat(None, CALLS), 0, ledger), maxlen=0)
        totals = ledger.totals()
        costs.append((totals.loop[0] + totals.around) / (2 * CALLS))
    return min(costs)


@final
@dataclass(frozen=True, eq=False, repr=False)
class Timed(IndexedTransform[T]):
    """Upstream's items. State: upstream's own.

    Args:
      upstream: the stage whose time is taken.
      number: of that stage.
      ledger: told when it is entered and left.
    """

    transparent: ClassVar[bool] = True
    relies_on: ClassVar[frozenset[str]] = frozenset()

    number: int
    ledger: Ledger

    @property
    def computed(self) -> bool:  # type: ignore[override]
        return self.upstream.computed

    def start(self, epoch: int = 0) -> StageIterator[T]:
        return self.ledger.call(self.number, _TimedIterator, self, epoch)

    def span(self, start: int, stop: int) -> Sequence[T] | None:
        return self.upstream.span(start, stop)

    def gather(self, indices: Indices, epoch: int = 0) -> Block:
        return self.ledger.call(self.number, self.upstream.gather, indices, epoch)

    def reindexing(self, epoch: int) -> tuple[Stage[T], Callable[[Indices], Indices]] | None:
        moved = self.ledger.call(self.number, self.upstream.reindexing, epoch)
        if moved is None:
            return None
        base, index_map = moved
        return base, partial(self.ledger.call, self.number, index_map)

    def lookup(self, epoch: int) -> Callable[[int], T]:
        item_at = self.ledger.call(self.number, self.upstream.lookup, epoch)
        return partial(self.ledger.call, self.number, item_at)


class _TimedIterator(TransformIterator[T]):
    _stage: Timed[T]

    def __init__(self, stage: Timed[T], epoch: int) -> None:
        super().__init__(stage, epoch)
        self._items: _TimedItems[T] | None = None

    def __next__(self) -> T:
        item: T = self._stage.ledger.call(self._stage.number, next, self._upstream)
        return item

    def pull(self, count: int) -> Block:
        return self._stage.ledger.call(self._stage.number, self._upstream.pull, count)

    def skip(self, count: int) -> int:
        return self._stage.ledger.call(self._stage.number, self._upstream.skip, count)

    def items(self) -> Iterator[T]:
        number, ledger = self._stage.number, self._stage.ledger
        self._items = _TimedItems(ledger.call(number, self._upstream.items), number, ledger)
        return self._items

    @property
    def exhausted(self) -> bool:
        ended = self._items is None or self._items.ended
        return ended and self._upstream.exhausted

    @property
    def reread(self) -> int:
        return self._upstream.reread

    def blocks(self, size: int) -> Iterator[Block]:
        number, ledger = self._stage.number, self._stage.ledger
        return _TimedItems(ledger.call(number, self._upstream.blocks, size), number, ledger)

    def state_after(self, count: int) -> tuple[State, int] | None:
        return self._upstream.state_after(count)

    def state_before(self, count: int) -> State | None:
        return self._upstream.state_before(count)

    def get_state(self) -> State:
        return self._upstream.get_state()

    def set_state(self, state: State) -> None:
        self._upstream.set_state(state)


class _TimedItems(Iterator[T]):
    """Items, each in a time that is the stage's; it tells whether the end was theirs."""

    def __init__(self, items: Iterator[T], number: int, ledger: Ledger) -> None:
        self._items = items
        self._number = number
        self._ledger = ledger
        self.ended = False

    def __next__(self) -> T:
        self._ledger.enter(self._number)
        try:
            return next(self._items)
        except StopIteration:
            self.ended = True
            raise
        finally:
            self._ledger.leave()
