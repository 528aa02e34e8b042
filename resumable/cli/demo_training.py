"""The training process of the demo, killed and started again."""

# The process reports each event to the parent, as a line of JSON on standard output.

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import from_files
from .. import pipeline as rs
from ..checkpoint import Checkpointer
from ..triggers import EverySteps
from .bigram_model import BigramModel, ModelSaver, bigrams, join_lines
from .parsers import BATCH_SIZE


@dataclass(frozen=True)
class Settings:
    """The settings of a training process, passed as JSON.

    Attributes:
      files: text files, in order.
      folder: of the checkpoints.
      index_dir: of the line indexes.
      steps: batches to train on.
      epochs: of the lines; None for as many as the steps need.
      every: steps between checkpoints.
      seed: of the shuffle.
      partitions: number of partitions; None for a pipeline without partitions.
      workers: threads that run the partitions.
    """

    files: list[str]
    folder: str
    index_dir: str
    steps: int
    epochs: int | None
    every: int
    seed: int
    partitions: int | None = None
    workers: int = 0

    def batches(self, lines: rs.Pipeline[Any]) -> rs.Pipeline[Any]:
        """The batches of all epochs: every line once in each epoch, in a new order each time."""
        order = lines.enumerate().shuffle(self.seed).repeat(self.epochs)
        if self.partitions is None:
            return self._batched(order)
        return order.partition(self.partitions, self._batched, workers=self.workers)

    def _batched(self, lines: rs.Pipeline[Any]) -> rs.Pipeline[Any]:
        return lines.map(bigrams).batch(BATCH_SIZE, collate=join_lines)


class _ReportingSaver(ModelSaver):
    """Saves the model, and reports how long the subsequent save of the input took."""

    def before_save(self, step: int) -> None:
        super().before_save(step)
        self._began = time.perf_counter()

    def after_save(self, step: int, path: str) -> None:
        seconds = time.perf_counter() - self._began
        _report(event="saved", step=step, seconds=seconds, bytes=os.path.getsize(path))
        super().after_save(step, path)


def train(settings: Settings) -> BigramModel:
    """Train from the last checkpoint, or the start, to the last step."""
    folder = Path(settings.folder)
    lines = from_files.lines(settings.files, encoding=None, index_dir=settings.index_dir)
    model = BigramModel(len(lines))
    pipeline = settings.batches(lines).take(settings.steps).prefetch(2)
    saver = _ReportingSaver(model, folder)
    with Checkpointer(folder, EverySteps(settings.every), listeners=[saver]) as checkpointer:
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
    train(Settings(**json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))))
    _report(event="done")
