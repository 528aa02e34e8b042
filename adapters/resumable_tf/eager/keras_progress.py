"""Correct where Keras continues an interrupted ``fit``, and count batches."""

# `BackupAndRestore` records the epoch and the batch, not always correctly. Keras 3 does not record
# the batch, takes an epoch that was continued once before for epoch 0, and takes an epoch for
# unfinished although the last batch was trained. Keras 2.15 takes the first batch of an execution
# for the last batch. Both versions read the record after `on_train_begin` of every callback, and no
# public interface changes the record.

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ..failures import Failures

__all__ = ["Explained", "begin_at", "correct", "is_continued", "steps_of", "unused_counter"]


class _Begun:
    """Sets where ``fit`` of Keras 2 begins, like the state of a `BackupAndRestore`.

    Args:
      epoch: the first epoch.
      batch: the first batch of this epoch.
    """

    def __init__(self, epoch: int, batch: int) -> None:
        self.place = epoch, batch

    def maybe_load_initial_counters_from_ckpt(self, *_: Any, **__: Any) -> tuple[int, int]:
        return self.place


def is_continued(model: Any) -> bool:
    """Whether a callback has restored ``model`` for the beginning ``fit``."""
    if getattr(model, "_initial_epoch", None) is not None:  # Keras 3
        return True
    state = getattr(model, "_training_state", None)  # Keras 2
    if isinstance(state, _Begun):
        return True
    return state is not None and int(state._ckpt_saved_epoch.numpy()) >= 0


def begin_at(model: Any, place: tuple[int, int] | None) -> None:
    """Start the beginning ``fit`` at an epoch and a batch; None for the arguments of ``fit``.

    Keras 3 counts the epoch from its first batch, unless `ResumeInput` ends the epoch earlier.
    """
    if hasattr(model, "_initial_epoch"):  # Keras 3
        model._initial_epoch = None if place is None else place[0]
    else:
        model._training_state = None if place is None else _Begun(*place)


def steps_of(optimizer: Any) -> int:
    """How many batches ``optimizer`` was given, by its iterations or the counter used instead."""
    # With accumulated gradients, `iterations` does not count every batch; the variable does.
    variables = optimizer.variables
    variables = variables() if callable(variables) else variables
    counts = [int(each.numpy()) for each in variables if each.name.split(":")[0] == "iteration"]
    counts = counts[:1] or [int(optimizer.iterations)]
    if (counter := unused_counter(optimizer)) is not None:
        counts.append(int(counter.numpy()))
    return max(counts)


def correct(model: Any, trained: int, steps: int) -> None:
    """Continue the beginning ``fit`` after ``trained`` batches, with ``steps`` batches an epoch."""
    epoch, batch = divmod(trained, steps)
    state = getattr(model, "_training_state", None)
    if state is None or isinstance(state, _Begun):
        begin_at(model, (epoch, batch))
        return
    # ``fit`` continues after the last trained batch, maybe in the previous epoch.
    last_epoch, last_batch = (epoch, batch - 1) if batch else (epoch - 1, steps - 1)
    state._ckpt_saved_epoch.assign(last_epoch)
    state._ckpt_saved_batch.assign(last_batch)


def unused_counter(optimizer: Any) -> Any | None:
    """An unused variable of a `LossScaleOptimizer` of Keras 3, saved with the optimizer.

    The iterations are those of the inner optimizer, without batches whose gradients overflow.
    """
    own = getattr(optimizer, "_iterations", None)
    is_scaled = hasattr(optimizer, "inner_optimizer") and own is not None
    return own if is_scaled and own is not optimizer.iterations else None


class Explained:
    """A ``train_function`` of Keras; errors begin with the reason if the input failed.

    Args:
      function: the function.
      failures: of the input.

    Attributes:
      function: the argument.
    """

    def __init__(self, function: Any, failures: Failures) -> None:
        self.function = function
        self._failures = failures

    def __call__(self, *arguments: Any) -> Any:  # with JAX, the state of the model and the iterator
        try:
            return self.function(*arguments)
        except tf.errors.OpError as error:
            reason = self._failures.last
            if reason is not None and reason in error.message:
                error._message = f"{reason}\n\n{error.message}"
            raise
