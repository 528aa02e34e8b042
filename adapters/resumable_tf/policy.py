"""What to do about sources that can only be read once."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

import resumable as rs
from resumable.core.external_source import (
    ExternalSource,
    apply_policy,
    inexact_sources,
    inexactness,
)
from resumable.core.graph import rebuilt
from resumable.core.stage import Stage

__all__ = ["check_policy", "without_policy"]

T = TypeVar("T")


def check_policy(pipeline: rs.Pipeline[Any], policy: str) -> None:
    """Apply ``policy`` to the sources that cannot be saved exactly; their own policy comes first.

    Raises:
      ExternalStateError: if there is such a source and the policy is ``"fail"``.
    """
    for stage, path in inexact_sources(pipeline.stage):
        own = stage.inexact_policy
        chosen = policy if own in (None, "fail") else own
        apply_policy(inexactness(stage, path), chosen, stacklevel=2)


def without_policy(pipeline: rs.Pipeline[T]) -> rs.Pipeline[T]:
    """The same pipeline, with states that can always be taken, even if they are not exact."""

    def ignoring(number: int, stage: Stage[Any]) -> Stage[Any]:
        if not isinstance(stage, ExternalSource) or stage.inexact_policy is None:
            return stage
        changes: dict[str, Any] = {"external_state_policy": "ignore"}
        return dataclasses.replace(stage, **changes)

    return rs.Pipeline(rebuilt(pipeline.stage, ignoring))
