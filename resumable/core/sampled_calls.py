"""Which calls are timed, so that timing takes a small share of the time."""

# Where items come so quickly that timing would count, only short runs of calls are timed, at places drawn
# at random, and each stands for as many calls as were passed over before it too. How many those are is
# chosen before the run. Otherwise a run with a long wait, after which fewer would be passed over, would
# count less than others.

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final, final

CALLS_IN_RUN: Final = 16
SECONDS_OF_RUN: Final = 25e-6
"""What timing a run costs, more or less."""
SHARE: Final = 200
"""Timing takes about one part in so many of the time."""
MOST_PASSED_OVER: Final = 1 << 16


@final
class SampledCalls:
    """Chooses runs of calls. It begins with one that is timed, and passes over more from run to run."""

    def __init__(self) -> None:
        # Not the generator of the module `random`: that is the user's.
        self._random = random.Random(0)
        self._to_pass_over = 0
        self._to_time = CALLS_IN_RUN
        self._weight = 1.0
        # The most that were passed over, the calls since they were chosen, and when that was.
        self._most = 0
        self._calls = 0
        self._since: float | None = None

    def next_calls(self, most: int, clock: Callable[[], float]) -> tuple[int, float]:
        """How many calls come next, up to ``most``, and how many each stands for, 0 if they are not timed."""
        if not self._to_pass_over and not self._to_time:
            self._choose(clock())
        elif self._since is None:
            self._since = clock()
        if self._to_pass_over:
            count, weight = min(self._to_pass_over, most), 0.0
            self._to_pass_over -= count
        else:
            count, weight = min(self._to_time, most), self._weight
            self._to_time -= count
        self._calls += count
        return count, weight

    def _choose(self, now: float) -> None:
        assert self._since is not None
        seconds = (now - self._since) / self._calls
        wanted = SHARE * SECONDS_OF_RUN / seconds - CALLS_IN_RUN if seconds > 0 else 0.0
        # Not many more than before: a loop that begins quickly may become slow.
        most = int(min(wanted, 2 * self._most + CALLS_IN_RUN, MOST_PASSED_OVER))
        self._most = most if most >= CALLS_IN_RUN else 0
        self._to_pass_over = round(self._most * (0.5 + self._random.random()))
        self._to_time = CALLS_IN_RUN
        self._weight = 1 + self._to_pass_over / CALLS_IN_RUN
        self._calls, self._since = 0, now
