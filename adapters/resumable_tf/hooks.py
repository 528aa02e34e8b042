"""Session hooks that save and restore the input at the steps of the model."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Any, ClassVar

import tensorflow as tf
import tensorflow.compat.v1 as tf1

import resumable as rs
from resumable.checkpoint.opening import as_store, check_listeners, check_pipeline
from resumable.core.arguments import check_choice
from resumable.core.external_source import POLICIES
from resumable.state.value import State

from .checkpoints import InputCheckpoints
from .dataset import ResumableIterator, claim_store, only_iterator_of
from .following import ModelSaver, changed_since, steps_in
from .policy import check_policy
from .task import task_of

__all__ = ["AsyncCheckpointInputPipelineHook", "CheckpointInputPipelineHook"]


class CheckpointInputPipelineHook(tf1.train.SessionRunHook):  # type: ignore[misc]
    """Checkpoints the position of ``pipeline``, so that training resumes with the next item.

    It is `tf.data.experimental.CheckpointInputPipelineHook` for the data set of `make_dataset`. A
    checkpoint is saved at the start, just before each save of the model, and at the end. Its step is the
    global step of the model. A session restores the checkpoint of exactly its step, also a session that
    replaces an aborted one.

    The hook follows the `Saver` of the model, whatever code calls it, in the thread that trains. Only
    where no code saves the model, a timer of the hook decides, which goes on from the restored step.

    State: a file of some 200 bytes for each checkpoint, ``input-000000001200.ckpt``, without ``.meta``
    and without a ``GraphDef``. `resumable.Checkpointer` can read it too. The file is removed after the
    model's checkpoint of the same step. A save takes the state and writes the file, with an fsync. A
    resume reads one file, and reads again from the source what `resumable.consumed.ConsumedStates` says.

    Args:
      estimator_or_dir: an Estimator, for its ``model_dir`` and ``config``; or a directory or URL.
      pipeline: the one of `make_dataset`.
      save_steps: for the timer: number of steps between saves; by default that of the Estimator.
      save_secs: for the timer: seconds between saves; by default those of the Estimator.
      saver: the saver of the model, if it is not the one in the collection ``tf.GraphKeys.SAVERS``.
      scaffold: the ``Scaffold`` with the saver of the model.
      listeners: `CheckpointSaverListener` objects, called at the saves of the input. If ``after_save`` of
        one returns True, the training stops.
      external_state_policy: what to do about a source that can only be read once: ``"fail"``, ``"warn"``
        or ``"ignore"``. The policy of the source itself comes first, unless that is ``"fail"``.
      name: of the input, if a graph has several; by default ``"input"``, followed by type and number of
        the task if an Estimator has several workers.

    Raises:
      ValueError: if neither or both of ``save_steps`` and ``save_secs`` are given, if both ``saver``
        and ``scaffold`` are given, or if the policy is another word.
      InvalidType: if an argument has the wrong type.
      ExternalStateError: if the pipeline cannot be saved under the policy ``"fail"``.

    During the training it raises `SaveError` if a save fails. When a session is created it raises
    `NoValidCheckpoint` if there is no checkpoint of the input for the step of the model, `StateMismatch`
    if that checkpoint belongs to another pipeline, and `InvalidArgument` if the model was saved by an
    unknown Saver.
    """

    asynchronous: ClassVar[bool] = False

    def __init__(
        self,
        estimator_or_dir: Any,
        pipeline: rs.Pipeline[Any],
        *,
        save_steps: int | None = None,
        save_secs: float | None = None,
        saver: tf1.train.Saver | None = None,
        scaffold: tf1.train.Scaffold | None = None,
        listeners: Iterable[tf1.train.CheckpointSaverListener] = (),
        external_state_policy: str | None = "fail",
        name: str | None = None,
    ) -> None:
        if saver is not None and scaffold is not None:
            raise rs.InvalidArgument("there must be one of saver and scaffold, got both")
        check_pipeline(pipeline)
        policy = check_choice("external_state_policy", external_state_policy or "fail", POLICIES)
        check_policy(pipeline, policy)
        self._task = task = task_of(estimator_or_dir)
        if save_steps is None and save_secs is None:
            save_steps, save_secs = task.save_steps, task.save_secs
        self._timer = tf1.train.SecondOrStepTimer(save_secs, save_steps)
        self._pipeline = pipeline
        self._model_saver = saver
        self._scaffold = scaffold
        self._listeners = check_listeners(listeners, tf1.train.CheckpointSaverListener)
        self._checkpoints = InputCheckpoints(
            as_store(task.folder, task.name if name is None else name),
            self._get_state,
            type(self).asynchronous,
            [_Told(self, listener) for listener in self._listeners],
            self._retain,
        )
        self._restored = 0
        self._iterator: ResumableIterator | None = None
        self._global_step: Any = None
        self._followed: ModelSaver | None = None
        self._model_is_saved = False
        self._began = 0.0
        self._number = 0
        self._thread = 0
        self._failure: Exception | None = None
        self._run_context: Any = None
        self.session: Any = None

    def begin(self) -> None:
        self._began = time.time()
        self._global_step = tf1.train.get_global_step()
        if self._global_step is None:
            raise RuntimeError(
                f"Global step should be created to use {type(self).__name__}; call "
                "tf.compat.v1.train.get_or_create_global_step()"
            )
        self._iterator = only_iterator_of(self._pipeline)
        self._iterator.feed.is_saved = True
        claim_store(repr(self._checkpoints.store))
        self._model_is_saved = False
        self.session = self._run_context = self._failure = None
        for listener in self._listeners:
            listener.begin()

    def after_create_session(self, session: Any, coord: Any) -> None:
        assert self._iterator is not None
        step = int(session.run(self._global_step))
        # A task that is not the chief saves at its own steps, and they are not the model's.
        found = self._checkpoints.restore(step, exactly=self._task.is_chief)
        # In this order, as the iterator begins at the position of the feed.
        self._iterator.feed.move_to(None if found is None else found.state)
        session.run(self._iterator.initializer)
        self.session, self._thread = session, threading.get_ident()
        self._restored = step
        self._timer.update_last_triggered_step(step)
        self._follow(session.graph)
        self._model_is_saved |= self._was_just_saved(step)
        self._save()

    def before_run(self, run_context: Any) -> None:
        self._run_context = run_context
        self._thread = threading.get_ident()
        self._stop_if(self._checkpoints.collect())
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if not self._model_is_saved:
            step = int(run_context.session.run(self._global_step))
            if self._timer.should_trigger_for_step(step):
                self._timer.update_last_triggered_step(step)
                self._save()
        self._stop_if(self._checkpoints.collect())

    def end(self, session: Any) -> None:
        self.session = session
        step = self._save()
        self._checkpoints.collect(wait_for_it=True)
        for listener in self._listeners:
            listener.end(session, step)
        self._checkpoints.close()
        if self._followed is not None:
            self._followed.release()
            self._followed = None

    def _get_state(self) -> State:
        assert self._iterator is not None
        return self._iterator.feed.state_after(self._number)

    def _save(self) -> int:
        """Save the input at the current step of the session, and return that step."""
        assert self._iterator is not None
        step, number = self.session.run([self._global_step, self._iterator.consumed])
        self._number = int(number)
        self._checkpoints.save(int(step))
        return int(step)

    def _stop_if(self, asked: bool) -> None:
        if asked and self._run_context is not None:
            self._run_context.request_stop()

    def _follow(self, graph: tf.Graph) -> None:
        """Follow the saver of the model, if it has one."""
        savers = graph.get_collection(tf1.GraphKeys.SAVERS)
        saver = self._model_saver
        if saver is None:
            saver = self._scaffold.saver if self._scaffold is not None else (savers or [None])[0]
        if self._followed is not None:
            if self._followed.saver is saver:
                return
            self._followed.release()
        self._followed = None
        if saver is not None and self._task.is_chief:
            self._followed = ModelSaver(saver, self._before_model, self._after_model)

    def _was_just_saved(self, step: int) -> bool:
        """Whether the model was saved since this hook began, as when a session was created.

        Raises:
          InvalidArgument: if that was done by another saver than the one that is followed.
        """
        path = tf.train.latest_checkpoint(str(self._task.folder))
        if path is None or not path.endswith(f"-{step}") or not self._task.is_chief:
            return False
        if not changed_since(f"{path}.index", self._began):
            return False
        if self._followed is None or not self._followed.may_have_saved(path):
            raise rs.InvalidArgument(
                f"the model was saved as {path} by a Saver that is not known, so its input could not "
                "follow it; add it to the collection tf.compat.v1.GraphKeys.SAVERS, or pass saver or "
                "scaffold to the hook"
            )
        return True

    def _retain(self, step: int, saved_at: float) -> str | None:
        """Remove old checkpoints where the saver of the model does not say which to keep."""
        if self._model_is_saved or self._task.kept is None:
            return None
        try:
            # Somebody may save the model without our seeing it.
            self._checkpoints.keep_only(
                self._models_in_folder() | {self._restored}, self._task.kept
            )
        except (OSError, tf.errors.OpError) as error:
            return f"old checkpoints could not be removed: {error}"
        return None

    def _models_in_folder(self) -> set[int]:
        files = tf.io.gfile.listdir(str(self._task.folder))
        return steps_in(name for name in files if name.endswith(".index"))

    def _before_model(self, session: Any) -> None:
        self._model_is_saved = True
        # One that is just being created holds what was restored; its input is not started yet.
        if session is not self.session:
            return
        if threading.get_ident() != self._thread:
            self._failure = rs.InvalidArgument(
                "the model must be saved in the thread that trains it, got a save in another one: "
                "the step and the input go on meanwhile; use a CheckpointSaverHook"
            )
            raise self._failure
        self._save()
        self._stop_if(self._checkpoints.collect())

    def _after_model(self, steps: set[int]) -> None:
        self._stop_if(self._checkpoints.collect(wait_for_it=True))
        self._checkpoints.keep_only(steps | self._models_in_folder())


class AsyncCheckpointInputPipelineHook(CheckpointInputPipelineHook):
    """The same hook with a thread that writes; the state is that of the step it is labelled with.

    The thread writes while the model is being saved, and is waited for at the end of that. Without a saver
    of the model it writes while the training goes on, one checkpoint at a time. A failure is raised once:
    at that end, before the next run of the session, or at the end of the training. Listeners are called
    when a save is done. If a write takes longer than that of the model and then fails or is killed, the
    last checkpoint of the model has no input; a resume then says so.
    """

    asynchronous = True


class _Told(rs.CheckpointListener):
    """Calls the methods of a listener of TensorFlow."""

    def __init__(
        self, hook: CheckpointInputPipelineHook, listener: tf1.train.CheckpointSaverListener
    ) -> None:
        self._hook = hook
        self._listener = listener

    def before_save(self, step: int) -> None:
        self._listener.before_save(self._hook.session, step)

    def after_save(self, step: int, path: str) -> bool:
        return bool(self._listener.after_save(self._hook.session, step))
