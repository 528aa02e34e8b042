"""How long the caller of an iterator waits for items, and how long it is busy between them."""

# The clock is read when a call of `next` begins and when the call ends, and the readings are summed
# up later: appending two floats costs less per item than two sums and a bucket. An exception
# between the two readings belongs to a failed call, whose end the iterator notes.

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from time import perf_counter
from typing import Final, TypeVar, final

import numpy as np

from .best_effort import BestEffort
from .run_counters import RunCounters

T = TypeVar("T")
R = TypeVar("R")

MOST_READINGS: Final = 2048
"""Readings kept before summing up. Summing takes a fixed time, less per reading than the clock."""


@final
class Stopwatch:
    """Times calls of `next`.

    Args:
      clock: returns seconds and never goes back.
      before: the counters of the same run before this process.
    """

    def __init__(self, clock: Callable[[], float], before: RunCounters) -> None:
        self._best_effort = BestEffort("times are")
        self._clock = clock if clock is perf_counter else self._going_on(clock)
        # The counters until the first reading, and the readings: start of a call, end of the call,
        # start of the next call, and so on. One reference, so that another thread never sees half
        # of a change.
        self._times: tuple[RunCounters, list[float]] = before, []

    def _going_on(self, clock: Callable[[], float]) -> Callable[[], float]:
        """``clock``, with the last time repeated where ``clock`` fails."""
        last = 0.0

        def read() -> float:
            nonlocal last
            last = self._best_effort(lambda: float(clock()), last)
            return last

        return read

    def begin_call(self) -> None:
        """Note the start of a call, unless already noted."""
        counters, readings = self._times
        if len(readings) % 2:
            return
        now = self._clock()
        if len(readings) >= MOST_READINGS:
            counters = self._best_effort(partial(_counted, counters, readings, now), counters)
            self._times = counters, [now]
        else:
            readings.append(now)

    def end_call(self) -> None:
        """Note the end of the call, unless already noted."""
        _, readings = self._times
        if len(readings) % 2:
            readings.append(self._clock())

    def timed_call(self, call: Callable[[], R]) -> R:
        """Return the result of ``call``, and time the call."""
        try:
            self.begin_call()
            return call()
        finally:
            self.end_call()

    def timed_items(self, source: Iterator[T]) -> Iterator[T]:
        """The items of ``source`` until the next `begin_call`; the call for the first has begun.

        The code after the `yield` is run by the next call, so time spent by the caller between two
        calls is outside the readings of a call.
        """
        clock, note = self._clock, self._times[1].append
        for item in source:
            note(clock())
            yield item
            note(clock())

    def counters(self, counts: dict[str, int]) -> RunCounters:
        """All counters until now, with ``counts``. Another thread may call this too."""
        counters, readings = self._times
        return replace(_counted(counters, readings[:], self._clock()), counts=counts)


def _counted(counters: RunCounters, readings: list[float], now: float) -> RunCounters:
    """The ``counters`` with the times from the first of the ``readings`` until ``now``."""
    moments = np.fromiter(chain(readings, [now]), np.float64, len(readings) + 1)
    seconds = np.diff(moments)
    waits, loops = seconds[::2], seconds[1::2]
    return RunCounters(
        counters.counts,
        counters.wait_seconds + float(waits.sum()),
        counters.loop_seconds + float(loops.sum()),
        counters.waits.with_waits(waits[: len(readings) // 2]),
    )
