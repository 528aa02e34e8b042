"""Keras's ``fit``, killed mid-epoch and continued with the next batch."""

# A callback of Keras is called for each trained batch, so trained batches are counted; tf.data may
# have produced more. The iterations of the optimizer also count trained batches, except in a
# loss-scaling optimizer of Keras 3; this has a second, otherwise unused counter, saved with the
# optimizer.
#
# The step of an input's checkpoint is the number of the optimizer's iterations, saved in every
# checkpoint of the model. So any code may save and restore the model, at any batch: the checkpoint
# of the input is found by the number, and the batches since then are skipped, one for each
# iteration.
#
# Keras 2.15 resumes an epoch at the right batch. Keras 3 counts the epoch from the start again, so
# the epoch would be too long. Then `stop_training` ends the epoch at the right batch, and is reset
# before the next epoch.

from __future__ import annotations

import os
import warnings
import weakref
from typing import Any, Final, Literal

import tensorflow as tf

import resumable as rs
from resumable.checkpoint.opening import as_store
from resumable.core.arguments import check_bool, check_int
from resumable.core.ended import warn_of_ended_run
from resumable.state.value import State

from ..checkpoints import InputCheckpoints
from ..feed import Feed
from ..numbered import numbered, without_number
from ..policy import check_policy, policy_of, without_policy
from ..tasks import TaskFiles
from .batches import TrainedBatches
from .keras_progress import Explained, correct, is_continued, steps_of, unused_counter

__all__ = ["ResumeInput"]

INPUT: Final = "input"
"""The key of the only input in the saved states."""


class ResumeInput(tf.keras.callbacks.Callback):  # type: ignore[misc]
    """Feeds ``fit`` from ``pipeline``, saves the position, and restores it at the model's step.

    Pass ``resume.dataset(signature)`` to ``fit`` as data, and this object as a callback after
    callbacks that save the model, such as `ModelBackup` and `ModelCheckpoint`. The model must be
    restored with the optimizer, as ``optimizer.iterations`` is the step. Epoch 0 of ``fit`` begins
    with the first batch. Validation data is another data set and is not affected.

    State: a file of some 200 bytes for each save, readable by `resumable.Checkpointer` too. A
    resume skips the batches between the last save of the input and the save of the model. Skipping
    is O(1) for a random-access pipeline; a stream is read again.

    Args:
      pipeline: an endless pipeline of batches: use ``.repeat()``, and pass ``steps_per_epoch`` to
        ``fit``. Keras then counts the epochs.
      store: a directory path, a URL or a `Store`.
      save_freq: ``"epoch"``, or a number of batches; may differ from the model's frequency.
      name: of the input, if several share a directory.
      retention: which checkpoints to keep; all by default. A model older than the oldest checkpoint
        cannot be resumed.
      allow_fresh_input: whether a trained model without a checkpoint of the input may begin with
        the first batch.
      external_state_policy: as in `CheckpointInputPipelineHook`; by default ``"fail"``.

    Raises:
      InvalidType: if an argument has the wrong type, or ``save_freq`` is another word.
      InvalidArgument: if the pipeline ends, ``save_freq`` is less than 1, or the policy is another
        word.
      ExternalStateError: if the pipeline has a source that can only be read once, or a function
        that draws random numbers not restored by any state, and the policy is ``"fail"``.

    During ``fit`` the callback raises `InvalidArgument` if the iterations do not count the batches,
    `NoValidCheckpoint` if every checkpoint is later than the model, or a trained model has no
    checkpoint, `StateMismatch` if the checkpoint belongs to another pipeline, and `SaveError` if a
    save fails.
    """

    def __init__(
        self,
        pipeline: rs.Pipeline[Any],
        store: str | os.PathLike[str] | rs.Store,
        *,
        save_freq: Literal["epoch"] | int = "epoch",
        name: str = "input",
        retention: rs.Retention | None = None,
        allow_fresh_input: bool = False,
        external_state_policy: str | None = None,
    ) -> None:
        super().__init__()
        check_bool("allow_fresh_input", allow_fresh_input)
        self._feed = Feed(pipeline)
        if not self._feed.is_endless:
            raise rs.InvalidArgument(
                f"pipeline must not end, got {pipeline!r}; add .repeat() and pass steps_per_epoch "
                "to fit"
            )
        check_policy(pipeline, policy_of(external_state_policy))
        with without_policy(pipeline).start() as iterator:
            iterator.get_state()  # an unsavable state raises before the first batch
        if save_freq != "epoch":
            check_int("save_freq", save_freq, minimum=1)
        self.save_freq = save_freq
        self._checkpoints = InputCheckpoints(
            {INPUT: TaskFiles(as_store(store, name), self._feed, may_be_fresh=allow_fresh_input)},
            lambda: {INPUT: self._get_state()},
            retention=retention,
        )
        # The optimizer's iterations minus the trained batches; None before the restore of a fit.
        self._offset: int | None = None
        self._is_checked = False
        self._steps = 0
        # Batches trained, counted from the very start of the input.
        self._trained = 0
        self._since_save = 0
        # The steps of the current epoch so far, and the step at which to end the epoch.
        self._seen: int | None = None
        self._last_step: int | None = None
        self._stop: Final = object()  # a true value to recognise as ours
        # For the current batch, the value of the counter used if iterations do not count batches.
        self._expected: int | None = None
        self._use = _Use()

    def dataset(self, output_signature: Any) -> tf.data.Dataset:
        """The data set for ``fit``; each iterator begins with the next batch to be trained.

        Only ``map``, ``prefetch``, ``with_options`` and ``apply`` may follow, as ``fit`` must train
        exactly these batches. Other methods raise `InvalidArgument`.

        Args:
          output_signature: `tf.TypeSpec` objects in the structure of one batch.
        """

        def begin() -> None:
            self._feed.move_to(self._get_state())

        batches, _ = numbered(self._feed, output_signature, begin, self._use.watch)
        return TrainedBatches(batches.map(without_number))

    def set_model(self, model: Any) -> None:
        super().set_model(model)
        self._use.begin()

    def on_train_begin(self, logs: Any = None) -> None:
        steps = self.params.get("steps")
        if steps is None:
            raise rs.InvalidArgument(
                "fit must be given its steps_per_epoch, since the pipeline has no end, got None"
            )
        self._steps = int(steps)
        self._is_checked = False
        self._begin_to_count()
        function = getattr(self.model, "train_function", None)
        if function is not None and not isinstance(function, Explained):
            self.model.train_function = Explained(function, self._feed.failures)
        if is_continued(self.model):
            self._restore_if_moved()
            correct(self.model, self._trained, self._steps)
            if self._epoch >= self.params["epochs"]:
                warn_of_ended_run(
                    self._trained,
                    "use another folder for model and input",
                    go_on="raise the epochs of fit",
                )

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if not self._is_checked:
            # By now the model is restored, and no batch was taken yet.
            self._restore_if_moved()
            if is_continued(self.model) and epoch != self._epoch:
                raise rs.InvalidArgument(
                    "ResumeInput must come after ModelBackup or BackupAndRestore in the list of "
                    f"callbacks, got it before: Keras would begin epoch {epoch} anew, and the input "
                    f"is in epoch {self._epoch}"
                )
        self._seen = self._last_step = None

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if self._seen is None:
            self._seen = batch
            self._last_step = batch + self._steps - self._trained % self._steps
        if (counter := unused_counter(self.model.optimizer)) is not None:
            # Now, as earlier callbacks save the model when the batch is trained.
            self._expected = self._step + int(self.model.steps_per_execution)
            counter.assign(self._expected)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        assert self._seen is not None
        if batch >= self._steps:
            raise rs.InvalidArgument(
                "steps_per_epoch must be a multiple of steps_per_execution, got "
                f"steps_per_epoch={self._steps} and an execution up to step {batch + 1}"
            )
        trained = batch + 1 - self._seen
        self._seen += trained
        self._trained += trained
        self._since_save += trained
        self._expected = None
        if not self._is_checked:
            self._check_iterations()
            self._is_checked = True
        if self.save_freq != "epoch" and self._since_save >= self.save_freq:
            self._save()
        ends_early = self._seen == self._last_step and self._seen < self._steps
        if ends_early and not self.model.stop_training:
            self.model.stop_training = self._stop

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if self.model.stop_training is self._stop:
            self.model.stop_training = False
        if self.save_freq == "epoch":
            self._save()

    def on_train_end(self, logs: Any = None) -> None:
        # Another process may resume from here; the next `fit` of this process begins with a
        # restore.
        self._checkpoints.close()
        self._offset = None
        self._use.end()
        if isinstance(self.model.train_function, Explained):
            self.model.train_function = self.model.train_function.function

    def _get_state(self) -> State:
        return self._feed.state_after(self._trained)

    @property
    def _epoch(self) -> int:
        return self._trained // self._steps

    def _save(self) -> None:
        self._check_iterations()
        self._since_save = 0
        self._checkpoints.save(self._step)

    def _check_iterations(self) -> None:
        """Make sure that the optimizer's iterations count the batches."""
        assert self._offset is not None
        iterations = self._step - self._offset
        if iterations != self._trained:
            raise rs.InvalidArgument(
                "the optimizer's iterations must grow by one with each batch, by which the input is "
                f"found again, got {iterations} iterations for {self._trained} batches; does "
                "train_step use another optimizer?"
            )

    def _restore_if_moved(self) -> None:
        """Move the input to the step of the model, unless already there."""
        step = self._step
        if self._offset is not None and step - self._offset == self._trained:
            return
        found = self._checkpoints.restore(step, exactly=False)
        self._feed.move_to(None if found is None else found.state[INPUT])
        self._trained = self._feed.origin
        if found is not None and found.step < step:
            self._trained += step - found.step
            self._feed.move_to(self._get_state())
        self._offset = step - self._trained
        self._save()

    def _begin_to_count(self) -> None:
        """Count the batches where the optimizer's iterations do not."""
        counter = unused_counter(self.model.optimizer)
        if counter is None:
            return
        if self._expected is not None and int(counter.numpy()) == self._expected:
            # The batch in work was interrupted.
            counter.assign(self._expected - int(self.model.steps_per_execution))
        self._expected = None
        # A model trained without this callback has counted only iterations.
        counter.assign(self._step)

    @property
    def _step(self) -> int:
        """The step of the model."""
        return steps_of(self.model.optimizer)


class _Use:
    """Whether the callback takes part in the trainings with the data set."""

    def __init__(self) -> None:
        self._in_training = False
        self._newest: dict[str, bool] = {}

    def begin(self) -> None:
        """Note that Keras calls the callback; the data set may be iterated already."""
        self._in_training = self._newest["called"] = True

    def end(self) -> None:
        """Note that the training is over."""
        self._in_training = False

    def watch(self, batches: object) -> None:
        """Warn when ``batches``, an iterator, is over if the callback was not called."""
        self._newest = {"called": self._in_training}
        weakref.finalize(batches, _warn_if_left_out, self._newest)


def _warn_if_left_out(noted: dict[str, bool]) -> None:
    if not noted["called"]:
        warnings.warn(
            "the data set of a ResumeInput was iterated, and that was not among the callbacks: "
            "nothing of the input was saved; pass it to fit in callbacks",
            RuntimeWarning,
            stacklevel=2,
        )
