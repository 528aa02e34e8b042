"""Jobs of several tasks in threads, which train step by step together as synchronous workers do."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Barrier, BrokenBarrierError, Event
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as tf1
from resumable_tf import make_dataset, make_initializable_iterator
from tf_adapter.sessions import SCALAR, Steps, recorded

import resumable as rs

SAVE_STEPS = 3
PATIENCE = 60
"""Seconds after which a task that waits for the others ends, so that a test fails and does not hang."""


@dataclass(frozen=True)
class Config:
    """The RunConfig of a worker, as far as a hook looks at it."""

    model_dir: str
    task_id: int
    num_worker_replicas: int
    task_type: str = "worker"
    save_checkpoints_steps: int = SAVE_STEPS
    save_checkpoints_secs: None = None
    keep_checkpoint_max: int = 5

    @property
    def is_chief(self) -> bool:
        return self.task_id == 0


def run_job(
    folder: Path,
    tasks: int,
    pipeline: Callable[[int, int], rs.Pipeline[Any]],
    hook: Any,
    *,
    last_step: int,
    killed_at: int | None = None,
) -> list[Steps]:
    """What each of some tasks consumes until ``last_step``, or until the last one is killed."""
    together, chief_is_there = Barrier(tasks, timeout=PATIENCE), Event()

    def run(task: int) -> Steps:
        config = Config(str(folder), task, tasks)
        consumed: Steps = []
        if task:
            # It restores what the chief may be saving again.
            chief_is_there.wait()
        with tf.Graph().as_default():
            global_step = tf1.train.get_or_create_global_step()
            item = make_initializable_iterator(
                make_dataset(pipeline(task, tasks), SCALAR)
            ).get_next()
            with tf.control_dependencies([item]):
                step = tf1.assign_add(global_step, 1)
            done = recorded(step, item, consumed)
            try:
                with tf1.train.MonitoredTrainingSession(
                    checkpoint_dir=str(folder),
                    save_checkpoint_steps=SAVE_STEPS if config.is_chief else None,
                    save_checkpoint_secs=None,
                    save_summaries_steps=None,
                    save_summaries_secs=None,
                    log_step_count_steps=None,
                    hooks=[hook(config), tf1.train.StopAtStepHook(last_step=last_step)],
                ) as session:
                    chief_is_there.set()
                    together.wait()
                    while not session.should_stop():
                        number = session.run(done)
                        if number == killed_at and task == tasks - 1:
                            together.abort()
                        together.wait()
            except BrokenBarrierError:
                pass
            except BaseException:
                together.abort()
                raise
            finally:
                chief_is_there.set()
        return consumed

    with ThreadPoolExecutor(tasks) as pool:
        return list(pool.map(run, range(tasks)))


def until(step: int, consumed: list[Steps]) -> list[Any]:
    """The items of all tasks up to ``step``."""
    return [item for steps in consumed for number, item in steps if number <= step]
