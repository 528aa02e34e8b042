"""Where Keras continues an interrupted ``fit``, how that is corrected, and how batches are counted."""

# `BackupAndRestore` records the epoch and the batch, and they are not always right. Keras 3 does not
# record the batch, takes an epoch that was continued once before for epoch 0, and takes an epoch for
# unfinished although its last batch was trained. Keras 2.15 takes the first batch of an execution for
# the last one. Both read the record after `on_train_begin` of every callback, and nothing public
# changes it.

from __future__ import annotations

from typing import Any

import tensorflow as tf

from .failures import Failures

__all__ = ["Explained", "correct", "is_continued", "unused_counter"]


def is_continued(model: Any) -> bool:
    """Whether `BackupAndRestore` has restored ``model`` for the ``fit`` that begins."""
    if getattr(model, "_initial_epoch", None) is not None:  # Keras 3
        return True
    state = getattr(model, "_training_state", None)  # Keras 2
    return state is not None and int(state._ckpt_saved_epoch.numpy()) >= 0


def correct(model: Any, trained: int, steps: int) -> None:
    """Let the ``fit`` that begins continue after ``trained`` batches of ``steps`` an epoch."""
    epoch, batch = divmod(trained, steps)
    state = getattr(model, "_training_state", None)
    if state is None:
        model._initial_epoch = epoch
        return
    # It continues after the last trained batch, which may belong to the epoch before.
    last_epoch, last_batch = (epoch, batch - 1) if batch else (epoch - 1, steps - 1)
    state._ckpt_saved_epoch.assign(last_epoch)
    state._ckpt_saved_batch.assign(last_batch)


def unused_counter(optimizer: Any) -> Any | None:
    """A variable of a `LossScaleOptimizer` of Keras 3 that is saved with it and used by nothing.

    Its iterations are those of the inner optimizer, which leaves out batches whose gradients overflow.
    """
    own = getattr(optimizer, "_iterations", None)
    is_scaled = hasattr(optimizer, "inner_optimizer") and own is not None
    return own if is_scaled and own is not optimizer.iterations else None


class Explained:
    """A ``train_function`` of Keras, whose errors begin with the reason if the input failed.

    Args:
      function: the function.
      failures: of the input.

    Attributes:
      function: the argument.
    """

    def __init__(self, function: Any, failures: Failures) -> None:
        self.function = function
        self._failures = failures

    def __call__(self, iterator: Any) -> Any:
        try:
            return self.function(iterator)
        except tf.errors.OpError as error:
            reason = self._failures.last
            if reason is not None and reason in error.message:
                error._message = f"{reason}\n\n{error.message}"
            raise
