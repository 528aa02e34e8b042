"""Training runs in a TF1 session, which say what each step consumed."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as tf1
from resumable_tf import CheckpointInputPipelineHook, make_dataset, make_initializable_iterator

import resumable as rs

SCALAR = tf.TensorSpec((), tf.int64)
UNOPTIMIZED = tf1.ConfigProto()
"""How a session takes a graph as it is: for what runs many of one kind, each for a few steps."""
UNOPTIMIZED.graph_options.rewrite_options.disable_meta_optimizer = True
UNOPTIMIZED.graph_options.optimizer_options.opt_level = tf1.OptimizerOptions.L0

Steps = list[tuple[int, Any]]
"""Of each training step its global step and what it consumed."""


class Crash(Exception):
    """What ends a run in these tests."""


class Raise(tf1.train.SessionRunHook):  # type: ignore[misc]
    """Raises after the run that leads to ``step``, once."""

    def __init__(self, step: int, error: Exception) -> None:
        self._step = step
        self._error: Exception | None = error

    def begin(self) -> None:
        self._global_step = tf1.train.get_global_step()

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if run_context.session.run(self._global_step) >= self._step and self._error is not None:
            error, self._error = self._error, None
            raise error


class Told(tf1.train.CheckpointSaverListener):  # type: ignore[misc]
    """Notes what it is told, with its name before it, and may stop the training."""

    def __init__(self, events: list[str], name: str = "", stop_at: int | None = None) -> None:
        self._events = events
        self._name = name
        self._stop_at = stop_at

    def begin(self) -> None:
        self._note("begin")

    def before_save(self, session: Any, global_step_value: int) -> None:
        self._note(f"before_save {global_step_value}")

    def after_save(self, session: Any, global_step_value: int) -> bool:
        self._note(f"after_save {global_step_value}")
        return self._stop_at is not None and global_step_value >= self._stop_at

    def end(self, session: Any, global_step_value: int) -> None:
        self._note(f"end {global_step_value}")

    def _note(self, event: str) -> None:
        self._events.append(f"{self._name} {event}".strip())


def aborted() -> Any:
    return tf.errors.AbortedError(None, None, "the worker went away")


def train(
    folder: Path,
    pipeline: rs.Pipeline[Any],
    *,
    last_step: int = 1000,
    error: tuple[int, Exception] | None = None,
    hook: Any = None,
    save_steps: int = 3,
    model: bool = True,
    growth: int = 1,
    signature: Any = SCALAR,
    prepare: Callable[[tf.data.Dataset], tf.data.Dataset] = lambda dataset: dataset,
    between: Callable[[Any, Any], object] | None = None,
    hooks: Sequence[Any] = (),
    steps: Steps | None = None,
    config: Any = None,
) -> Steps:
    """Train until ``last_step`` or until the input or an error ends it."""
    consumed: Steps = [] if steps is None else steps
    with tf.Graph().as_default():
        global_step = tf1.train.get_or_create_global_step()
        dataset = prepare(make_dataset(pipeline, signature))
        item = make_initializable_iterator(dataset).get_next()
        with tf.control_dependencies(tf.nest.flatten(item)):
            step = tf1.assign_add(global_step, growth)
        done = recorded(step, item, consumed)
        if hook is None:
            hook = CheckpointInputPipelineHook(folder, save_steps=save_steps)
        extra = [] if error is None else [Raise(*error)]
        try:
            with tf1.train.MonitoredTrainingSession(
                checkpoint_dir=str(folder) if model else None,
                save_checkpoint_steps=save_steps if model else None,
                save_checkpoint_secs=None,
                save_summaries_steps=None,
                save_summaries_secs=None,
                log_step_count_steps=None,
                config=config,
                hooks=[hook, tf1.train.StopAtStepHook(last_step=last_step), *hooks, *extra],
            ) as session:
                while not session.should_stop():
                    if between is not None:
                        between(session, global_step)
                    session.run(done)
        except Crash:
            pass
    return consumed


def recorded(step: Any, item: Any, consumed: Steps) -> Any:
    """An operation that notes ``item`` as what ``step`` consumed, whatever comes after the run."""

    def note(number: Any, *parts: Any) -> Any:
        got = tf.nest.pack_sequence_as(item, parts)
        consumed.append((int(number), tf.nest.map_structure(as_plain, got)))
        return number

    return tf.numpy_function(note, [step, *tf.nest.flatten(item)], tf.int64)


def as_plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value


def saved(folder: Path, pattern: str = r"input-0*([0-9]+)\.ckpt") -> list[int]:
    """The steps of the checkpoints in a folder."""
    matches = (re.fullmatch(pattern, name) for name in os.listdir(folder))
    return sorted(int(match[1]) for match in matches if match)


def models(folder: Path) -> list[int]:
    return saved(folder, r"model\.ckpt-([0-9]+)\.index")
