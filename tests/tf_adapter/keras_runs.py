"""Runs of Keras's ``fit``, one after another, each in a process that may be killed.

``python -m tf_adapter.keras_runs FOLDER PLAN`` imports TensorFlow once and forks for each run.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from resumable_tf import ModelBackup, ResumeInput

import resumable as rs

BY_TENSORFLOW = tf.keras.backend.backend() == "tensorflow"
STEPS = 12
BATCH = 4
rng = np.random.default_rng(0)
ROWS = rng.normal(size=(STEPS * BATCH, 3)).astype(np.float32)
LABELS = ROWS.sum(1, keepdims=True)
SIGNATURE = (
    tf.TensorSpec((None,), tf.int64),
    tf.TensorSpec((None, 3), tf.float32),
    tf.TensorSpec((None, 1), tf.float32),
)


def pipeline(labels: Any = LABELS) -> rs.Pipeline[Any]:
    """Of numbered rows, without end."""
    rows = rs.from_arrays((np.arange(len(ROWS)), ROWS, labels))
    return rows.shuffle(0).batch(BATCH).repeat()


class Noted(tf.keras.Model):  # type: ignore[misc]
    """Notes which rows each iteration was trained with."""

    log: Path

    def train_step(self, data: Any) -> Any:
        numbers, rows, labels = data
        written = tf.numpy_function(self._note, [self.optimizer.iterations, numbers], tf.int64)
        with tf.control_dependencies([written]):
            return super().train_step((tf.identity(rows), labels))

    def _note(self, iteration: Any, numbers: Any) -> Any:
        with self.log.open("a") as log:
            log.write(json.dumps([int(iteration), numbers.tolist()]) + "\n")
        return np.int64(0)


def plain(numbers: Any, rows: Any, labels: Any) -> Any:
    """What `fit` trains with where the numbers are not noted."""
    return rows, labels


class Kill(tf.keras.callbacks.Callback):  # type: ignore[misc]
    """Kills the process after so many batches, before or after the other callbacks."""

    def __init__(self, after: int, per_execution: int) -> None:
        super().__init__()
        self._left = after
        self._per_execution = per_execution

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._left -= self._per_execution
        if self._left <= 0 and not BY_TENSORFLOW:
            raise KeyboardInterrupt
        if self._left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)


BACKUPS = {"Keras": tf.keras.callbacks.BackupAndRestore, "ours": ModelBackup}


def fit(folder: Path, plan: dict[str, Any], kill: tuple[int, int] | None, *more: Any) -> None:
    """Train two epochs, or as many as planned, or go on with them; write the weights at the end."""
    tf.keras.utils.set_random_seed(0)
    inputs = tf.keras.Input((3,))
    hidden = tf.keras.layers.Dense(4, activation="tanh")(inputs)
    model = (Noted if BY_TENSORFLOW else tf.keras.Model)(inputs, tf.keras.layers.Dense(1)(hidden))
    model.log = folder / "log"
    optimizer = tf.keras.optimizers.Adam(0.01)
    if plan.get("scaled"):
        optimizer = tf.keras.mixed_precision.LossScaleOptimizer(optimizer)
    model.compile(
        optimizer,
        "mse",
        jit_compile=False,
        steps_per_execution=plan["per_execution"],
    )
    labels = np.where(np.arange(len(LABELS)) % 11, LABELS[:, 0], np.inf)[:, None]
    resume = ResumeInput(
        pipeline(labels if plan.get("scaled") else LABELS),
        folder / "input",
        save_freq=plan["input_freq"],
    )
    backup = BACKUPS[plan["backup"]](str(folder / "backup"), save_freq=plan["freq"])
    callbacks = [*more, backup, resume]
    if kill is not None:
        after, place = kill
        callbacks.insert(place, Kill(after, plan["per_execution"]))
    validation = rs.from_arrays((ROWS, LABELS)).batch(BATCH)
    batches = resume.dataset(SIGNATURE)
    model.fit(
        batches if BY_TENSORFLOW else batches.map(plain),
        steps_per_epoch=STEPS,
        epochs=plan.get("epochs", 2),
        callbacks=callbacks,
        validation_data=tf.data.Dataset.from_generator(
            lambda: iter(validation), output_signature=SIGNATURE[1:]
        ),
        validation_steps=STEPS,
        shuffle=False,
        verbose=0,
    )
    weights = [weight.tolist() for weight in model.get_weights()]
    (folder / "weights").write_text(json.dumps(weights))


def in_a_process_of_its_own(folder: Path, plan: dict[str, Any], kill: Any) -> int:
    if not BY_TENSORFLOW:  # JAX and PyTorch cannot go on in a fork, so there it is an interrupt
        try:
            fit(folder, plan, kill)
        except KeyboardInterrupt:
            return -signal.SIGKILL
        return 0
    child = os.fork()
    if not child:
        status = 1
        try:
            fit(folder, plan, kill)
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def main() -> None:
    warnings.simplefilter("ignore")
    folder, plan = Path(sys.argv[1]), json.loads(sys.argv[2])
    for number, run in enumerate(plan["runs"]):
        place = folder / str(number)
        place.mkdir()
        for kill in run:
            status = in_a_process_of_its_own(place, plan, kill)
            # It may be over before it could be killed, but not in the first run.
            assert status == -signal.SIGKILL or (status == 0 and kill is not run[0]), status
        assert in_a_process_of_its_own(place, plan, None) == 0


if __name__ == "__main__":
    main()
