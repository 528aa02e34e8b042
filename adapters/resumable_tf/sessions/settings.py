"""Where and when a task saves: the settings of an Estimator or a RunConfig, and arguments of the hooks."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Final

import tensorflow.compat.v1 as tf1

import resumable as rs
from resumable.core.arguments import check_int, check_seconds
from resumable.errors import shorten

__all__ = ["Task", "check_savers", "check_trains", "check_when", "task_of"]

KEPT_BY_DEFAULT: Final = 5
"""The number of checkpoints that a `tf.compat.v1.train.Saver` keeps by default."""


@dataclass(frozen=True)
class Task:
    """Where a task keeps checkpoints, and when it saves.

    Attributes:
      folder: a path or URL.
      name: of the task's input.
      is_chief: whether this task saves the model.
      leads: whether the task is known to be the folder's only task that saves the model.
      save_steps: steps between saves of the model; None if steps do not decide.
      save_secs: seconds between saves of the model; None if time does not decide.
      kept: how many checkpoints of the model are kept; None for all.
    """

    folder: str | os.PathLike[str]
    name: str = "input"
    is_chief: bool = True
    leads: bool = False
    save_steps: int | None = None
    save_secs: float | None = None
    kept: int | None = KEPT_BY_DEFAULT


def task_of(estimator: Any) -> Task:
    """The task of an Estimator or a RunConfig, or of a directory.

    Raises:
      InvalidType: if the argument has another type.
      InvalidArgument: if a RunConfig has no ``model_dir``.
    """
    if isinstance(estimator, (str, os.PathLike)):
        return Task(estimator)
    # An Estimator has a RunConfig, and has the folder even if the RunConfig has none.
    config = getattr(estimator, "config", estimator)
    try:
        folder, several = estimator.model_dir, config.num_worker_replicas > 1
    except AttributeError:
        raise rs.InvalidType(
            f"estimator must be an Estimator, a RunConfig or a path, got {shorten(estimator)}"
        ) from None
    if not folder:
        raise rs.InvalidArgument(
            f"the model_dir of a RunConfig must be set, got {folder!r}; pass the Estimator, which "
            "chooses a folder then"
        )
    return Task(
        folder,
        rs.task_name(config.task_type, config.task_id) if several else "input",
        config.is_chief,
        config.is_chief,
        config.save_checkpoints_steps,
        config.save_checkpoints_secs,
        config.keep_checkpoint_max or None,
    )


def check_when(save_steps: Any, save_secs: Any) -> None:
    """Make sure that the arguments are numbers above zero, or None.

    Raises:
      InvalidType: if an argument is no number.
      InvalidArgument: if a number is not above zero.
    """
    if save_steps is not None:
        check_int("save_steps", save_steps, minimum=1)
    if save_secs is not None:
        check_seconds("save_secs", save_secs)


def check_savers(saver: Any, scaffold: Any) -> None:
    """Check that at most one of ``saver`` and ``scaffold`` is given, and its type.

    Raises:
      InvalidType: if an argument is another object.
      InvalidArgument: if both are given.
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
    """Check that the default graph of ``hook`` is not an evaluation.

    Raises:
      InvalidArgument: if the graph evaluates.
    """
    if tf1.get_collection(tf1.GraphKeys.EVAL_STEP):
        raise rs.InvalidArgument(
            f"{type(hook).__name__} must be among the hooks of a training, got it in an evaluation: leave "
            "it out there, so that the input begins at its start and nothing is saved"
        )
