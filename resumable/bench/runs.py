"""Runs of a pipeline against the clock."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any, Final, NamedTuple

from ..core.iterator import PipelineIterator
from ..pipeline import Pipeline
from ..verify import CannotRun

TICK: Final = 0.01
"""Seconds between two readings of the clock, if items come faster."""
MOST_AT_ONCE: Final = 1 << 16


class Clocks(NamedTuple):
    """The clocks of a measurement; replaced in tests.

    Attributes:
      seconds: a monotonic clock.
      cpu: the seconds that all threads of this process computed.
    """

    seconds: Callable[[], float]
    cpu: Callable[[], float]


class ItemTimes(NamedTuple):
    """A number of consecutive items, and their seconds."""

    items: int
    seconds: float
    cpu_seconds: float


class MeasuredRun(NamedTuple):
    """A run from the first item on.

    Attributes:
      first: the first item, including the start of threads and buffers; empty without items.
      rest: the later items.
      ended: whether the run came to the end of the pipeline.
    """

    first: ItemTimes
    rest: ItemTimes
    ended: bool

    @property
    def items(self) -> int:
        """The number of all items."""
        return self.first.items + self.rest.items

    @property
    def steady(self) -> ItemTimes:
        """The part for the speed: all items but the first, unless the run has a single item."""
        return self.rest if self.rest.items else self.first


def run(
    pipeline: Pipeline[Any],
    clocks: Clocks,
    *,
    seconds: float,
    items: int | None,
    mark: Callable[[], object] = lambda: None,
) -> MeasuredRun:
    """Draw items as fast as a loop can.

    Args:
      pipeline: to start.
      clocks: to take the time.
      seconds: after this time no further item is drawn.
      items: the largest number of items; None for all.
      mark: called after the first item and after the last item, before the iterator is closed.

    Raises:
      CannotRun: if an item cannot be made; the message names the item and the reason.
    """
    step = 0
    try:
        with pipeline.start() as iterator:
            try:
                first, ended = _part(iterator, clocks, seconds, 1)
                mark()
                rest = ItemTimes(0, 0.0, 0.0)
                if not ended:
                    left = None if items is None else items - 1
                    rest, ended = _part(iterator, clocks, seconds, left)
                mark()
            finally:
                step = iterator.step
    except (Exception, SystemExit) as error:
        raise CannotRun(
            f"the pipeline fails at item {step}: {type(error).__name__}: {error}"
        ) from error
    return MeasuredRun(first, rest, ended)


def _part(
    iterator: PipelineIterator[Any], clocks: Clocks, seconds: float, items: int | None
) -> tuple[ItemTimes, bool]:
    """Up to ``items`` items, and whether the end came first."""
    start, at_once, ended = iterator.step, 1, False
    cpu = clocks.cpu()
    began = now = clocks.seconds()
    while not ended and now - began < seconds:
        drawn = iterator.step - start
        wanted = at_once if items is None else min(at_once, items - drawn)
        if not wanted:
            break
        deque(islice(iterator, wanted), maxlen=0)
        ended = iterator.step - start < drawn + wanted
        last, now = now, clocks.seconds()
        at_once = min(2 * at_once, MOST_AT_ONCE) if now - last < TICK else max(at_once // 2, 1)
    return ItemTimes(iterator.step - start, now - began, clocks.cpu() - cpu), ended
