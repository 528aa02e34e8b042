"""Save every so many steps, or at given steps."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

from ..core.arguments import check_field, check_int
from ..errors import InvalidArgument, InvalidType, shorten
from .base import Progress, Trigger


@final
@dataclass(frozen=True)
class EverySteps(Trigger):
    """Due when a multiple of ``steps`` was reached or passed since the last save.

    A multiple that is jumped over still counts, and a resume keeps the same multiples.

    Args:
      steps: number of steps, at least 1.

    Raises:
      InvalidArgument: if ``steps`` is less than 1.
      InvalidType: if ``steps`` is not an integer.

    >>> trigger = rs.EverySteps(100) | rs.EverySeconds(600)
    """

    steps: int

    def __post_init__(self) -> None:
        check_field(self, "steps", check_int, minimum=1)

    def is_due(self, progress: Progress) -> bool:
        return progress.step // self.steps > progress.saved_step // self.steps


@final
@dataclass(frozen=True, init=False)
class AtSteps(Trigger):
    """Due when one of ``steps`` was reached or passed since the last save.

    Args:
      steps: step numbers in any order, at least one, each at least 1.

    Raises:
      InvalidArgument: if ``steps`` is empty, or a number is less than 1.
      InvalidType: if ``steps`` is not a list of integers.

    >>> store = rs.Memory()
    >>> with rs.Checkpointer(store, rs.AtSteps([2, 3]), save_at_end=False) as checkpointer:
    ...     items = list(checkpointer.resume(rs.range(5)))
    >>> store.steps()
    [2, 3]
    """

    steps: tuple[int, ...]

    def __init__(self, steps: Iterable[int]) -> None:
        if isinstance(steps, (str, bytes)) or not isinstance(steps, Iterable):
            raise InvalidType(f"steps must be a list of integers, got {shorten(steps)}")
        checked = {check_int("each of steps", step, minimum=1) for step in steps}
        if not checked:
            raise InvalidArgument("steps must hold at least one step, got none")
        object.__setattr__(self, "steps", tuple(sorted(checked)))

    def is_due(self, progress: Progress) -> bool:
        return bisect(self.steps, progress.step) > bisect(self.steps, progress.saved_step)
