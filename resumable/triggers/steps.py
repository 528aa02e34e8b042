"""Save every so many steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from ..arguments import check_int
from .base import Progress, Trigger

__all__ = ["EverySteps"]


@final
@dataclass(frozen=True)
class EverySteps(Trigger):
    """Due when a multiple of ``steps`` was reached or passed since the last save.

    A jump over a multiple is not missed, and a resume keeps the same multiples.

    Args:
      steps: at least 1.
    """

    steps: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", check_int("steps", self.steps, minimum=1))

    def is_due(self, progress: Progress) -> bool:
        return progress.step // self.steps > progress.saved_step // self.steps
