"""How often workers may die over the same work, and the error once they have."""

# Something outside may have killed a worker, so what it had in work is tried again: first together
# with other work, then alone. A further death belongs to what was tried alone.

from __future__ import annotations

from concurrent.futures import BrokenExecutor
from dataclasses import dataclass, replace
from typing import Any, Final, final

from ..core.stage import Stage
from ..errors import WorkerError
from .watching import Call
from .workers import WorkersLost

MOST_STARTS: Final = 3
"""How often in a row new processes may die before they are given an item."""


@final
@dataclass(frozen=True)
class RetryPolicy:
    """How often work is tried again.

    Attributes:
      together: deaths after which it is tried alone, with nothing else in work.
      alone: deaths over it alone after which it is given up.
      unlike: the same where the last two were not in the same call of a function: something else may have
        killed the worker, once or twice.
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
    """The deaths of workers over the same work, since it was last done.

    Attributes:
      policy: says how many are too many.
      count: number of deaths.
      alone: how many of them came with nothing else in work.
      call: what the worker was calling at the last of these, if that is known.
      alike: whether it was calling the same at the one before.
    """

    policy: RetryPolicy
    count: int = 0
    alone: int = 0
    call: Call | None = None
    alike: bool = True

    def and_one(self, alone: bool, call: Call | None = None) -> Deaths:
        """These and one more, in ``call`` if that is known; ``alone``: with nothing else in work."""
        if not alone:
            return replace(self, count=self.count + 1)
        return Deaths(self.policy, self.count + 1, self.alone + 1, call, call == self.call)

    def suspected(self) -> Deaths:
        """These, for work that is tried alone from now on."""
        return replace(self, count=max(self.count, self.policy.together))

    @property
    def go_alone(self) -> bool:
        """Whether nothing else may be in work at the next try."""
        return self.count >= self.policy.together

    @property
    def too_many(self) -> bool:
        """Whether there is no next try."""
        return self.alone >= (self.policy.alone if self.alike else self.policy.unlike)


def death_error(stage: Stage[Any], work: str, error: BaseException, deaths: int = 1) -> WorkerError:
    """The error for workers of ``stage`` that died over ``work``, the last time with ``error``."""
    times = f"{deaths} times " if deaths > 1 else ""
    return WorkerError(f"a worker of {stage!r} died {times}while it worked on {work}: {error!r}")


def lost_error(stage: Stage[Any], work: str, lost: WorkersLost) -> WorkerError:
    """The error for workers of ``stage`` that are gone before ``work``, and what comes after it, was done."""
    if isinstance(lost.reason, BrokenExecutor):
        return death_error(stage, f"{work} or another item in work at that time", lost.reason)
    if isinstance(lost.reason, TimeoutError):
        return WorkerError(
            f"{lost.reason} from the executor of {stage!r}, at {work}; the next call submits it again"
        )
    return WorkerError(f"the executor of {stage!r} takes no more work, at {work}: {lost.reason!r}")
