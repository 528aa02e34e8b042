"""Training runs with a model, whose variables say how far it was trained and with which item last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as tf1
from resumable_tf import make_dataset, make_initializable_iterator
from tf_adapter.sessions import SCALAR, Crash, Steps, models, recorded, saved

import resumable as rs
from resumable.checkpoint.reading import read_valid

NUMBERS = rs.range(10**6).shuffle(1)


def train_model(
    folder: Path,
    hooks: Callable[[], Sequence[Any]],
    *,
    last_step: int,
    with_input: bool = True,
    size: int = 3,
    scaffold: Callable[[], Any] = lambda: None,
    steps: Steps | None = None,
    **options: Any,
) -> Steps:
    """Train until ``last_step``, and let ``hooks``, which are made in the graph, save the model."""
    consumed: Steps = [] if steps is None else steps
    with tf.Graph().as_default():
        global_step = tf1.train.get_or_create_global_step()
        item = tf.constant(0, tf.int64)
        if with_input:
            item = make_initializable_iterator(make_dataset(NUMBERS, SCALAR)).get_next()
        counts = [
            tf1.get_variable(
                name, initializer=tf.zeros(size, tf.int64), use_resource=name == "resource"
            )
            for name in ("resource", "reference")
        ]
        last = tf1.get_variable("last", initializer=tf.constant(-1, tf.int64))
        trained = [*(tf1.assign_add(count, tf.ones(size, tf.int64)) for count in counts)]
        with tf.control_dependencies([*trained, tf1.assign(last, item)]):
            step = tf1.assign_add(global_step, 1)
        done = recorded(step, item, consumed)
        try:
            with tf1.train.MonitoredTrainingSession(
                checkpoint_dir=str(folder),
                scaffold=scaffold(),
                save_summaries_steps=None,
                save_summaries_secs=None,
                log_step_count_steps=None,
                hooks=[*hooks(), tf1.train.StopAtStepHook(last_step=last_step)],
                **{"save_checkpoint_steps": None, "save_checkpoint_secs": None, **options},
            ) as session:
                while not session.should_stop():
                    session.run(done)
        except Crash:
            pass
    return consumed


def problems_of(folder: Path, name: str = "model.ckpt", with_input: bool = True) -> list[str]:
    """What is wrong with the models in ``folder``, and with the input of the newest one."""
    newest = tf.train.latest_checkpoint(str(folder))
    found = []
    for step in models(folder):
        found += _problems_of_model(str(folder / f"{name}-{step}"), step, with_input)
    if newest is None or not with_input:
        return found
    step = int(newest.rpartition("-")[2])
    if step not in models(folder):
        found.append(f"the newest model, of step {step}, is not there")
    if step not in saved(folder):
        return [*found, f"the newest model, of step {step}, has no input"]
    with NUMBERS.resume(read_valid(rs.Directory(folder), step).state) as iterator:
        if next(iterator) != NUMBERS[step]:
            found.append(f"the input of step {step} is elsewhere")
    return found


def _problems_of_model(path: str, step: int, with_input: bool) -> list[str]:
    try:
        reader = tf.train.load_checkpoint(path)
        values = {
            key: np.unique(reader.get_tensor(key)).tolist()
            for key in ("global_step", "resource", "reference", "last")
        }
    except Exception as error:
        return [f"{path} cannot be read: {error!r}"]
    expected = {key: [step] for key in ("global_step", "resource", "reference")}
    expected["last"] = [0 if not with_input else NUMBERS[step - 1]] if step else [-1]
    return [] if values == expected else [f"{path} has {values}"]
