"""Save every so many seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from ..core.arguments import check_field, check_seconds
from .base import Progress, Trigger


@final
@dataclass(frozen=True)
class EverySeconds(Trigger):
    """Due when ``seconds`` have passed since the last save, also a save before a resume.

    Before the very first save, the seconds count from the call of `Checkpointer.resume`.

    Args:
      seconds: finite and above 0.

    Raises:
      InvalidArgument: if ``seconds`` is not finite or not above 0.
      InvalidType: if ``seconds`` is not a number.

    >>> trigger = rs.EverySeconds(600) | rs.AtEnd()
    """

    seconds: float

    def __post_init__(self) -> None:
        check_field(self, "seconds", check_seconds)

    def is_due(self, progress: Progress) -> bool:
        return progress.seconds - progress.saved_seconds >= self.seconds

    @property
    def reads_clock(self) -> bool:
        return True
