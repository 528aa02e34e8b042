"""What a trigger is asked, and how triggers compose."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple, final

from ..errors import InvalidType, shorten


@final
class Progress(NamedTuple):
    """Where a training loop stands, as a trigger sees it.

    Attributes:
      step: steps finished.
      saved_step: the step of the last save, also of one before a resume; 0 if there is none.
      seconds: a monotonic clock, now.
      saved_seconds: when the last save was done, on the same clock; when `resume` was called if
        there is none.
      signals: numbers of the signals received since the last save.
      at_end: whether the loop has come to its clean end.
    """

    step: int
    saved_step: int
    seconds: float
    saved_seconds: float
    signals: frozenset[int] = frozenset()
    at_end: bool = False


class Trigger(ABC):
    """Decides whether a save is due: a pure function of `Progress`.

    It is asked after each step that is not saved yet, and once more at the end.
    """

    @abstractmethod
    def is_due(self, progress: Progress) -> bool:
        """Whether to save now."""

    @property
    def signals(self) -> frozenset[int]:
        """Numbers of the signals that `Progress.signals` has to report."""
        return frozenset()

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


@final
@dataclass(frozen=True)
class AnyOf(_Compound):
    """Due when one of ``triggers`` is; every one of them is asked."""

    def is_due(self, progress: Progress) -> bool:
        return any([trigger.is_due(progress) for trigger in self.triggers])


@final
@dataclass(frozen=True)
class AllOf(_Compound):
    """Due when all of ``triggers`` are; every one of them is asked."""

    def is_due(self, progress: Progress) -> bool:
        return all([trigger.is_due(progress) for trigger in self.triggers])


def _checked(value: object) -> Trigger:
    if not isinstance(value, Trigger):
        raise InvalidType(f"a trigger composes with another trigger, got {shorten(value)}")
    return value
