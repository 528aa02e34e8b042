"""Check the arguments that the hooks share with those of TensorFlow."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as tf1

import resumable as rs
from resumable.core.arguments import check_choice, check_int, check_seconds
from resumable.core.foreign_source import POLICIES
from resumable.errors import shorten

__all__ = ["check_savers", "check_trains", "check_when", "policy_of"]


def policy_of(external_state_policy: Any) -> str:
    """The policy as a word; ``"fail"`` for None.

    Raises:
      InvalidArgument: if it is neither one of the three words nor of TensorFlow's enumeration.
    """
    if isinstance(external_state_policy, tf.data.experimental.ExternalStatePolicy):
        return str(external_state_policy.name).lower()
    if external_state_policy is None:
        return "fail"
    return check_choice("external_state_policy", external_state_policy, POLICIES)


def check_when(save_steps: Any, save_secs: Any) -> None:
    """Make sure that these are numbers above zero, or None.

    Raises:
      InvalidType: if one is no number.
      InvalidArgument: if one is not above zero.
    """
    if save_steps is not None:
        check_int("save_steps", save_steps, minimum=1)
    if save_secs is not None:
        check_seconds("save_secs", save_secs)


def check_savers(saver: Any, scaffold: Any) -> None:
    """Make sure that at most one is there, and that they are what they must be.

    Raises:
      InvalidType: if one is another object.
      InvalidArgument: if both are there.
    """
    if saver is not None and scaffold is not None:
        raise rs.InvalidArgument("there must be one of saver and scaffold, got both")
    for name, value, kind in (
        ("saver", saver, tf1.train.Saver),
        ("scaffold", scaffold, tf1.train.Scaffold),
    ):
        if value is not None and not isinstance(value, kind):
            raise rs.InvalidType(
                f"{name} must be a tf.compat.v1.train.{kind.__name__}, got {shorten(value)}"
            )


def check_trains(hook: Any) -> None:
    """Make sure that the default graph, in which ``hook`` begins, is not one that evaluates.

    Raises:
      InvalidArgument: if it evaluates.
    """
    if tf1.get_collection(tf1.GraphKeys.EVAL_STEP):
        raise rs.InvalidArgument(
            f"{type(hook).__name__} must be among the hooks of a training, got it in an evaluation: leave "
            "it out there, so that the input begins at its start and nothing is saved"
        )
