"""Sources that read a foreign object, and the policy for positions not restorable."""

from __future__ import annotations

import copy
import warnings
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from ..errors import ExternalStateError
from .graph import walk
from .record_source import RecordSource
from .stage import Stage

T = TypeVar("T")

POLICIES: Final = ("fail", "warn", "ignore")
"""Reactions of a save to a position that cannot be restored."""


@dataclass(frozen=True, eq=False, repr=False)
class ExternalSource(RecordSource[T]):
    """A source that reads a foreign object."""

    @property
    @abstractmethod
    def inexact_policy(self) -> str | None:
        """An entry of ``POLICIES`` if the position cannot be restored; None if it can be."""

    @property
    def reads_once(self) -> bool:
        """Whether the position cannot be restored because items cannot be read again."""
        return self.inexact_policy is not None

    @property
    def keeps_position(self) -> bool:
        """Whether the object stores the position, so that two readers would disturb each other."""
        return True

    def _apart(self) -> ExternalSource[T]:
        """The same source over a copy of the object, for a second reader."""
        return copy.deepcopy(self)

    @property
    def inexact_reason(self) -> str:
        """Why the position cannot be restored, and last an alternative."""
        return "its position cannot be restored; use a source whose position can be"


def inexact_sources(stage: Stage[Any]) -> Iterator[tuple[ExternalSource[Any], str]]:
    """The sources below ``stage`` whose position cannot be restored, with their paths."""
    for found, path in walk(stage):
        if isinstance(found, ExternalSource) and found.inexact_policy is not None:
            yield found, path


def inexactness(stage: ExternalSource[Any], path: str) -> str:
    """The message about a source whose position cannot be restored."""
    return f"{type(stage).__name__} at {path}: {stage.inexact_reason}"


def apply_policy(message: str, policy: str, stacklevel: int) -> None:
    """Raise ``message``, warn, or do nothing, depending on ``policy``.

    Raises:
      ExternalStateError: if ``policy`` is ``"fail"``.
    """
    if policy == "fail":
        raise ExternalStateError(f"{message}, or an external_state_policy of 'warn' or 'ignore'")
    if policy == "warn":
        warnings.warn(message, RuntimeWarning, stacklevel=stacklevel + 1)
