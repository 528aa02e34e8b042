"""Time each stage without changing how the items move."""

# Each stage is followed by a timing stage. The timing stage offers everything that the upstream
# offers (blocks, single items, `items`, random access, a pure change of order), so that the
# neighbours work as usual. Any difference would change the costs.

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import Any, Final, TypeVar, final

from ..core.block import Block, Indices
from ..core.epochs import ByEpoch
from ..core.graph import rebuilt
from ..core.indexed import Indexed
from ..core.prepared_items import PreparedItems
from ..core.stage import Stage
from ..core.stage_iterator import Items, StageIterator
from ..core.transform import PassThrough, StateForwardingIterator
from ..state.value import State
from .ledger import Ledger

T = TypeVar("T")

TRIALS: Final = 5
CALLS: Final = 2000


def timed(stage: Stage[Any], ledger: Ledger) -> Stage[Any]:
    """A copy of ``stage`` in which ``ledger`` records the time of each stage."""

    def build(number: int, found: Stage[Any]) -> Stage[Any]:
        # The stage itself chooses the pipeline of an epoch, in no time.
        return found if isinstance(found, ByEpoch) else Timed(found, number, ledger)

    return rebuilt(stage, build)


def readers(stage: Stage[Any]) -> list[int | None]:
    """For each stage of the graph, in the order of `walk`, the number of the reading stage."""
    found: list[int | None] = []

    def add(one: Stage[Any], reader: int | None) -> None:
        number = len(found)
        found.append(reader)
        for upstream in one.inputs:
            add(upstream, number)

    add(stage, None)
    return found


def empty_interval(clock: Callable[[], float]) -> float:
    """The seconds between two events of an idle stage: the cost of timing."""
    costs = []
    for _ in range(TRIALS):
        ledger = Ledger([None], clock)
        deque(_TimedItems(repeat(None, CALLS), 0, ledger), maxlen=0)
        totals = ledger.totals()
        costs.append((totals.loop[0] + totals.around) / (2 * CALLS))
    return min(costs)


@final
@dataclass(frozen=True, eq=False, repr=False)
class Timed(PassThrough[T]):
    """Upstream's items. State: upstream's own.

    Args:
      upstream: the timed stage.
      number: of the stage.
      ledger: called when the stage is entered and left.
    """

    ignores_items = True

    number: int
    ledger: Ledger

    def start(self, epoch: int = 0) -> StageIterator[T]:
        return self.ledger.call(self.number, _TimedIterator, self, epoch)

    def indexed(self, epoch: int = 0) -> Indexed[T] | None:
        found = self.ledger.call(self.number, self.upstream.indexed, epoch)
        if found is None:
            return None
        call = partial(self.ledger.call, self.number)
        if found.base is not None and found.index_map is not None:
            reordered = Indexed.reordered(
                found.base, partial(call, found.index_map), every_epoch=found.every_epoch
            )
            reordered.indices_per_epoch = found.indices_per_epoch
            return reordered

        def prepare(indices: Indices) -> PreparedItems[T]:
            return _TimedPreparedItems(call(found.prepared, indices), self.number, self.ledger)

        return Indexed(
            partial(call, found.gather),
            partial(call, found.item),
            found.arithmetic_range,
            found.prepare and prepare,
            partial(call, found.gather_range),
            every_epoch=found.every_epoch,
            indices_per_epoch=found.indices_per_epoch,
            plans_far=found.plans_far,
            needs=found.needs,
            items_each=found.items_each,
        )


@dataclass(eq=False)
class _TimedPreparedItems(PreparedItems[T]):
    """Prepared items; the time of computing is booked to the stage."""

    prepared: PreparedItems[T]
    number: int
    ledger: Ledger

    def gather(self, places: range) -> Block:
        return self.ledger.call(self.number, self.prepared.gather, places)

    def items(self, places: range) -> Iterator[T]:
        items = self.ledger.call(self.number, self.prepared.items, places)
        return _TimedItems(items, self.number, self.ledger)


class _TimedIterator(StateForwardingIterator[T]):
    _stage: Timed[T]

    def __next__(self) -> T:
        item: T = self._stage.ledger.call(self._stage.number, next, self._upstream)
        return item

    def pull(self, count: int) -> Block:
        return self._stage.ledger.call(self._stage.number, self._upstream.pull, count)

    def skip(self, count: int) -> int:
        return self._stage.ledger.call(self._stage.number, self._upstream.skip, count)

    def items(self) -> Items[T]:
        number, ledger = self._stage.number, self._stage.ledger
        items = ledger.call(number, self._upstream.items)
        timed_items = _TimedItems(items.iterator, number, ledger)
        return Items(timed_items, lambda: timed_items.ended and items.ended())

    def blocks(self, size: int) -> Iterator[Block]:
        number, ledger = self._stage.number, self._stage.ledger
        return _TimedItems(ledger.call(number, self._upstream.blocks, size), number, ledger)

    def state_at(self, offset: int) -> tuple[State, int] | None:
        return self._upstream.state_at(offset)


class _TimedItems(Iterator[T]):
    """Items with the time booked to the stage; ``ended`` is true after the last item."""

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
