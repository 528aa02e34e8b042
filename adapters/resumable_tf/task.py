"""Where and when a task saves: the settings of an Estimator, or just a directory."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Final

import resumable as rs
from resumable.errors import shorten

__all__ = ["Task", "task_of"]

KEPT_BY_DEFAULT: Final = 5
"""The number of checkpoints that a `tf.compat.v1.train.Saver` keeps by default."""


@dataclass(frozen=True)
class Task:
    """Where a task keeps its checkpoints, and when it saves.

    Attributes:
      folder: a path or URL.
      name: of the task's input.
      is_chief: whether this task saves the model.
      save_steps: steps between saves of the model; None if steps do not decide.
      save_secs: seconds between saves of the model; None if time does not decide.
      kept: how many checkpoints of the model are kept; None for all.
    """

    folder: str | os.PathLike[str]
    name: str = "input"
    is_chief: bool = True
    save_steps: int | None = None
    save_secs: float | None = None
    kept: int | None = KEPT_BY_DEFAULT


def task_of(estimator_or_dir: Any) -> Task:
    """The task of an Estimator, or of a directory.

    Raises:
      InvalidType: if the argument is neither an Estimator nor a path.
    """
    if isinstance(estimator_or_dir, (str, os.PathLike)):
        return Task(estimator_or_dir)
    try:
        config, folder = estimator_or_dir.config, estimator_or_dir.model_dir
    except AttributeError:
        raise rs.InvalidType(
            f"estimator_or_dir must be an Estimator or a path, got {shorten(estimator_or_dir)}"
        ) from None
    several = config.num_worker_replicas > 1
    return Task(
        folder,
        rs.task_name(config.task_type, config.task_id) if several else "input",
        config.is_chief,
        config.save_checkpoints_steps,
        config.save_checkpoints_secs,
        config.keep_checkpoint_max or None,
    )
