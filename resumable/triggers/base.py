"""The progress on which triggers decide, and how triggers compose."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple, final

from ..errors import InvalidType, shorten


@final
class Progress(NamedTuple):
    """The progress of a training loop, as seen by a trigger.

    Attributes:
      step: steps finished.
      saved_step: the step of the last save, also of a save before a resume; 0 without a save.
      seconds: a monotonic clock, now.
      saved_seconds: when the last save was done, on the same clock, also for a save before a
        resume; without a save, when `resume` was called.
      signals: numbers of the signals received since the last save.
      at_end: whether the loop has come to its clean end.

    >>> Progress(step=10, saved_step=0, seconds=60.0, saved_seconds=0.0).at_end
    False
    """

    step: int
    saved_step: int
    seconds: float
    saved_seconds: float
    signals: frozenset[int] = frozenset()
    at_end: bool = False


class Trigger(ABC):
    """Decides whether a save is due: a pure function of `Progress`.

    The loop calls `is_due` after each step that is not saved yet, and once more at the end. A
    custom trigger implements `is_due` alone. Triggers compose by ``|`` and ``&``.

    >>> class EveryPowerOfTwo(rs.Trigger):
    ...     def is_due(self, progress):
    ...         return progress.step & (progress.step - 1) == 0
    >>> store = rs.Memory()
    >>> with rs.Checkpointer(store, EveryPowerOfTwo() | rs.AtSteps([5])) as checkpointer:
    ...     items = list(checkpointer.resume(rs.range(10)))
    >>> store.steps()
    [1, 2, 4, 5, 8, 10]
    """

    @abstractmethod
    def is_due(self, progress: Progress) -> bool:
        """Whether to save now."""

    @property
    def signals(self) -> frozenset[int]:
        """Numbers of the signals that the loop must count for `Progress.signals`."""
        return frozenset()

    @property
    def reads_clock(self) -> bool:
        """Whether the trigger depends on seconds, and so is due at other steps on another rank."""
        return False

    def __or__(self, other: Trigger) -> Trigger:
        return AnyOf((self, _checked(other)))

    def __and__(self, other: Trigger) -> Trigger:
        return AllOf((self, _checked(other)))


@dataclass(frozen=True)
class _Compound(Trigger):
    triggers: tuple[Trigger, ...]

    @property
    def signals(self) -> frozenset[int]:
        return frozenset[int]().union(*(trigger.signals for trigger in self.triggers))

    @property
    def reads_clock(self) -> bool:
        return any(trigger.reads_clock for trigger in self.triggers)


@final
@dataclass(frozen=True)
class AnyOf(_Compound):
    """Due when at least one of ``triggers`` is due; each trigger is called every time."""

    def is_due(self, progress: Progress) -> bool:
        return any([trigger.is_due(progress) for trigger in self.triggers])


@final
@dataclass(frozen=True)
class AllOf(_Compound):
    """Due when all ``triggers`` are due; each trigger is called every time."""

    def is_due(self, progress: Progress) -> bool:
        return all([trigger.is_due(progress) for trigger in self.triggers])


def _checked(value: object) -> Trigger:
    if not isinstance(value, Trigger):
        raise InvalidType(f"a trigger composes with another trigger, got {shorten(value)}")
    return value
