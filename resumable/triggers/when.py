"""Save when a function says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from ..core.arguments import check_callable
from .base import Progress, Trigger


@final
@dataclass(frozen=True)
class When(Trigger):
    """Due when ``predicate(progress)`` is true.

    Args:
      predicate: a function of a `Progress` alone, without other influences or effects.

    Raises:
      InvalidType: if ``predicate`` cannot be called.

    >>> When(lambda progress: progress.step in (1, 10, 100)).is_due(Progress(10, 1, 0.0, 0.0))
    True
    """

    predicate: Callable[[Progress], bool]

    def __post_init__(self) -> None:
        check_callable("predicate", self.predicate)

    def is_due(self, progress: Progress) -> bool:
        return bool(self.predicate(progress))
