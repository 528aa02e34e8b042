"""Forecast a long series with Keras's ``fit``, and resume it in the middle of an epoch.

    python keras_fit.py                        # a million measurements, which it writes first
    python keras_fit.py --length 5000

Each item is a window over the series, and a slice of a file: nothing is copied in advance. All windows
are shuffled by a permutation, so the place in the input is one number. One callback saves the model,
in files that are whole at every moment, and another one the input. A run that was killed ends with the
same weights, bit for bit.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from resumable_tf import ModelBackup, ResumeInput

import resumable as rs

PAST = 48
SIGNATURE = (tf.TensorSpec((None, PAST, 1), tf.float32), tf.TensorSpec((None, 1), tf.float32))


def windows(path: Path, batch_size: int) -> rs.Pipeline[Any]:
    """Batches of `PAST` measurements, and of the one that follows."""
    series = np.load(path, mmap_mode="r")
    return (
        rs.from_arrays(series)
        .window(PAST + 1, shift=1, drop_last=True)
        .shuffle(seed=0)
        .batch(batch_size, drop_last=True)
        .map(past_and_next)
    )


def past_and_next(batch: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Take windows of one batch apart."""
    return batch[:, :-1, None], batch[:, -1:]


def forecaster() -> Any:
    """A small network of convolutions, compiled."""
    model = tf.keras.Sequential(
        [
            tf.keras.Input((PAST, 1)),
            tf.keras.layers.Conv1D(16, 5, strides=2, activation="relu"),
            tf.keras.layers.Conv1D(16, 5, strides=2, activation="relu"),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(1),
        ]
    )
    model.compile(tf.keras.optimizers.Adam(1e-3), "mse", jit_compile=False)
    return model


class SayStart(tf.keras.callbacks.Callback):
    """Says where the training goes on, once the model is restored."""

    def on_train_begin(self, logs: Any = None) -> None:
        print(f"starting after step {int(self.model.optimizer.iterations):,}", flush=True)


def main() -> None:
    """Write the series if it is not there, and train."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--length", type=int, default=1_000_000, help="measurements in the series")
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--every", type=int, default=200, help="steps between two saves")
    options = parser.parse_args()

    path = Path(f"series-{options.length}.npy")
    write_series(path, options.length)
    batches = windows(path, options.batch_size)
    tf.keras.utils.set_random_seed(0)
    model = forecaster()
    save_input = ResumeInput(batches.repeat(), "run/input", save_freq=options.every)
    model.fit(
        save_input.dataset(SIGNATURE),
        steps_per_epoch=len(batches),
        epochs=options.epochs,
        callbacks=[ModelBackup("run/model", options.every), SayStart(), save_input],
        shuffle=False,
        verbose=2,
    )
    np.savez("forecaster.npz", *model.get_weights())
    print(f"{int(model.optimizer.iterations):,} steps")


def write_series(path: Path, length: int) -> None:
    """A series of two waves and noise: the same every time, in a file that is whole or not there."""
    if path.exists():
        return
    hours = np.arange(length)
    waves = np.sin(hours * (2 * np.pi / 24)) + np.sin(hours * (2 * np.pi / 168))
    series = waves + np.random.default_rng(0).normal(scale=0.1, size=length)
    unfinished = path.with_suffix(".part")
    with unfinished.open("wb") as file:
        np.save(file, series.astype(np.float32))
    os.replace(unfinished, path)


if __name__ == "__main__":
    main()
