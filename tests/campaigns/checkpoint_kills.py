"""Kill a training that saves a `tf.train.Checkpoint` asynchronously, at random moments, and follow its items.

Run as `PYTHONPATH=.:tests:adapters python -m campaigns.checkpoint_kills --kills 200`, with TensorFlow
installed; the suite runs a short form.
"""

from __future__ import annotations

import os
import random
import sys
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import tensorflow as tf
from campaigns.harness import live_and_be_killed, run_kills
from resumable_tf import CheckpointableInput

import resumable as rs

MOST_SAVES = 12
"""Of a life."""
LONGEST = 0.03
"""Seconds from the last of them to the kill."""
SAVE_EVERY = 3
STEP_SECONDS = 0.002
NUMBERS = rs.range(10**6).shuffle(1)


@dataclass
class Report:
    """What a campaign found."""

    kills: int = 0
    steps: int = 0
    """Up to which the run came."""
    resumed: list[int] = field(default_factory=list)
    """The step of each restart."""
    problems: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        """Whether every life went on with the item after those of the step that it restored."""
        return not self.problems


def campaign(kills: int, seed: int, folder: Path) -> Report:
    """Kill ``kills`` trainings; each goes on where the one before was killed."""
    chosen = random.Random(seed)
    report = Report()
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(kills):
        saves = chosen.randint(1, MOST_SAVES)
        live_and_be_killed(partial(_train, folder), chosen.uniform(0, LONGEST), saves)
        report.kills += 1
        step, items = _life(folder)
        report.resumed.append(step)
        if items != [NUMBERS[step + place] for place in range(len(items))]:
            report.problems.append(f"kill {number}: from step {step} on it was given {items[:9]}")
        if step > report.steps or step % SAVE_EVERY:
            report.problems.append(f"kill {number}: it began at {step} of {report.steps}")
        report.steps = max(report.steps, step + len(items))
    return report


def _train(folder: Path, descriptor: int) -> None:
    """Restore, note the step, and note each item, until killed."""
    tf.get_logger().setLevel("ERROR")
    source = CheckpointableInput(NUMBERS)
    step = tf.Variable(0, dtype=tf.int64)
    checkpoint = tf.train.Checkpoint(step=step, nested=tf.train.Checkpoint(source=source))
    manager = tf.train.CheckpointManager(checkpoint, str(folder), max_to_keep=2)
    if manager.restore_or_initialize():
        source.check_restored()
    options = tf.train.CheckpointOptions(experimental_enable_async_checkpoint=True)
    with open(folder / "life", "wb", buffering=0) as life:
        life.write(f"{int(step)}\n".encode())
        for item in source:
            life.write(f"{item}\n".encode())
            time.sleep(STEP_SECONDS)
            if int(step.assign_add(1)) % SAVE_EVERY == 0:
                manager.save(int(step), options=options)
                os.write(descriptor, b"+")


def _life(folder: Path) -> tuple[int, list[int]]:
    """The step at which the last life began, and its items."""
    step, *items = (folder / "life").read_text().split()
    return int(step), list(map(int, items))


if __name__ == "__main__":
    sys.exit(run_kills(campaign, "checkpoint-kills", __doc__))
