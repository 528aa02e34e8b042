"""Kill a training that saves its model in a thread, at random moments, and check what it leaves.

Run as `PYTHONPATH=.:tests:adapters python -m campaigns.model_kills --kills 200`, with TensorFlow
installed; the suite runs a short form.
"""

from __future__ import annotations

import os
import random
import sys
from functools import partial
from pathlib import Path

import tensorflow as tf
import tensorflow.compat.v1 as tf1
from campaigns.harness import Report, fresh_folders, live_and_be_killed, run_kills
from resumable_tf import AsyncCheckpointSaverHook
from tf_adapter.model_runs import problems_of, train_model
from tf_adapter.sessions import models

LONGEST_LIFE = 0.8
SIZE = 50_000
KILLS_A_FOLDER = 20


class Began(tf1.train.SessionRunHook):  # type: ignore[misc]
    """Says that a session is there, in which nothing is saved yet."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def after_create_session(self, session: object, coord: object) -> None:
        os.write(self.descriptor, b"+")


def campaign(kills: int, seed: int, folder: Path) -> Report:
    """Kill ``kills`` trainings; each goes on where the one before was killed, up to `KILLS_A_FOLDER`."""
    chosen = random.Random(seed)
    report = Report()
    for number, place in zip(range(kills), fresh_folders(folder, KILLS_A_FOLDER), strict=False):
        place.mkdir(parents=True, exist_ok=True)
        live_and_be_killed(partial(_train, place), chosen.uniform(0, LONGEST_LIFE), marks=1)
        report.kills += 1
        report.unfinished += bool(list(place.glob(".*.unfinished")))
        report.problems += [f"kill {number}: {problem}" for problem in problems_of(place)]
        if number % KILLS_A_FOLDER == KILLS_A_FOLDER - 1 or number == kills - 1:
            report.steps += max(models(place), default=0)
    return report


def _train(folder: Path, descriptor: int) -> None:
    """Train until killed."""
    tf1.logging.set_verbosity(tf1.logging.ERROR)
    tf.get_logger().setLevel("ERROR")

    def hooks() -> list[tf1.train.SessionRunHook]:
        return [Began(descriptor), AsyncCheckpointSaverHook(str(folder), save_steps=2)]

    train_model(folder, hooks, last_step=10**9, size=SIZE)


if __name__ == "__main__":
    sys.exit(run_kills(campaign, "model-kills", __doc__))
