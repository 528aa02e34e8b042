"""The result of a measurement."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple, final

from .saving import Saving

WHOLE: Final = 1000
AROUND: Final = "the loop around them"
"""Stands for the time outside all stages: that of the outermost iterator and the loop."""


class StageTime(NamedTuple):
    """A stage and its time.

    Attributes:
      stage: with its arguments.
      path: where the stage is, in the form that errors use; empty for the time outside all stages.
      share: the part of the loop's time in which the loop waits for this stage, from 0 to 1.
      seconds: of work for each item of the pipeline, in all threads; waiting does not count.
      beside: the share of this work that is done in other threads than the loop's, from 0 to 1.
      bytes: its part of the state; None if there is no state.
    """

    stage: str
    path: str
    share: float
    seconds: float
    beside: float
    bytes: int | None


@final
@dataclass(frozen=True)
class BenchReport:
    """The outcome of a measurement.

    Attributes:
      target: what was measured.
      items: how many items were timed: all but the first, unless it was the only one.
      seconds: the time of these items.
      complete: whether the pipeline came to its end.
      first_seconds: the time of the first item; None if there is none.
      cpu_share: the seconds that all threads of this process computed, as a share of the time.
      slowdown: how many times slower the pipeline was while its stages were timed; None if it
        was read only once.
      stages: the last one first, then the loop around them; empty if they could not be timed.
      bottleneck: the index in ``stages`` of the one with the greatest share; None without stages.
      advice: the bottleneck in a sentence, and what to do about it.
      saving: what saving and resuming cost; None if no state could be taken.
      notes: what else is worth knowing.
    """

    target: str
    items: int
    seconds: float
    complete: bool
    first_seconds: float | None = None
    cpu_share: float | None = None
    slowdown: float | None = None
    stages: tuple[StageTime, ...] = ()
    bottleneck: int | None = None
    advice: str = ""
    saving: Saving | None = None
    notes: tuple[str, ...] = ()

    @property
    def items_per_second(self) -> float | None:
        """The speed; None if no item came, or the clock saw no time pass."""
        return self.items / self.seconds if self.items and self.seconds > 0 else None

    @property
    def rate(self) -> str:
        """Items per second as text, with four digits or in whole items."""
        rate = self.items_per_second or 0.0
        return f"{rate:,.0f}" if rate >= WHOLE else f"{rate:.4g}"

    def as_json(self) -> dict[str, Any]:
        """The fields by name, as JSON can hold them."""
        found = asdict(self)
        found["stages"] = [stage._asdict() for stage in self.stages]
        found["saving"] = self.saving and self.saving._asdict()
        return {**found, "items_per_second": self.items_per_second}


def brief(text: str, limit: int = 60) -> str:
    """``text``, or its beginning and its end if it is longer than ``limit``."""
    if len(text) <= limit:
        return text
    kept = limit - 3
    return f"{text[: kept - kept // 2]}...{text[-(kept // 2) :]}"


def percent(shares: list[float]) -> list[int]:
    """Shares that add up to 1, in whole percent that add up to 100."""
    exact = [100 * share for share in shares]
    rounded = [math.floor(value) for value in exact]
    short = round(sum(exact)) - sum(rounded)
    by_rest = sorted(range(len(exact)), key=lambda place: rounded[place] - exact[place])
    for place in by_rest[:short]:
        rounded[place] += 1
    return rounded
