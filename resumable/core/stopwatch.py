"""How long the caller of an iterator waits for items, and how long it is busy between them."""

# The clock is read when a call of `next` begins, and around each further item where it is taken from the
# source. An exception between the two readings of a call is one of a failed call, whose end the iterator notes.

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from time import perf_counter
from typing import Final, NamedTuple, TypeVar, final

import numpy as np

from .best_effort import BestEffort
from .run_counters import RunCounters

T = TypeVar("T")
R = TypeVar("R")

MOST_READINGS: Final = 4096
"""Booking them takes a fixed time, and a reading less than the clock."""


class _Booked(NamedTuple):
    """The counters until a moment, and the readings of the clock since.

    Invariant: between two calls there is an even number of readings, two for each call.

    Attributes:
      counters: until ``until``.
      until: a moment between two calls; None before the first call.
      readings: when each call since began and when it ended.
    """

    counters: RunCounters
    until: float | None
    readings: list[float]


@final
class Stopwatch:
    """Times calls of `next`.

    Args:
      clock: seconds; it never goes back.
      before: the counters of the same run before this process.
    """

    def __init__(self, clock: Callable[[], float], before: RunCounters) -> None:
        self._best_effort = BestEffort("times are")
        self._clock = clock if clock is perf_counter else self._going_on(clock)
        # One reference, so that another thread never sees half of a change.
        self._booked = _Booked(before, None, [])

    def _going_on(self, clock: Callable[[], float]) -> Callable[[], float]:
        """``clock``, which stands still where it fails."""
        last = 0.0

        def read() -> float:
            nonlocal last
            last = self._best_effort(lambda: float(clock()), last)
            return last

        return read

    def begin_call(self) -> None:
        """Note that a call has begun, unless that was noted."""
        booked = self._booked
        if len(booked.readings) % 2:
            return
        now = self._clock()
        if booked.until is None or len(booked.readings) >= MOST_READINGS:
            counters = self._best_effort(partial(_counted, booked, now), booked.counters)
            self._booked = booked = _Booked(counters, now, [])
        booked.readings.append(now)

    def end_call(self) -> None:
        """Note that the call has ended, unless that was noted."""
        readings = self._booked.readings
        if len(readings) % 2:
            readings.append(self._clock())

    def timed_call(self, call: Callable[[], R]) -> R:
        """Return the result of ``call``, and time the call."""
        try:
            self.begin_call()
            return call()
        finally:
            self.end_call()

    def timed_items(self, source: Iterator[T], most: int) -> tuple[Iterator[T], int]:
        """The next items of ``source``, and how many, up to ``most``; the call for the first one has begun."""
        readings = self._booked.readings
        count = (MOST_READINGS + 1 - len(readings)) // 2
        return _timed_items(source, self._clock, readings.append), min(count, most)

    def counters(self, counts: dict[str, int]) -> RunCounters:
        """All until now, with ``counts``. Another thread may call this too."""
        booked = self._booked
        copied = booked._replace(readings=booked.readings[:])
        return replace(_counted(copied, self._clock()), counts=counts)


def _counted(booked: _Booked, now: float) -> RunCounters:
    """The counters until ``now``."""
    counters, until, readings = booked
    if until is None:
        return counters
    moments = np.fromiter(chain([until], readings, [now]), np.float64, len(readings) + 2)
    loops, waits = moments[1::2] - moments[:-1:2], moments[2::2] - moments[1:-1:2]
    return RunCounters(
        counters.counts,
        counters.wait_seconds + float(waits.sum()),
        counters.loop_seconds + float(loops.sum()),
        counters.waits.with_waits(waits[: len(readings) // 2]),
    )


def _timed_items(
    source: Iterator[T], clock: Callable[[], float], note: Callable[[float], None]
) -> Iterator[T]:
    """The items of ``source``; the clock is read before and after each, but not before the first.

    What comes after the `yield` is run by the next call, so what the caller does between two calls is not
    between the readings of one.
    """
    for item in source:
        note(clock())
        yield item
        note(clock())
