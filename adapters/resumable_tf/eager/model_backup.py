"""A backup of the model under Keras's ``fit`` that is whole after any kill."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

import tensorflow as tf

import resumable as rs
from resumable.checkpoint.names import check_name
from resumable.core.arguments import check_int

from .keras_progress import Explained, begin_at, steps_of
from .model_files import ModelFiles

__all__ = ["ModelBackup"]


class ModelBackup(tf.keras.callbacks.Callback):  # type: ignore[misc]
    """Saves the weights of the model and the optimizer, and restores the newest.

    Replaces Keras's ``BackupAndRestore``, with the same first arguments. Under Keras 3,
    ``BackupAndRestore`` overwrites its own files, and after a kill in that moment every later start
    fails. Here each save is a new file, named only when whole and on the disk. The files stay after
    the training.

    Put this callback before `ResumeInput` in the list of callbacks. `ResumeInput` restores the
    input of the same step, and continues an interrupted epoch at the right batch.

    When a ``fit`` begins, the newest sound file is loaded, unless the model has been trained
    further. A damaged file is set aside with a warning, and the previous file is taken. The end of
    a training is saved too. Without a `ResumeInput`, a model saved mid-epoch is refused, since
    Keras would train the first batches of the epoch again.

    State: a file ``model-000000001200-DIGEST.weights.h5`` for each save, of the size of the weights
    and of the optimizer's variables, in Keras's own format. A save writes the file, reads it once,
    and waits for the disk.

    Args:
      directory: a local folder.
      save_freq: ``"epoch"``, or a number of batches.
      max_to_keep: how many of the newest files to keep, at least 1. With 1, no older file replaces
        a file damaged later.
      name: the beginning of the names of the files.

    Raises:
      InvalidType: if an argument has the wrong type, or ``save_freq`` is another word.
      InvalidArgument: if a number is less than 1, or the name has other characters than letters,
        digits, ``_`` and ``.``.

    During ``fit`` the callback raises `InvalidArgument` if the model is not built, so that no
    weights can be loaded, or if a required `ResumeInput` is missing, `InvalidType` for a legacy
    optimizer of Keras 2, `NoValidCheckpoint` if all files are damaged, and ``OSError`` if a file
    cannot be written.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        save_freq: Literal["epoch"] | int = "epoch",
        *,
        max_to_keep: int = 2,
        name: str = "model",
    ) -> None:
        super().__init__()
        if not isinstance(directory, (str, os.PathLike)):
            raise rs.InvalidType(f"directory must be a path, got {directory!r}")
        if save_freq != "epoch":
            check_int("save_freq", save_freq, minimum=1)
        self.save_freq = save_freq
        keep = check_int("max_to_keep", max_to_keep, minimum=1)
        self._files = ModelFiles(Path(directory), check_name("name", name), keep)
        # The step saved or restored last, and whether this `fit` has saved.
        self._saved = 0
        self._resumed_batch = 0  # how many batches of the first epoch were trained before
        self._is_writer = False

    def on_train_begin(self, logs: Any = None) -> None:
        if not self.model.built:
            raise rs.InvalidArgument(
                "the model must be built before fit, so that its weights can be restored; give it a "
                "tf.keras.Input, or call it with a batch"
            )
        if not hasattr(self.model.optimizer, "build"):
            raise rs.InvalidType(
                "optimizer must be one that Keras saves with the weights, got "
                f"{type(self.model.optimizer).__name__}, a legacy one, whose steps would be lost"
            )
        self._is_writer = False
        self._saved = steps_of(self.model.optimizer)
        newest = self._files.newest()
        if newest is None or newest.step <= self._saved:
            begin_at(self.model, None)
            return
        # An optimizer that scales the loss would have all variables twice.
        if not getattr(self.model.optimizer, "built", False):
            self.model.optimizer.build(self.model.trainable_variables)
        self.model.load_weights(str(newest.path))
        self._saved = newest.step
        steps = self.params.get("steps")
        begin_at(self.model, divmod(newest.step, int(steps)) if steps else None)
        # Without a known number of steps an epoch, any step may be mid-epoch.
        self._resumed_batch = newest.step % int(steps) if steps else newest.step

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        # `ResumeInput` registers in `on_train_begin`, called after that of this callback.
        batch, self._resumed_batch = self._resumed_batch, 0
        if batch and not isinstance(self.model.train_function, Explained):
            raise rs.InvalidArgument(
                f"callbacks must have a ResumeInput after ModelBackup, since the model was saved after {batch} batches, "
                "perhaps within an epoch, and Keras would train it with these again: write resume = "
                "ResumeInput(pipeline, folder) and fit(resume.dataset(signature), callbacks=[backup, resume]); for an "
                "input that was never saved, add allow_fresh_input=True"
            )

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self.save_freq != "epoch":
            step = steps_of(self.model.optimizer)
            if step - self._saved >= self.save_freq:
                self._save(step)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if self.save_freq == "epoch":
            self._save(steps_of(self.model.optimizer))

    def on_train_end(self, logs: Any = None) -> None:
        step = steps_of(self.model.optimizer)
        if step != self._saved:
            self._save(step)

    def _save(self, step: int) -> None:
        if not self._is_writer:
            # By now ResumeInput has made sure that no other process writes to this run.
            self._files.remove_unfinished()
            self._is_writer = True
        self._files.save(step, self.model.save_weights)
        self._saved = step
