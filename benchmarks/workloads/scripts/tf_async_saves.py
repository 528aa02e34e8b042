"""How long a save of a large model holds up its training: in a thread, and without one."""

# python benchmarks/workloads/scripts/tf_async_saves.py, with TensorFlow installed. The hooks take turns
# in one process. The steps at which the model is saved are timed; between two of them there is time to write. Only where saves come
# without a pause there is none, and then it is also timed how long a save waits for the one before.

from __future__ import annotations

import argparse
import platform
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as tf1
from resumable_tf import AsyncCheckpointSaverHook, make_dataset, make_initializable_iterator

import resumable as rs

VARIABLES = 8
EVERY = 4


class CopiesOnly(tf1.train.SessionRunHook):  # type: ignore[misc]
    """Copies all variables where the others save, and holds the copy for a step."""

    def __init__(self, folder: str, save_steps: int) -> None:
        self._every = save_steps

    def begin(self) -> None:
        self._step = tf1.train.get_global_step()
        self._variables = [variable.read_value() for variable in tf1.global_variables()]

    def after_run(self, run_context: Any, run_values: Any) -> None:
        session = run_context.session
        self._held = None
        if int(session.run(self._step)) % self._every == 0:
            self._held = session.run(self._variables)  # into arrays of NumPy


class WithoutPause(AsyncCheckpointSaverHook):
    """Saves as soon as the save before is written, and notes how long it has waited for that."""

    def __init__(self, folder: str, save_steps: int) -> None:
        super().__init__(folder, save_steps=save_steps)
        self.waited: list[float] = []

    def _save(self, session: Any, step: Any) -> bool:
        began = time.perf_counter()
        self._collect(wait_for_it=True)
        self.waited.append(time.perf_counter() - began)
        return super()._save(session, step)


MAKERS: dict[str, Any] = {
    "a synchronous save": tf1.train.CheckpointSaverHook,
    "an asynchronous save": AsyncCheckpointSaverHook,
    "a save without a pause": WithoutPause,
    "a copy of the variables": CopiesOnly,
}


def training(folder: Path, make: Any, megabytes: float, saves: int) -> list[tuple[float, float]]:
    """The seconds of the steps at which the model is saved, and those of them that are waiting."""
    rows = int(megabytes * 1e6 / 4 / VARIABLES)
    hook = make(str(folder), save_steps=EVERY)
    seconds = []
    with tf.Graph().as_default():
        item = make_initializable_iterator(
            make_dataset(rs.range(10**6), tf.TensorSpec((), tf.int64))
        ).get_next()
        tf1.train.get_or_create_global_step()
        for number in range(VARIABLES):
            tf1.get_variable(f"v{number}", initializer=tf.zeros(rows))
        with tf.control_dependencies([item]):
            step = tf1.assign_add(tf1.train.get_global_step(), 1)
        with tf1.train.MonitoredTrainingSession(
            checkpoint_dir=str(folder),
            save_checkpoint_steps=None,
            save_checkpoint_secs=None,
            save_summaries_steps=None,
            save_summaries_secs=None,
            log_step_count_steps=None,
            hooks=[hook],
        ) as session:
            for _ in range(EVERY * saves):
                began = time.perf_counter()
                if int(session.run(step)) % EVERY == 0:
                    seconds.append(time.perf_counter() - began)
                    if type(hook) is AsyncCheckpointSaverHook:
                        hook._collect(wait_for_it=True)  # a stand-in for steps that take their time
    # The first wait is that of the save when the session was created.
    waited = hook.waited[1:] if isinstance(hook, WithoutPause) else [0.0] * len(seconds)
    return list(zip(seconds, waited, strict=False))


def measured(megabytes: float, saves: int, rounds: int) -> dict[str, list[tuple[float, float]]]:
    """What `training` returns of each step with a save, by name, but for the first save of a training."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in MAKERS}
    for _ in range(rounds):
        for name, make in MAKERS.items():
            folder = Path(tempfile.mkdtemp())
            try:
                times[name] += training(folder, make, megabytes, saves)[1:]
            finally:
                shutil.rmtree(folder)
    return times


def main() -> None:
    """Print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=400)
    parser.add_argument("--saves", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    print(f"Python {platform.python_version()}, TensorFlow {tf.__version__}")
    print(f"a model of {options.megabytes:g} MB; a step with")
    for name, times in measured(options.megabytes, options.saves, options.rounds).items():
        seconds, waited = zip(*times, strict=True)
        print(
            f"{name:23} median {1e3 * statistics.median(seconds):7.1f} ms, "
            f"from {1e3 * min(seconds):.1f} to {1e3 * max(seconds):.1f} ms, "
            f"{sum(waited) / sum(seconds):.0%} of it waiting"
        )


if __name__ == "__main__":
    main()
