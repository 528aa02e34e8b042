"""How long the caller of an iterator waits for items, and how long it is busy between them."""

# The clock is read around the item where it is taken from the source, within the call of `next` that
# counts it. So an exception between two readings is one of a failed call, which the iterator undoes; none
# can come between an item and its step. The way in and out of `next` lies outside the readings, and
# is known from a loop over nothing.

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import sub
from typing import Any, Final, NamedTuple, TypeVar, final

from .call_sums import CallSums
from .run_counters import RunCounters
from .sampled_calls import CALLS_IN_RUN, SampledCalls
from .wait_histogram import WaitHistogram

T = TypeVar("T")

MOST_READINGS: Final = 512


class TimingCost(NamedTuple):
    """Seconds of a call where there is no work.

    Attributes:
      call: without timing.
      waited: between the two readings of the clock.
      looped: from the second reading to the first one of the next call.
    """

    call: float
    waited: float
    looped: float


NO_COST: Final = TimingCost(0.0, 0.0, 0.0)


class _Booked(NamedTuple):
    """What was booked, and the readings since.

    Invariant: between two calls there is an even number of readings: two for each call, the first when it
    began to take its item.

    Attributes:
      sums: of the calls that were timed.
      weight: how many calls each of those that are being timed stands for; 0 if none is timed.
      readings: of the clock.
    """

    sums: CallSums
    weight: float
    readings: list[float]


@final
class Stopwatch:
    """Times calls of `next`.

    Args:
      clock: seconds; it never goes back.
      before: the counters of the same run before this process.
      cost: of timing with this clock.
    """

    def __init__(
        self, clock: Callable[[], float], before: RunCounters, cost: TimingCost = NO_COST
    ) -> None:
        self._clock = clock
        self._cost = cost
        self._elapsed_before = before.elapsed
        self._first: float | None = None
        # One reference, so that another thread never sees half of a change.
        self._booked = _Booked(before.sums, 1.0, [])
        self._waits = before.waits.copy()
        self._samples: SampledCalls | None = None
        # How many calls are passed over, how many are then timed, and how many each of these stands for.
        self._to_pass_over = 0
        self._to_time = CALLS_IN_RUN
        self._weight = 1.0

    def begin_call(self) -> None:
        """Note that a call has begun, unless that was noted, or calls are passed over."""
        if self._to_pass_over:
            return
        now = self._clock()
        if self._samples is None:
            self._first, self._samples = now, SampledCalls(now)
        _, weight, readings = self._booked
        if weight and len(readings) % 2 == 0:
            readings.append(now)

    def end_call(self) -> None:
        """Note that the call has ended, unless that was noted."""
        readings = self._booked.readings
        if len(readings) % 2:
            readings.append(self._clock())

    def time_next_call(self) -> None:
        """Time what comes next, until `next_calls`, and let it stand for itself."""
        if self._booked.weight != 1.0 or len(self._booked.readings) >= MOST_READINGS:
            self._book(1.0)

    def next_calls(self, source: Iterator[T], most: int) -> tuple[Iterator[T], int]:
        """The items of ``source`` with or without timing, and for how many calls, up to ``most``."""
        if not self._to_pass_over and not self._to_time:
            assert self._samples is not None
            passed_over, self._weight = self._samples.choose(self._clock())
            self._to_time = CALLS_IN_RUN
            if passed_over:
                self._book(0.0)
                self._to_pass_over = passed_over
        if self._to_pass_over:
            count = min(self._to_pass_over, most)
            self._to_pass_over -= count
            return source, count
        if self._weight != self._booked.weight or len(self._booked.readings) >= MOST_READINGS:
            self._book(self._weight)
        readings = self._booked.readings
        count = min(self._to_time, most)
        self._to_time -= count
        if readings:  # the call has begun
            return _ended_items(source, self._clock, readings.append), count
        return timed_items(source, self._clock, readings.append), count

    def counters(self, counts: dict[str, int]) -> RunCounters:
        """All until now, with ``counts``. Another thread may call this too."""
        booked, waits = self._booked, self._waits.copy()
        now = self._clock()
        if booked.weight == 1.0:  # other calls wait for those that stand for them too
            readings = list(booked.readings)
            sums = self._with_readings(booked._replace(readings=readings), now, waits)
        else:
            sums = booked.sums
        return RunCounters(counts, self._elapsed_until(now), sums, waits)

    def _elapsed_until(self, now: float) -> float:
        first = now if self._first is None else self._first
        return self._elapsed_before + max(now - first, 0.0)

    def _book(self, weight: float) -> None:
        """Book what was read, and begin anew with another ``weight``."""
        booked, now = self._booked, self._clock()
        begun: list[float] = []
        if len(booked.readings) % 2:
            # The call that has begun is timed on if it stands for itself alone.
            now = booked.readings[-1]
            begun = [now] if weight == 1.0 else []
            booked = booked._replace(readings=booked.readings[:-1])
        self._booked = _Booked(self._with_readings(booked, now, self._waits), weight, begun)

    def _with_readings(self, booked: _Booked, now: float, waits: WaitHistogram) -> CallSums:
        """The sums until ``now``; how long whole calls took is added to ``waits``."""
        sums, weight, readings = booked
        if not readings:
            return sums
        shift = self._cost.call - self._cost.waited
        found = [end - begin + shift for begin, end in zip(readings[::2], readings[1::2])]  # noqa: B905
        waits.add(found, max(round(weight), 1))
        looped = list(map(sub, readings[2::2], readings[1::2]))
        if len(readings) % 2:
            found.append(now - readings[-1])
            looped.append(0.0)
        else:
            looped.append(now - readings[-1])
        looped = [seconds - self._cost.looped for seconds in looped]
        return sums.with_calls(found, looped, weight, self._elapsed_until(now))


def timed_items(
    source: Iterator[T], clock: Callable[[], float], note: Callable[[float], Any]
) -> Iterator[T]:
    """The items of ``source``, with a reading of the clock before and after each."""
    note(clock())
    yield from _ended_items(source, clock, note)


def _ended_items(
    source: Iterator[T], clock: Callable[[], float], note: Callable[[float], Any]
) -> Iterator[T]:
    """`timed_items`, where the reading before the first item was made.

    What comes after the `yield` is run by the next call, so what the caller does between two calls is not
    between the readings of one.
    """
    for item in source:
        note(clock())
        yield item
        note(clock())
