"""The limit of worker deaths over the same work, and the error beyond the limit."""

# The cause of a death may lie outside, so the work of the dead worker is tried again: first
# together with other work, then alone. A further death belongs to the work tried alone.

from __future__ import annotations

from concurrent.futures import BrokenExecutor
from dataclasses import dataclass, replace
from typing import Any, Final, final

from ..core.stage import Stage
from ..errors import WorkerError
from .watching import Call
from .workers import WorkersLost

MOST_STARTS: Final = 3
"""Number of consecutive deaths of new processes before any item."""


@final
@dataclass(frozen=True)
class RetryPolicy:
    """The number of retries.

    Attributes:
      together: number of deaths after which the work is tried alone, with nothing else in work.
      alone: number of deaths alone after which the work is given up.
      unlike: like ``alone``, if the last two deaths were not in the same call of a function: an
        outside cause may have killed the worker, once or twice.
    """

    together: int
    alone: int
    unlike: int


RAISING_MAP: Final = RetryPolicy(together=2, alone=1, unlike=1)
DROPPING_MAP: Final = RetryPolicy(together=2, alone=2, unlike=2)
PARTITIONS: Final = RetryPolicy(together=1, alone=2, unlike=4)


@final
@dataclass(frozen=True)
class Deaths:
    """The deaths of workers over the same work, since the work was last done.

    Attributes:
      policy: limits of deaths.
      count: number of deaths.
      alone: number of deaths with nothing else in work.
      call: the call in progress at the last death alone, if known.
      alike: whether the previous death alone came in the same call.
    """

    policy: RetryPolicy
    count: int = 0
    alone: int = 0
    call: Call | None = None
    alike: bool = True

    def and_one(self, alone: bool, call: Call | None = None) -> Deaths:
        """The deaths with one more, in ``call`` if known; ``alone``: with nothing else in work."""
        if not alone:
            return replace(self, count=self.count + 1)
        return Deaths(self.policy, self.count + 1, self.alone + 1, call, call == self.call)

    def suspected(self) -> Deaths:
        """The deaths for work tried alone from now on."""
        return replace(self, count=max(self.count, self.policy.together))

    @property
    def go_alone(self) -> bool:
        """Whether nothing else may be in work at the next try."""
        return self.count >= self.policy.together

    @property
    def too_many(self) -> bool:
        """Whether the work is given up."""
        return self.alone >= (self.policy.alone if self.alike else self.policy.unlike)


def death_error(stage: Stage[Any], work: str, error: BaseException, deaths: int = 1) -> WorkerError:
    """The error for workers of ``stage`` that died over ``work``, the last time with ``error``."""
    times = f"{deaths} times " if deaths > 1 else ""
    return WorkerError(f"a worker of {stage!r} died {times}while it worked on {work}: {error!r}")


def lost_error(stage: Stage[Any], work: str, lost: WorkersLost) -> WorkerError:
    """The error for workers of ``stage`` lost before ``work`` and later work was done."""
    if isinstance(lost.reason, BrokenExecutor):
        return death_error(stage, f"{work} or another item in work at that time", lost.reason)
    if isinstance(lost.reason, TimeoutError):
        return WorkerError(
            f"{lost.reason} from the executor of {stage!r}, at {work}; the next call submits it again"
        )
    return WorkerError(f"the executor of {stage!r} takes no more work, at {work}: {lost.reason!r}")
