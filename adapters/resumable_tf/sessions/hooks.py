"""Session hooks that save and restore the inputs at the steps of the model."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Any, ClassVar

import tensorflow as tf
import tensorflow.compat.v1 as tf1

import resumable as rs
from resumable.checkpoint.names import check_name
from resumable.checkpoint.opening import check_listeners, check_pipeline
from resumable.core.arguments import check_bool

from ..policy import check_policy, policy_of
from .dataset import claim_store
from .following import ModelSaver
from .inputs import INPUT_HOOKS, MODEL_HOOKS, Inputs, SavedInput, saved_inputs
from .model_folder import changed_since, models_in
from .settings import check_savers, check_trains, check_when, task_of

__all__ = ["AsyncCheckpointInputPipelineHook", "CheckpointInputPipelineHook", "SessionListener"]


class CheckpointInputPipelineHook(tf1.train.SessionRunHook):  # type: ignore[misc]
    """Checkpoints the position of the inputs, so that training resumes with the next item.

    Works like `tf.data.experimental.CheckpointInputPipelineHook`, for all inputs of the graph made
    by `make_initializable_iterator`. A checkpoint is saved at the start, just before each save of
    the model, and at the end, under the global step of the model. A session restores the
    checkpoints of exactly its step, also a session that replaces an aborted session.

    The hook follows the `Saver` of the model, whatever code calls it, in the thread that trains.
    Only if no code saves the model, the hook's own timer decides, continuing from the restored
    step. If the graph has an `AsyncCheckpointSaverHook`, this hook leaves the inputs to the
    `AsyncCheckpointSaverHook`.

    If a job continues with another number of tasks, a task may have no file, or a file without all
    needed partitions. The task then joins the states of all tasks at the step of the model.

    State: a file of some 200 bytes for each checkpoint, ``input-000000001200.ckpt``, without
    ``.meta`` and without a ``GraphDef``. `resumable.Checkpointer` can read it too. The file is
    removed after the model's checkpoint of the same step. A save takes the state and writes the
    file, with an fsync. A resume reads one file, and from the source the items given in
    `resumable.consumed.ConsumedStates`.

    Args:
      estimator: an Estimator, for its ``model_dir`` and ``config``; a RunConfig with a ``model_dir``; or a
        directory or URL.
      external_state_policy: for a source that can only be read once, and a function that draws
        random numbers not restored by any state: ``"fail"`` (also None), ``"warn"`` or
        ``"ignore"``. The policy of the source itself comes first, unless ``"fail"``.
      pipeline: the pipeline of the only input to save; by default all inputs of the graph.
      save_steps: for the timer: number of steps between saves; by default that of the RunConfig.
      save_secs: for the timer: seconds between saves; by default that of the RunConfig.
      saver: the saver of the model, if not in the collection ``tf.GraphKeys.SAVERS``.
      scaffold: the ``Scaffold`` with the saver of the model.
      listeners: `CheckpointSaverListener` objects, called at the saves of the inputs. If an
        ``after_save`` returns True, the training stops.
      name: of the input; by default ``"input"``, followed by type and number of the task if an
        Estimator has several workers. If all inputs of a graph are saved, the second gets the name
        with ``_1``, the third with ``_2``, in the order of the `make_dataset` calls.
      allow_fresh_input: whether an input without any checkpoint may begin at the start, although
        the model does not. Pass this once, when an old model gets an input.

    Raises:
      ValueError: if neither or both of ``save_steps`` and ``save_secs`` are given, if both ``saver``
        and ``scaffold`` are given, or if the policy is another word.
      InvalidType: if an argument has the wrong type.
      InvalidArgument: if a number is not above 0, or the name has other characters than letters,
        digits, ``_`` and ``.``.
      ExternalStateError: if ``pipeline`` is given, and cannot be saved under the policy ``"fail"``.

    At the beginning of a training the hook raises `InvalidArgument` if the graph has no input of
    `make_initializable_iterator`, and `ExternalStateError` if an input cannot be saved under the
    policy ``"fail"``. When a session is created the hook raises `NoValidCheckpoint` if an input has
    no checkpoint for the step of the model, and `StateMismatch` if the checkpoint belongs to
    another pipeline. During the training the hook raises `SaveError` if a save fails, and
    `InvalidArgument` if the model was saved by an unknown Saver.
    """

    asynchronous: ClassVar[bool] = False

    def __init__(
        self,
        estimator: Any,
        external_state_policy: str | None = None,
        *,
        pipeline: rs.Pipeline[Any] | None = None,
        save_steps: int | None = None,
        save_secs: float | None = None,
        saver: tf1.train.Saver | None = None,
        scaffold: tf1.train.Scaffold | None = None,
        listeners: Iterable[tf1.train.CheckpointSaverListener] | None = None,
        name: str | None = None,
        allow_fresh_input: bool = False,
    ) -> None:
        check_savers(saver, scaffold)
        check_when(save_steps, save_secs)
        self._policy = policy_of(external_state_policy)
        self._pipeline = pipeline
        if pipeline is not None:
            check_policy(check_pipeline(pipeline), self._policy)
        self._name = None if name is None else check_name("name", name)
        self._allow_fresh = check_bool("allow_fresh_input", allow_fresh_input)
        self._task = task = task_of(estimator)
        if save_steps is None and save_secs is None:
            save_steps, save_secs = task.save_steps, task.save_secs
        self._timer = tf1.train.SecondOrStepTimer(save_secs, save_steps)
        self._model_saver = saver
        self._scaffold = scaffold
        self.listeners = check_listeners(listeners or (), tf1.train.CheckpointSaverListener)
        self.inputs: list[SavedInput] = []
        # None while another hook saves these inputs.
        self._saving: Inputs | None = None
        self._restored = 0
        self._global_step: Any = None
        self._followed: ModelSaver | None = None
        self._model_is_saved = False
        self._began = 0.0
        self._has_run = False
        self._thread = 0
        self._failure: Exception | None = None
        self._run_context: Any = None
        self.session: Any = None

    def begin(self) -> None:
        check_trains(self)
        self._began = time.time()
        self._global_step = tf1.train.get_global_step()
        if self._global_step is None:
            raise RuntimeError(
                f"Global step should be created to use {type(self).__name__}; call "
                "tf.compat.v1.train.get_or_create_global_step()"
            )
        self.inputs = saved_inputs(
            self._task, self._pipeline, self._name, self._policy, self._allow_fresh
        )
        if not self.inputs:
            raise rs.InvalidArgument(
                "the graph must have an input of resumable_tf.make_initializable_iterator, got none: "
                "make its data set by resumable_tf.make_dataset"
            )
        for each in self.inputs:
            each.check()
            claim_store(repr(each.files.store))
        tf1.add_to_collection(INPUT_HOOKS, self)
        self._model_is_saved = False
        self._saving = None
        self.session = self._run_context = self._failure = None
        for listener in self.listeners:
            listener.begin()

    def after_create_session(self, session: Any, coord: Any) -> None:
        if session.graph.get_collection(MODEL_HOOKS):
            return
        step = int(session.run(self._global_step))
        if self._saving is None:
            self._saving = Inputs(
                self.inputs,
                asynchronous=type(self).asynchronous,
                listeners=[SessionListener(self, listener) for listener in self.listeners],
                retain=self._retain,
            )
        # A task other than the chief saves at its own steps, not the model's.
        self._saving.restore(session, step, exactly=self._task.is_chief)
        self.session, self._thread, self._has_run = session, threading.get_ident(), False
        self._restored = step
        self._timer.update_last_triggered_step(step)
        self._follow(session.graph)
        path = self._just_saved()
        self._model_is_saved |= path is not None and path.endswith(f"-{step}")
        self._save(self._saving)

    def before_run(self, run_context: Any) -> None:
        if self._saving is None:
            return
        self._run_context = run_context
        self._thread = threading.get_ident()
        if not self._has_run:  # a later hook may have saved when the session was created
            self._just_saved()
            self._has_run = True
        self._stop_if(self._saving.checkpoints.collect())
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if self._saving is None:
            return
        if not self._model_is_saved:
            step = int(run_context.session.run(self._global_step))
            if self._timer.should_trigger_for_step(step):
                self._just_saved()
                self._timer.update_last_triggered_step(step)
                self._save(self._saving)
        self._stop_if(self._saving.checkpoints.collect())

    def end(self, session: Any) -> None:
        if self._saving is None:
            return
        self.session = session
        self._just_saved()
        step = self._save(self._saving)
        self._saving.checkpoints.collect(wait_for_it=True)
        for listener in self.listeners:
            listener.end(session, step)
        self._saving.checkpoints.close()
        if self._followed is not None:
            self._followed.release()
            self._followed = None

    def _save(self, saving: Inputs) -> int:
        """Save the inputs at the current step of the session, and return the step."""
        step = int(self.session.run(self._global_step))
        saving.take(self.session)
        saving.checkpoints.save(step)
        return step

    def _stop_if(self, asked: bool) -> None:
        if asked and self._run_context is not None:
            self._run_context.request_stop()

    def _follow(self, graph: tf.Graph) -> None:
        """Follow the saver of the model, if any."""
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

    def _just_saved(self) -> str | None:
        """The path of the model, if saved since this hook began.

        Raises:
          InvalidArgument: if another saver than the followed one has saved the model.
        """
        path = tf.train.latest_checkpoint(str(self._task.folder))
        if path is None or not self._task.is_chief:
            return None
        if not changed_since(f"{path}.index", self._began):
            return None
        if self._followed is None or not self._followed.may_have_saved(path):
            raise rs.InvalidArgument(
                f"the model was saved as {path} by a Saver that is not known, so its input could not "
                "follow it; add it to the collection tf.compat.v1.GraphKeys.SAVERS, or pass saver or "
                "scaffold to the hook"
            )
        return str(path)

    def _retain(self, step: int, saved_at: float) -> str | None:
        """Remove old checkpoints if the model's saver does not decide on them."""
        if self._model_is_saved or self._task.kept is None or self._saving is None:
            return None
        # Other code may save the model unseen.
        return self._saving.keep_of_models(self._task.folder, {self._restored}, self._task.kept)

    def _before_model(self, session: Any) -> None:
        # A new session is at the restored step; the input has not started.
        self._model_is_saved = True
        if session is not self.session or self._saving is None:
            return
        if threading.get_ident() != self._thread:
            self._failure = rs.InvalidArgument(
                "the model must be saved in the thread that trains it, got a save in another one: "
                "the step and the input go on meanwhile; use a CheckpointSaverHook, or the "
                "AsyncCheckpointSaverHook of resumable_tf"
            )
            raise self._failure
        self._just_saved()
        self._save(self._saving)
        self._stop_if(self._saving.checkpoints.collect())

    def _after_model(self, steps: set[int]) -> None:
        if self._saving is None:
            return
        self._stop_if(self._saving.checkpoints.collect(wait_for_it=True))
        self._saving.checkpoints.keep_only(steps | models_in(self._task.folder))


class AsyncCheckpointInputPipelineHook(CheckpointInputPipelineHook):
    """A `CheckpointInputPipelineHook` that writes the states in a thread.

    The thread writes while the model is being saved; the end of the model's save waits for the
    thread. If the model has no saver, the thread writes during the training, one checkpoint at a
    time. A failure is raised once: at the end of the model's save, before the next run of the
    session, or at the end of the training. Listeners are called when a save is done. If a write
    takes longer than the model's and then fails or is killed, the model's last checkpoint has no
    input; a resume then says so. `AsyncCheckpointSaverHook` avoids this risk, and also writes the
    model during the training.
    """

    asynchronous = True


class SessionListener(rs.CheckpointListener):
    """Calls the methods of a listener of TensorFlow, with the session of ``hook``.

    Args:
      hook: the hook.
      listener: the listener.
      calls_before: whether to call ``before_save`` too.
    """

    def __init__(
        self, hook: Any, listener: tf1.train.CheckpointSaverListener, calls_before: bool = True
    ) -> None:
        self._hook = hook
        self._listener = listener
        self._calls_before = calls_before

    def before_save(self, step: int) -> None:
        if self._calls_before:
            self._listener.before_save(self._hook.session, step)

    def after_save(self, step: int, path: str) -> bool:
        # Only True asks to stop, not another true value, such as a returned path.
        return self._listener.after_save(self._hook.session, step) is True
