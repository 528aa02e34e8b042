"""The result of a measurement."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Final, final

from ..errors import brief as brief
from .saving import Saving

WHOLE: Final = 1000
AROUND: Final = "the loop around them"
"""Name of the time outside all stages, in the outermost iterator and the loop."""


@final
@dataclass(frozen=True)
class StageTime:
    """A stage and its time.

    Attributes:
      stage: with arguments.
      path: where the stage is, in the form that errors use; empty for the time outside all stages.
      share: the part of the loop's time in which the loop waits for this stage, from 0 to 1.
      seconds: of work for each item of the pipeline, in all threads; waiting does not count.
      beside: the share of this work in threads other than the loop's, from 0 to 1.
      bytes: the stage's part of the state; None without a state.
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
      target: name of the measured pipeline.
      items: how many items were timed: all but the first, unless only one was drawn.
      seconds: the time of these items.
      complete: whether the pipeline came to its end.
      first_seconds: the time of the first item; None without items.
      cpu_share: the seconds that all threads of this process computed, as a share of the time.
      slowdown: how many times slower the pipeline was with timed stages; None if read only once.
      stages: the last stage first, finally the surrounding loop; empty if timing failed.
      bottleneck: the index in ``stages`` of the greatest share; None without stages.
      advice: the bottleneck in a sentence, and a hint.
      saving: the costs of saving and resuming; None if no state could be taken.
      notes: other facts worth knowing.
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
        """The fields by name, as values for JSON."""
        return {**asdict(self), "items_per_second": self.items_per_second}


def percent(shares: list[float]) -> list[int]:
    """Shares with the sum 1, in whole percent with the sum 100."""
    exact = [100 * share for share in shares]
    rounded = [math.floor(value) for value in exact]
    short = round(sum(exact)) - sum(rounded)
    by_rest = sorted(range(len(exact)), key=lambda place: rounded[place] - exact[place])
    for place in by_rest[:short]:
        rounded[place] += 1
    return rounded
