"""Where Keras continues an interrupted ``fit``, and how that is corrected."""

# `BackupAndRestore` records the epoch and the batch, and they are not always right. Keras 3 does not
# record the batch, takes an epoch that was continued once before for epoch 0, and takes an epoch for
# unfinished although its last batch was trained. Keras 2.15 takes the first batch of an execution for
# the last one. Both read the record after `on_train_begin` of every callback, and nothing public
# changes it.

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
    # It continues after the last trained batch, which may belong to the epoch before.
    last_epoch, last_batch = (epoch, batch - 1) if batch else (epoch - 1, steps - 1)
    state._ckpt_saved_epoch.assign(last_epoch)
    state._ckpt_saved_batch.assign(last_batch)
