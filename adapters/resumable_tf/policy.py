"""The policy on inexact resumes: sources that are read once, and unsaved randomness."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, Final, TypeVar

import tensorflow as tf
import tensorflow.compat.v1 as tf1

import resumable as rs
from resumable.core.arguments import check_choice
from resumable.core.foreign_source import (
    POLICIES,
    ExternalSource,
    apply_policy,
    inexact_sources,
    inexactness,
)
from resumable.core.graph import rebuilt
from resumable.core.stage import Stage

from .randomness import hidden_randomness

__all__ = ["check_policy", "note_functions", "policy_of", "without_policy"]

T = TypeVar("T")

FUNCTIONS: Final = ("resumable_functions",)
"""The collection of a graph with pipelines and the faults of functions after each."""


def policy_of(external_state_policy: Any) -> str:
    """The policy as a word; ``"fail"`` for None.

    Raises:
      InvalidArgument: if the policy is neither one of the three words nor a member of TensorFlow's
        enumeration.
    """
    if isinstance(external_state_policy, tf.data.experimental.ExternalStatePolicy):
        return str(external_state_policy.name).lower()
    if external_state_policy is None:
        return "fail"
    return check_choice("external_state_policy", external_state_policy, POLICIES)


def check_policy(pipeline: rs.Pipeline[Any], policy: str) -> None:
    """Apply ``policy`` to parts that cannot be saved exactly; a source's own policy comes first.

    Raises:
      ExternalStateError: if the policy is ``"fail"``, and a source can only be read once, a
        function draws random numbers that no state restores, or a tf.data function in the default
        graph has a stateful operation.
    """
    for stage, path in inexact_sources(pipeline.stage):
        own = stage.inexact_policy
        chosen = policy if own in (None, "fail") else own
        apply_policy(inexactness(stage, path), chosen, stacklevel=2)
    found = [
        f"{function}, which a resume does not continue; draw by random_map, whose generator belongs "
        "to the item"
        for function in hidden_randomness(pipeline)
    ]
    noted = tf1.get_default_graph().get_collection(FUNCTIONS)
    for message in found + [message for owner, message in noted if owner is pipeline]:
        apply_policy(message, policy, stacklevel=2)


def note_functions(pipeline: rs.Pipeline[Any], found: Iterable[str]) -> None:
    """Record for `check_policy` the unrepeatable effects of tf.data functions after ``pipeline``.

    Args:
      pipeline: of an input of the default graph.
      found: the faults.
    """
    for message in found:
        tf1.get_default_graph().add_to_collection(FUNCTIONS, (pipeline, message))


def without_policy(pipeline: rs.Pipeline[T]) -> rs.Pipeline[T]:
    """The same pipeline, with states that can always be taken, even if inexact."""

    def ignoring(number: int, stage: Stage[Any]) -> Stage[Any]:
        if not isinstance(stage, ExternalSource) or stage.inexact_policy is None:
            return stage
        changes: dict[str, Any] = {"external_state_policy": "ignore"}
        return dataclasses.replace(stage, **changes)

    return rs.Pipeline(rebuilt(pipeline.stage, ignoring))
