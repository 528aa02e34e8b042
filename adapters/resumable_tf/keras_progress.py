"""Where Keras believes an interrupted ``fit`` to be, and how to put it right."""

# `BackupAndRestore` notes the epoch and the batch, and is not always right. Keras 3 does not know the
# batch, takes epoch 0 for any that was continued once before, and the epoch for unfinished whose
# last batch was trained. 2.15 takes the first batch of an execution for the last one. Both read the
# note after `on_train_begin` of every callback; nothing public changes it.

from __future__ import annotations

from typing import Any

__all__ = ["correct", "is_continued"]


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
    # It goes on after the last batch that was trained, which may be that of the epoch before.
    last_epoch, last_batch = (epoch, batch - 1) if batch else (epoch - 1, steps - 1)
    state._ckpt_saved_epoch.assign(last_epoch)
    state._ckpt_saved_batch.assign(last_batch)
