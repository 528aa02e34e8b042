"""What to do about sources that can only be read once."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any, TypeVar

import resumable as rs
from resumable.core.graph import rebuilt, walk
from resumable.core.stage import Stage

__all__ = ["check_policy", "without_policy"]

T = TypeVar("T")


def check_policy(pipeline: rs.Pipeline[Any], policy: str) -> None:
    """Apply ``policy`` to what ``pipeline`` cannot save exactly; a source's own one comes first.

    Raises:
      ExternalStateError: if there is such a source and the policy is ``"fail"``.
    """
    for stage, path in walk(pipeline.stage):
        own = stage.inexact_policy
        if own is None:
            continue
        chosen = policy if own == "fail" else own
        message = (
            f"{type(stage).__name__} at {path}: its iterator can only be read once, so a resume "
            "has to be given a fresh one that delivers the same items; pass a function that makes it"
        )
        if chosen == "fail":
            raise rs.ExternalStateError(
                f"{message}, or an external_state_policy of 'warn' or 'ignore'"
            )
        if chosen == "warn":
            warnings.warn(message, RuntimeWarning, stacklevel=3)


def without_policy(pipeline: rs.Pipeline[T]) -> rs.Pipeline[T]:
    """The same pipeline, whose states can be taken whatever they are worth."""

    def ignoring(number: int, stage: Stage[Any]) -> Stage[Any]:
        if stage.inexact_policy is None:
            return stage
        changes: dict[str, Any] = {"external_state_policy": "ignore"}
        return dataclasses.replace(stage, **changes)

    return rs.Pipeline(rebuilt(pipeline.stage, ignoring))
