"""The training process of the demo, which is killed and started again."""

# It reports to its parent by one line of JSON an event on standard output. An event comes after
# what it tells of has happened.

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .. import pipeline as rs
from ..checkpoint import Checkpointer, CheckpointListener
from ..triggers import EverySteps
from .bigram_model import BigramModel, ModelSaver, bigrams, join_lines

__all__ = ["Settings", "train"]


@dataclass(frozen=True)
class Settings:
    """What a training process has to know; travels as JSON.

    Attributes:
      files: text files, in order.
      folder: of the checkpoints.
      index_dir: of the line indexes.
      steps: batches to train on.
      epochs: passes through the lines; None for as many as the steps take.
      batch_size: lines a batch.
      every: steps between checkpoints.
      seed: of the shuffle.
    """

    files: list[str]
    folder: str
    index_dir: str
    steps: int
    epochs: int | None
    batch_size: int
    every: int
    seed: int

    def pipeline(self) -> rs.Pipeline[Any]:
        """The input: every line once an epoch, in a new order each time."""
        return (
            rs.lines(self.files, encoding=None, index_dir=self.index_dir)
            .enumerate()
            .shuffle(self.seed)
            .repeat(self.epochs)
            .map(bigrams)
            .batch(self.batch_size, collate=join_lines)
            .take(self.steps)
            .prefetch(2)
        )

    def to_json(self) -> str:
        """As `from_json` reads it."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Settings:
        """The settings that `to_json` wrote."""
        return Settings(**json.loads(text))


class _SaveTimer(CheckpointListener):
    """Reports how long the input's part of each save took."""

    def before_save(self, step: int) -> None:
        self._started = time.perf_counter()

    def after_save(self, step: int, path: str) -> None:
        seconds = time.perf_counter() - self._started
        _report(event="saved", step=step, seconds=seconds, bytes=os.path.getsize(path))


def train(settings: Settings) -> BigramModel:
    """Train from the last checkpoint, or the start, to the last step."""
    folder = Path(settings.folder)
    lines = len(rs.lines(settings.files, encoding=None, index_dir=settings.index_dir))
    model = BigramModel(lines)
    # The timer comes last before a save and first after it.
    saver = ModelSaver(model, folder)
    listeners = (saver, _SaveTimer())
    with Checkpointer(folder, EverySteps(settings.every), listeners=listeners) as checkpointer:
        pipeline = settings.pipeline()
        started = time.perf_counter()
        loop = checkpointer.resume(pipeline)
        if loop.step:
            _report(event="resumed", step=loop.step, seconds=time.perf_counter() - started)
            model.load(saver.path(loop.step))
        for numbers, pairs in loop:
            model.train(numbers, pairs)
            _report(event="step", step=loop.step)
    return model


def _report(**event: Any) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    train(Settings.from_json(sys.argv[1]))
    _report(event="done")
