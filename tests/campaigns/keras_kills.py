"""Kill Keras's ``fit`` at random moments of the saves of `ModelBackup`, and follow what it trains with.

Run as `PYTHONPATH=.:tests:adapters python -m campaigns.keras_kills --kills 200`, with TensorFlow
installed; the suite runs a short form.
"""

from __future__ import annotations

import json
import os
import random
import sys
import warnings
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import tensorflow as tf
from campaigns import harness
from tf_adapter.keras_runs import STEPS, fit, pipeline

MOST_BATCHES = 6
"""Of a life."""
LONGEST = 0.03
"""Seconds from the last of them to the kill; a save takes about as long."""
PLAN = {"backup": "ours", "freq": 1, "input_freq": 1, "per_execution": 1, "epochs": 10**6}


class Report(harness.Report):
    """Says too how many epochs the steps were."""

    def __str__(self) -> str:
        return f"{self!r}, epochs={self.steps / STEPS:.1f}"


class Marks(tf.keras.callbacks.Callback):  # type: ignore[misc]
    """Writes a byte after each batch, before the model is saved."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        os.write(self._descriptor, b"+")


def campaign(kills: int, seed: int, folder: Path) -> Report:
    """Kill ``kills`` trainings; each goes on where the one before was killed."""
    chosen = random.Random(seed)
    report = Report()
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(kills):
        batches = chosen.randint(1, MOST_BATCHES)
        harness.live_and_be_killed(partial(_train, folder), chosen.uniform(0, LONGEST), batches)
        report.kills += 1
        report.unfinished += bool([*folder.glob("backup/.*")])
        life = [json.loads(line) for line in (folder / "log").read_text().splitlines()]
        (folder / "log").unlink()
        first, last = life[0][0], life[-1][0]
        if not report.steps - 1 <= first <= report.steps:
            report.problems.append(f"kill {number}: it began at {first} of {report.steps}")
        expected = [batch[0].tolist() for batch in islice(pipeline(), last + 1)][first:]
        if life != [[first + place, rows] for place, rows in enumerate(expected)]:
            report.problems.append(f"kill {number}: from {first} on it trained {life}")
        report.steps = last + 1
    return report


def _train(folder: Path, descriptor: int) -> None:
    """Train until killed."""
    warnings.simplefilter("ignore")
    fit(folder, PLAN, None, Marks(descriptor))


if __name__ == "__main__":
    sys.exit(harness.run_kills(campaign, "keras-kills", __doc__))
