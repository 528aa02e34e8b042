"""Which calls are timed, so that timing takes a small share of the time."""

# Where items come so quickly that timing would count, only short runs of calls are timed, at places drawn
# at random, and each stands for as many calls as were passed over before it too. How many those are is
# chosen before the run. Otherwise a run with a long wait, after which fewer would be passed over, would
# count less than others.

from __future__ import annotations

import random
from typing import Final, final

CALLS_IN_RUN: Final = 16
SECONDS_OF_RUN: Final = 64e-6
"""What timing a run costs, more or less, where a step in between has emptied the processor's caches."""
SHARE: Final = 1000
"""Timing takes about one part in so many of the time."""
MOST_PASSED_OVER: Final = 1 << 19


@final
class SampledCalls:
    """Chooses how many calls are passed over before the next run, more from run to run.

    Args:
      now: the time of the first call.
    """

    def __init__(self, now: float) -> None:
        # Not the generator of the module `random`: that is the user's.
        self._random = random.Random(0)
        self._most = 0
        self._calls = CALLS_IN_RUN
        self._since = now

    def choose(self, now: float) -> tuple[int, float]:
        """How many calls to pass over, and how many each of the run stands for; called after each run."""
        seconds = (now - self._since) / self._calls
        wanted = SHARE * SECONDS_OF_RUN / seconds - CALLS_IN_RUN if seconds > 0 else 0.0
        # Not many more than before: a loop that begins quickly may become slow.
        most = int(min(wanted, 2 * self._most + CALLS_IN_RUN, MOST_PASSED_OVER))
        self._most = most if most >= CALLS_IN_RUN else 0
        passed_over = round(self._most * (0.5 + self._random.random()))
        self._calls, self._since = passed_over + CALLS_IN_RUN, now
        return passed_over, 1 + passed_over / CALLS_IN_RUN
