"""Sources whose position a foreign object keeps, and what is done where it cannot be restored."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from ..errors import ExternalStateError
from .graph import walk
from .stage import Stage

T = TypeVar("T")


@dataclass(frozen=True, eq=False, repr=False)
class ExternalSource(Stage[T]):
    """A source that reads a foreign object."""

    @property
    @abstractmethod
    def inexact_policy(self) -> str | None:
        """What a save does if the object's position cannot be restored; None if it can be."""


def inexact_sources(stage: Stage[Any]) -> Iterator[tuple[ExternalSource[Any], str]]:
    """The sources below ``stage`` whose position cannot be restored, with their paths."""
    for found, path in walk(stage):
        if isinstance(found, ExternalSource) and found.inexact_policy is not None:
            yield found, path


def apply_policy(stage: Stage[Any], path: str, policy: str, stacklevel: int) -> None:
    """Refuse, warn, or say nothing about a source whose position cannot be restored.

    Raises:
      ExternalStateError: if ``policy`` is ``"fail"``.
    """
    message = (
        f"{type(stage).__name__} at {path}: its iterator can only be read once, so its position "
        "cannot be restored, and a resume has to be given a fresh one that delivers the same items; "
        "pass a function that makes the iterator"
    )
    if policy == "fail":
        raise ExternalStateError(f"{message}, or an external_state_policy of 'warn' or 'ignore'")
    if policy == "warn":
        warnings.warn(message, RuntimeWarning, stacklevel=stacklevel + 1)
