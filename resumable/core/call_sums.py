"""The times of calls that stand for all calls, as sums."""

# Of all the time that went by, it is known how long it was; of a part, which part of it was waiting. What the
# samples leave unexplained is divided by the regression of the wait on the time of a whole call. So seldom long
# waits, or seldom long steps, do not make the estimate as uncertain as the number of them among the samples.

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from operator import mul
from typing import NamedTuple


class CallSums(NamedTuple):
    """Sums over calls, where one that stands for several counts as often.

    Attributes:
      calls: how many they stand for.
      waited: seconds in calls.
      looped: seconds between each call and the next one.
      waited_squared: sum of the squares of the former.
      looped_squared: sum of the squares of the latter.
      product: sum of the products of both.
      elapsed: seconds that went by in all these calls.
    """

    calls: float = 0.0
    waited: float = 0.0
    looped: float = 0.0
    waited_squared: float = 0.0
    looped_squared: float = 0.0
    product: float = 0.0
    elapsed: float = 0.0

    def with_calls(
        self, waited: Sequence[float], looped: Sequence[float], weight: float, elapsed: float
    ) -> CallSums:
        """With calls that each stand for ``weight`` calls, and the time until the end of the last one."""
        return CallSums(
            self.calls + weight * len(waited),
            self.waited + weight * math.fsum(waited),
            self.looped + weight * math.fsum(looped),
            self.waited_squared + weight * sum(map(mul, waited, waited)),
            self.looped_squared + weight * sum(map(mul, looped, looped)),
            self.product + weight * sum(map(mul, waited, looped)),
            elapsed,
        )

    @property
    def wait_share(self) -> float:
        """Which part of the time was waiting, from 0 to 1; 0 if there was no time."""
        timed = self.waited + self.looped
        if not timed or not self.elapsed:
            return 0.0
        waited = self.waited + self._slope * (self.elapsed - timed)
        return min(max(waited / self.elapsed, 0.0), 1.0)

    @property
    def _slope(self) -> float:
        """By how much the wait of a call is longer if the call and what follows are a second longer."""
        timed = self.waited + self.looped
        whole = self.waited_squared + 2 * self.product + self.looped_squared
        variance = whole - timed * timed / self.calls
        if variance <= 1e-9 * whole:
            return self.waited / timed
        covariance = self.waited_squared + self.product - self.waited * timed / self.calls
        return min(max(covariance / variance, 0.0), 1.0)


def added(sums: Iterable[CallSums]) -> CallSums:
    """The sums of several loops as those of one."""
    return CallSums(*map(math.fsum, zip(*sums, strict=True)))
