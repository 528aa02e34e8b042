"""A byte-bigram language model in NumPy, with checkpoints, for the demo."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..checkpoint import CheckpointListener

BYTES: Final = 256
LEARNING_RATE: Final = 4.0
MODELS_KEPT: Final = 3


def bigrams(numbered: tuple[int, bytes]) -> tuple[int, npt.NDArray[np.int64]]:
    """The number of a line and the line's byte pairs, first * 256 + second; shape (bytes + 1,)."""
    number, line = numbered
    data = np.frombuffer(b"\n" + line + b"\n", np.uint8).astype(np.int64)
    return number, data[:-1] * BYTES + data[1:]


def join_lines(items: list[Any]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """A batch: the numbers of the lines, shape (lines,), and all byte pairs, shape (pairs,)."""
    numbers = np.array([number for number, _ in items])
    return numbers, np.concatenate([pairs for _, pairs in items])


class BigramModel:
    """Predicts the next byte from the last byte, trained by SGD on the cross entropy.

    Attributes:
      weights: shape (256, 256), float64: a logit for each pair.
      seen: shape (lines,), int64: how often each line was trained on. Saved with the weights, so
        lines count only once the weights include them.
    """

    def __init__(self, lines: int) -> None:
        self.weights = np.zeros((BYTES, BYTES))
        self.seen = np.zeros(lines, np.int64)

    def train(self, numbers: npt.NDArray[np.int64], pairs: npt.NDArray[np.int64]) -> None:
        """One step of SGD.

        Args:
          numbers: of the lines, shape (lines,).
          pairs: the byte pairs of all lines, shape (pairs,).
        """
        counts = np.bincount(pairs, minlength=BYTES * BYTES).reshape(BYTES, BYTES)
        odds = np.exp(self.weights - self.weights.max(axis=1, keepdims=True))
        predicted = odds / odds.sum(axis=1, keepdims=True)
        gradient = predicted * counts.sum(axis=1, keepdims=True) - counts
        self.weights -= LEARNING_RATE / len(pairs) * gradient
        np.add.at(self.seen, numbers, 1)

    def save(self, path: Path) -> None:
        """Write the model so that ``path`` is complete or absent.

        The input's checkpoint, saved next in the same folder, syncs the folder too.
        """
        temporary = path.with_name(f".tmp-{path.name}")
        with open(temporary, "wb") as file:
            np.savez(file, weights=self.weights, seen=self.seen)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)

    def load(self, path: Path) -> None:
        """Read the files of `save`."""
        with np.load(path) as arrays:
            self.weights, self.seen = arrays["weights"], arrays["seen"]


class ModelSaver(CheckpointListener):
    """Saves the model just before the input, under the same step."""

    def __init__(self, model: BigramModel, folder: Path) -> None:
        self._model = model
        self._folder = folder

    def path(self, step: int) -> Path:
        """Where the model of ``step`` is."""
        return self._folder / f"model-{step:012d}.npz"

    def before_save(self, step: int) -> None:
        """Save the model; the input's checkpoint commits the model."""
        self._model.save(self.path(step))

    def after_save(self, step: int, path: str) -> None:
        """Remove all models but the newest; no resume needs an older model."""
        for old in sorted(self._folder.glob("model-*.npz"))[:-MODELS_KEPT]:
            old.unlink()
