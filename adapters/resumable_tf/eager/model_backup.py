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
    """Saves the weights of the model and its optimizer, and restores the newest ones.

    It replaces Keras's ``BackupAndRestore``, with the same first arguments. Under Keras 3 that
    callback overwrites its own files, and after a kill in that moment every later start fails. Here
    each save is a new file, which gets its name when it is whole and on the disk. The files stay
    after the training.

    Put it before `ResumeInput` in the list of callbacks. `ResumeInput` restores the input of the
    same step, and lets an interrupted epoch continue at its batch.

    When a ``fit`` begins, the newest sound file is loaded, unless the model has been trained further than
    that. A damaged file is set aside with a warning, and the one before is taken. The end of a training is
    saved too. Without a `ResumeInput`, a model that was saved in the middle of an epoch is refused, since
    Keras would train it with the first batches of that epoch again.

    State: a file ``model-000000001200-DIGEST.weights.h5`` for each save, of the size of the weights and of the
    optimizer's variables, in Keras's own format. A save writes it, reads it once, and waits for the disk.

    Args:
      directory: a local folder.
      save_freq: ``"epoch"``, or a number of batches.
      max_to_keep: how many of the newest files to keep, at least 1. With 1, there is no file to go
        back to if it is damaged later.
      name: the beginning of the names of the files.

    Raises:
      InvalidType: if an argument has the wrong type.
      InvalidArgument: if ``save_freq`` is neither, a number is less than 1, or the name has other characters
        than letters, digits, ``_`` and ``.``.

    During ``fit`` it raises `InvalidArgument` if the model is not built, so that nothing can be loaded into it, or if
    there is no `ResumeInput`,
    `InvalidType` if its optimizer is a legacy one of Keras 2, `NoValidCheckpoint` if all files are damaged, and
    ``OSError`` if one cannot be written.
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
        # The step that was saved or restored last, and whether this `fit` has saved.
        self._saved = 0
        self._resumed_batch = 0  # how many batches of its first epoch were trained before
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
        # An optimizer that scales the loss would have its variables twice.
        if not getattr(self.model.optimizer, "built", False):
            self.model.optimizer.build(self.model.trainable_variables)
        self.model.load_weights(str(newest.path))
        self._saved = newest.step
        steps = self.params.get("steps")
        begin_at(self.model, divmod(newest.step, int(steps)) if steps else None)
        # Where the steps of an epoch are not known, any step may lie within one.
        self._resumed_batch = newest.step % int(steps) if steps else newest.step

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        # `ResumeInput` takes its place in `on_train_begin`, which comes after that of this callback.
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
