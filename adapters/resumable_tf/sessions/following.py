"""Save and remove checkpoints of the input together with the model's `Saver`."""

# The checkpoints of model and input must be of the same step, under any trigger and wherever the
# process dies. A second timer would drift from the timer of the model. A hook after the model's
# save would leave a moment in which the model is saved without the input. Estimator and
# MonitoredTrainingSession make the CheckpointSaverHook themselves, so a listener cannot always be
# added. But every save is a call of the one Saver of the graph, so these calls are followed.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow.compat.v1 as tf1

from .model_folder import steps_of

__all__ = ["ModelSaver"]


class ModelSaver:
    """Calls ``before`` and ``after`` around each save of ``saver``, until `release`.

    Replaces the method ``save`` of the object ``saver``.

    Args:
      saver: the saver of the model.
      before: called with the session before each save; an exception prevents the save.
      after: called after each save with the steps that have a checkpoint of the model.

    Attributes:
      saver: the argument.
    """

    def __init__(
        self,
        saver: tf1.train.Saver,
        before: Callable[[tf1.Session], None],
        after: Callable[[set[int]], None],
    ) -> None:
        self.saver = saver
        self._released = False
        self._paths: set[str] = set()
        save = saver.save

        def follow(sess: Any, save_path: str, *args: Any, **kwargs: Any) -> Any:
            if self._released:
                return save(sess, save_path, *args, **kwargs)
            before(sess)
            path = save(sess, save_path, *args, **kwargs)
            self._paths.add(save_path)
            after({step for each in self._paths for step in steps_of(each)})
            return path

        saver.save = follow

    def may_have_saved(self, path: str) -> bool:
        """Whether this saver counts the checkpoint at ``path``."""
        counts = self.saver.saver_def.max_to_keep > 0
        return not counts or path in self.saver.last_checkpoints

    def release(self) -> None:
        """Stop following; other followers of the same saver continue."""
        self._released = True
