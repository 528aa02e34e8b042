"""When to save: every so many steps or seconds, at given steps, at the end, or when a function says so."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import final

from ..core.arguments import check_callable, check_field, check_int, check_seconds
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

    reads_clock = True

    seconds: float

    def __post_init__(self) -> None:
        check_field(self, "seconds", check_seconds)

    def is_due(self, progress: Progress) -> bool:
        return progress.seconds - progress.saved_seconds >= self.seconds


@final
@dataclass(frozen=True)
class AtEnd(Trigger):
    """Due at a clean end: the pipeline is exhausted, or the loop was left without an exception.

    A `Checkpointer` saves at the end anyway, unless given ``save_at_end=False``. With `AtEnd` as
    the only trigger, it saves at the end only.

    >>> store = rs.Memory()
    >>> with rs.Checkpointer(store, rs.AtEnd()) as checkpointer:
    ...     items = list(checkpointer.resume(rs.range(5)))
    >>> store.steps()
    [5]
    """

    def is_due(self, progress: Progress) -> bool:
        return progress.at_end


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


def every(save_steps: int | None = None, save_secs: float | None = None) -> Trigger:
    """``EverySteps(save_steps)`` or ``EverySeconds(save_secs)``, whichever is given.

    The arguments and their rule match TensorFlow's ``CheckpointSaverHook``.

    Args:
      save_steps: steps from one save to the next, at least 1.
      save_secs: seconds from one save to the next, above 0.

    Raises:
      InvalidArgument: a ValueError, unless exactly one argument is given and is in range.
      InvalidType: if the argument is not a number, or ``save_steps`` not an integer.

    >>> rs.every(save_steps=100)
    EverySteps(steps=100)
    >>> rs.every(save_secs=600)
    EverySeconds(seconds=600.0)
    """
    if (save_steps is None) == (save_secs is None):
        raise InvalidArgument(
            "exactly one of save_steps and save_secs must be given, got "
            f"save_steps={save_steps!r}, save_secs={save_secs!r}"
        )
    if save_secs is not None:
        return EverySeconds(check_seconds("save_secs", save_secs))
    return EverySteps(check_int("save_steps", save_steps, minimum=1))
