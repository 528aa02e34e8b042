"""The seconds of a running pipeline, booked to the stages."""

# Every call into a stage and every return from a stage is an event. Nothing changes between two
# events, so the seconds between are booked as a whole, twice:
#
# * as work, in each thread, to the stage at work in the thread;
# * as the loop's time, to the stage at work in the loop's thread. While this stage only waits for a
#   separate thread, the stage at work in the separate thread gets the time.
#
# The time of an event itself is not booked. The calls around the events take the same time in each
# interval; this `cost` is subtracted.

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple, TypeVar, final

T = TypeVar("T")


class Totals(NamedTuple):
    """Seconds by the number of the stage.

    Attributes:
      loop: the loop's time in each stage; adds up, with ``around``, to the whole time.
      around: the loop's time outside all stages.
      work: the work in all threads; waiting for another thread does not count.
      beside: the part of the work outside the loop's thread.
    """

    loop: tuple[float, ...]
    around: float
    work: tuple[float, ...]
    beside: tuple[float, ...]

    def since(self, before: Totals) -> Totals:
        """The seconds added since ``before``."""
        return Totals(
            _difference(self.loop, before.loop),
            self.around - before.around,
            _difference(self.work, before.work),
            _difference(self.beside, before.beside),
        )


@final
@dataclass(eq=False)
class Ledger:
    """The times of one running pipeline, recorded by the calls of its stages.

    Stages are identified by their numbers. The thread that makes the ledger is the loop's.

    Args:
      readers: for each stage the number of the reading stage; None for the last stage.
      clock: returns seconds that never go back.
      cost: seconds of each interval that the timing itself takes.
      thread: returns an identifier of the calling thread.
    """

    readers: Sequence[int | None]
    clock: Callable[[], float]
    _: KW_ONLY
    cost: float = 0.0
    thread: Callable[[], int] = threading.get_ident

    def __post_init__(self) -> None:
        self._loop = self.thread()
        self._lock = threading.Lock()
        # Invariant: the stages entered and not left, by thread; a thread in none is absent.
        self._stacks: dict[int, list[int]] = {}
        # Invariant: a stage with a separate thread is here while the thread is in a stage.
        self._serving: dict[int, list[int]] = {}
        # The last place is the loop itself, stage -1.
        self._loops = [0.0] * (len(self.readers) + 1)
        self._work = [0.0] * len(self.readers)
        self._beside = [0.0] * len(self.readers)
        self._last = self.clock()

    def call(self, number: int, function: Callable[..., T], *arguments: Any) -> T:
        """Call ``function``, and book the time to the stage ``number``."""
        self.enter(number)
        try:
            return function(*arguments)
        finally:
            self.leave()

    def enter(self, number: int) -> None:
        """The calling thread goes into the stage ``number``."""
        with self._lock:
            self._book()
            thread = self.thread()
            stack = self._stacks.setdefault(thread, [])
            reader = self.readers[number]
            if not stack and thread != self._loop and reader is not None:
                self._serving[reader] = stack
            stack.append(number)
            self._last = self.clock()

    def leave(self) -> None:
        """The calling thread leaves the stage entered last."""
        with self._lock:
            self._book()
            thread = self.thread()
            stack = self._stacks[thread]
            reader = self.readers[stack.pop()]
            if not stack:
                del self._stacks[thread]
                if reader is not None and self._serving.get(reader) is stack:
                    del self._serving[reader]
            self._last = self.clock()

    def totals(self) -> Totals:
        """The seconds booked so far."""
        with self._lock:
            self._book()
            self._last = self.clock()
            *stages, around = self._loops
            return Totals(tuple(stages), around, tuple(self._work), tuple(self._beside))

    def _book(self) -> None:
        elapsed = self.clock() - self._last - self.cost
        if elapsed <= 0:
            return
        self._loops[self._to_blame()] += elapsed
        for thread, stack in self._stacks.items():
            if stack[-1] not in self._serving:
                self._work[stack[-1]] += elapsed
                if thread != self._loop:
                    self._beside[stack[-1]] += elapsed

    def _to_blame(self) -> int:
        """The stage where the loop is or waits; -1 for the loop itself."""
        stack = self._stacks.get(self._loop)
        if stack is None:
            return -1
        while (serving := self._serving.get(stack[-1])) is not None:
            stack = serving
        return stack[-1]


def _difference(after: tuple[float, ...], before: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(later - earlier for later, earlier in zip(after, before, strict=True))
