"""Save every so many seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from ..core.arguments import check_seconds
from .base import Progress, Trigger


@final
@dataclass(frozen=True)
class EverySeconds(Trigger):
    """Due when ``seconds`` have passed since the last save, also one before a resume.

    As long as there is none, since the start.

    Args:
      seconds: finite and above 0.
    """

    seconds: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "seconds", check_seconds("seconds", self.seconds))

    def is_due(self, progress: Progress) -> bool:
        return progress.seconds - progress.saved_seconds >= self.seconds
