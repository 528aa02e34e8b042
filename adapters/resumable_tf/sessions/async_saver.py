"""A session hook that saves the inputs and then the model of a step in a thread."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Final
from weakref import WeakValueDictionary

import tensorflow as tf
import tensorflow.compat.v1 as tf1

import resumable as rs
from resumable.checkpoint.opening import check_listeners
from resumable.core.arguments import check_bool, check_type
from resumable.errors import shorten

from ..policy import policy_of
from .following import ModelSaver
from .hooks import SessionListener
from .inputs import INPUT_HOOKS, MODEL_HOOKS, Inputs, SavedInput, saved_inputs
from .settings import Task, check_savers, check_trains, check_when
from .snapshot import ModelSnapshot

__all__ = ["AsyncCheckpointSaverHook"]

_writing: Final[WeakValueDictionary[str, AsyncCheckpointSaverHook]] = WeakValueDictionary()
"""The last hook to write to a path in this process."""


class AsyncCheckpointSaverHook(tf1.train.CheckpointSaverHook):  # type: ignore[misc]
    """Saves the model in a thread while the training goes on, and the inputs of the same step with it.

    Name, arguments and files are those of a hook of TensorFlow up to version 2.15. The Saver
    removes old checkpoints. At the step in a checkpoint's name, the variables are copied and the
    positions of the inputs are taken. A thread then writes the inputs, and finally the model. So
    the newest model has its inputs, whenever the process is killed. If the graph has no input of
    `make_initializable_iterator`, only the model is saved.

    The inputs are restored when a session is created, as by `CheckpointInputPipelineHook`. If the
    graph has a `CheckpointInputPipelineHook`, its arguments decide on names, folder, policy and
    listeners of the inputs.

    At most one checkpoint is written at a time. The next save waits, and no save is left out. An
    error of the thread is raised once: before the next step, at the next save or at the end.
    Listeners are called in the thread that trains: ``before_save`` at the step, before the
    variables are copied, ``after_save`` once the files are complete. If ``after_save`` returns
    True, the training stops. The end of the training waits for the last save.

    State: the files of the Saver, and for each input the file of `CheckpointInputPipelineHook`.
    From the step to the end of the write, memory holds a copy of the variables.

    Args:
      checkpoint_dir: directory or URL of the checkpoints.
      save_secs: seconds between saves.
      save_steps: number of steps between saves.
      saver: the saver of the model, if not in the collection ``tf.GraphKeys.SAVERS``.
      checkpoint_basename: the beginning of the names of the model's files.
      scaffold: the ``Scaffold`` with the saver of the model.
      listeners: `CheckpointSaverListener` objects, called at the saves.
      external_state_policy: as in `CheckpointInputPipelineHook`; by default ``"fail"``.
      allow_fresh_input: as in `CheckpointInputPipelineHook`.

    Raises:
      ValueError: if neither or both of ``save_steps`` and ``save_secs`` are given, if both ``saver``
        and ``scaffold`` are given, or if the policy is another word.
      InvalidType: if an argument has the wrong type.
      InvalidArgument: if a number is not above 0.

    When a session is created, the hook raises `InvalidArgument` if the Saver saves an object that
    cannot be copied, such as an iterator of tf.data, or if two of these hooks would write the same
    input, and the errors of `CheckpointInputPipelineHook`. During the training the hook raises
    `SaveError` if a save fails.
    """

    def __init__(
        self,
        checkpoint_dir: str | os.PathLike[str],
        save_secs: float | None = None,
        save_steps: int | None = None,
        saver: tf1.train.Saver | None = None,
        checkpoint_basename: str = "model.ckpt",
        scaffold: tf1.train.Scaffold | None = None,
        listeners: Iterable[tf1.train.CheckpointSaverListener] | None = None,
        *,
        external_state_policy: str | None = None,
        allow_fresh_input: bool = False,
    ) -> None:
        if not isinstance(checkpoint_dir, (str, os.PathLike)):
            raise rs.InvalidType(f"checkpoint_dir must be a path, got {shorten(checkpoint_dir)}")
        check_type("checkpoint_basename", checkpoint_basename, str, "a string")
        check_savers(saver, scaffold)
        check_when(save_steps, save_secs)
        checked = check_listeners(listeners or (), tf1.train.CheckpointSaverListener)
        super().__init__(
            os.fspath(checkpoint_dir),
            save_secs,
            save_steps,
            saver,
            checkpoint_basename,
            scaffold,
            list(checked),  # an Estimator appends listeners
        )
        self._policy = policy_of(external_state_policy)
        self._allow_fresh = check_bool("allow_fresh_input", allow_fresh_input)
        self._own_inputs: list[SavedInput] = []
        self._input_listeners: list[tf1.train.CheckpointSaverListener] = []
        self._saving: Inputs | None = None
        self._model: ModelSnapshot | None = None
        self._followed: ModelSaver | None = None
        self._is_created = False
        self._run_context: Any = None
        self.session: Any = None

    def begin(self) -> None:
        check_trains(self)
        super().begin()
        task = Task(self._checkpoint_dir)
        for other in tf1.get_collection(MODEL_HOOKS):
            if other is not self and other._save_path == self._save_path:
                raise rs.InvalidArgument(
                    f"there must be one AsyncCheckpointSaverHook for a path, got two for {self._save_path}"
                )
        self._own_inputs = saved_inputs(task, None, None, self._policy, self._allow_fresh)
        tf1.add_to_collection(MODEL_HOOKS, self)
        self._saving = self._run_context = self.session = None
        self._is_created = False

    def after_create_session(self, session: Any, coord: Any) -> None:
        step = int(session.run(self._global_step_tensor))
        self._give_way()
        if self._saving is None:
            self._saving = self._prepared(session.graph)
        _writing[self._save_path] = self
        # Later checkpoints are kept until a model to continue from is saved.
        self._saving.restore(session, step, supersede=False)
        self.session, self._is_created = session, False
        super().after_create_session(session, coord)
        self._is_created = True
        if self._saving.checkpoints.has_after(step):
            self._saving.checkpoints.collect(wait_for_it=True)
            self._saving.checkpoints.supersede_after(step)

    def before_run(self, run_context: Any) -> Any:
        self._run_context = run_context
        self._collect()
        return super().before_run(run_context)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        super().after_run(run_context, run_values)
        self._collect()

    def end(self, session: Any) -> None:
        self.session = session
        step = int(session.run(self._global_step_tensor))
        self._save(session, step)
        self._collect(wait_for_it=True)
        for listener in [*self._listeners, *self._input_listeners]:
            listener.end(session, step)
        self._close()

    def _prepared(self, graph: tf.Graph) -> Inputs:
        """Prepare to save the model and the inputs of ``graph``."""
        saver = self._get_saver()
        hooks = graph.get_collection(INPUT_HOOKS)
        inputs = self._inputs_in(graph)
        self._check_alone_with(inputs, graph)
        if not hooks:
            for each in inputs:
                each.check()
        self._input_listeners = [listener for hook in hooks for listener in hook.listeners]
        self._model = ModelSnapshot(saver, graph)
        self._followed = ModelSaver(saver, self._before_other, lambda steps: None)
        # The hook itself calls `before_save` of `listeners`, before the variables are copied.
        own = [SessionListener(self, each, calls_before=False) for each in self._listeners]
        wrapped = [SessionListener(self, listener) for listener in self._input_listeners]
        return Inputs(
            inputs,
            asynchronous=True,
            listeners=[*own, *wrapped],
            retain=self._retain,
            after=self._write,
        )

    def _inputs_in(self, graph: tf.Graph) -> list[SavedInput]:
        """The inputs of ``graph``, as given to input hooks, if any."""
        hooks = graph.get_collection(INPUT_HOOKS)
        return [each for hook in hooks for each in hook.inputs] if hooks else self._own_inputs

    def _check_alone_with(self, inputs: list[SavedInput], graph: tf.Graph) -> None:
        """Make sure that no other hook of ``graph`` writes the files of ``inputs``."""
        own = {repr(each.files.store) for each in inputs}
        for other in graph.get_collection(MODEL_HOOKS):
            shared = own & {repr(each.files.store) for each in other._inputs_in(graph)}
            if other is not self and shared:
                raise rs.InvalidArgument(
                    "one AsyncCheckpointSaverHook must save an input, got two, for "
                    f"{other._save_path} and {self._save_path}, which would both write "
                    f"{', '.join(sorted(shared))}; leave one of them out"
                )

    def _save(self, session: Any, step: Any) -> bool:
        """Take model and inputs at ``step``, for the thread to write; returns whether to stop."""
        assert self._saving is not None
        assert self._model is not None
        checkpoints = self._saving.checkpoints
        step = int(step)
        if self._is_created and checkpoints.step == step:
            return False
        stopped = checkpoints.collect(wait_for_it=True)
        for listener in self._listeners:
            listener.before_save(session, step)
        self._model.take(session)
        self._saving.take(session)
        checkpoints.save(step, again=True)
        return stopped

    def _write(self, step: int) -> None:
        """Write the model, in the thread, when the inputs are stored."""
        assert self._model is not None
        self._model.write(self._save_path, step)
        self._summary_writer.add_session_log(
            tf1.SessionLog(status=tf1.SessionLog.CHECKPOINT, checkpoint_path=self._save_path), step
        )

    def _retain(self, step: int, saved_at: float) -> str | None:
        """Remove the inputs of the models that the Saver has removed."""
        assert self._saving is not None
        return self._saving.keep_of_models(self._checkpoint_dir)

    def _collect(self, *, wait_for_it: bool = False) -> None:
        assert self._saving is not None
        if self._saving.checkpoints.collect(wait_for_it=wait_for_it) and self._run_context:
            self._run_context.request_stop()

    def _before_other(self, session: Any) -> None:
        """Save before other code uses the same Saver: a Saver must not be used twice at once."""
        if session is self.session:
            self._save(session, session.run(self._global_step_tensor))
            self._collect(wait_for_it=True)

    def _give_way(self) -> None:
        """Let an aborted or failed training finish its save."""
        before = _writing.pop(self._save_path, None)
        if before is not None and before._saving is not None:
            try:
                before._saving.checkpoints.collect(wait_for_it=True)
            finally:
                if before is not self:
                    before._close()

    def _close(self) -> None:
        assert self._saving is not None
        assert self._model is not None
        self._saving.checkpoints.close()
        self._model.close()
        if self._followed is not None:
            self._followed.release()
        self._saving = self._model = self._followed = None
