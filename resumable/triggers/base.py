"""What a trigger is asked, and how triggers compose."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

from ..arguments import shorten
from ..errors import InvalidType

__all__ = ["AllOf", "AnyOf", "Progress", "Trigger"]


@final
@dataclass(frozen=True)
class Progress:
    """Where a training loop stands, as a trigger sees it.

    Attributes:
      step: steps finished.
      saved_step: the step of the last save or of the resume; 0 before both.
      seconds: a monotonic clock, now.
      saved_seconds: the same clock at the last save, at the resume or at the start.
    """

    step: int
    saved_step: int
    seconds: float
    saved_seconds: float


class Trigger(ABC):
    """Decides whether a save is due: a pure function of `Progress`."""

    @abstractmethod
    def is_due(self, progress: Progress) -> bool:
        """Whether to save now."""

    def __or__(self, other: Trigger) -> Trigger:
        return AnyOf((self, _checked(other)))

    def __and__(self, other: Trigger) -> Trigger:
        return AllOf((self, _checked(other)))


@final
@dataclass(frozen=True)
class AnyOf(Trigger):
    """Due when one of ``triggers`` is; every one of them is asked."""

    triggers: tuple[Trigger, ...]

    def is_due(self, progress: Progress) -> bool:
        return any([trigger.is_due(progress) for trigger in self.triggers])


@final
@dataclass(frozen=True)
class AllOf(Trigger):
    """Due when all of ``triggers`` are; every one of them is asked."""

    triggers: tuple[Trigger, ...]

    def is_due(self, progress: Progress) -> bool:
        return all([trigger.is_due(progress) for trigger in self.triggers])


def _checked(value: object) -> Trigger:
    if not isinstance(value, Trigger):
        raise InvalidType(f"a trigger composes with another trigger, got {shorten(value)}")
    return value
