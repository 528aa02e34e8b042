"""Kill a saving loop at random moments, many times, and check every checkpoint it leaves.

Run as `PYTHONPATH=tests python -m campaigns.kills --kills 5000`; the suite runs a short form.
"""

# A start costs so little that the kill falls into a save as often as not. The loop reports each
# acknowledged save through a pipe, after the fact.

from __future__ import annotations

import os
import random
import struct
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from campaigns.harness import Progress, fresh_folders, live_and_be_killed, run_kills

import resumable as rs
from resumable.checkpoint.ranks.survey import survey

LONGEST_LIFE = 0.03
MOST_KILLS_A_FOLDER = 50
KEPT = 3
STEP = struct.Struct("<q")
NUMBERS = rs.range(10**6).shuffle(1).map(abs).batch(5).repeat()

MODES = {
    "plain": lambda folder, listener: rs.Checkpointer(
        folder, rs.EverySteps(1), listeners=[listener]
    ),
    "retention": lambda folder, listener: rs.Checkpointer(
        folder, rs.EverySteps(1), listeners=[listener], retention=rs.Retention(KEPT)
    ),
    "asynchronous": lambda folder, listener: rs.Checkpointer(
        folder, rs.EverySteps(1), listeners=[listener], asynchronous=True
    ),
}


@dataclass
class Report:
    """What a campaign found."""

    kills: int = 0
    acknowledged: int = 0
    unfinished: int = 0
    """Kills that fell into a write."""
    left_over: int = 0
    """Unfinished files that the next start did not remove."""
    damaged: int = 0
    lost: int = 0
    wrong: int = 0

    @property
    def clean(self) -> bool:
        """Whether nothing was damaged, lost or wrong."""
        return not (self.damaged or self.lost or self.wrong or self.left_over)


class Acknowledge(rs.CheckpointListener):
    """Writes the step of each save that was acknowledged to ``descriptor``."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def after_save(self, step: int, path: str) -> None:
        os.write(self.descriptor, STEP.pack(step))


def campaign(kills: int, seed: int, folder: Path) -> Report:
    """Kill ``kills`` loops that save in ``folder``, in all modes alike."""
    chosen = random.Random(seed)
    report, progress = Report(), Progress(kills, every=500)
    known: set[int] = set()
    mode = ""
    in_a_folder = min(MOST_KILLS_A_FOLDER, -(-kills // len(MODES)))
    for number, place in zip(range(kills), fresh_folders(folder, in_a_folder), strict=False):
        if number % in_a_folder == 0:
            mode, known = list(MODES)[number // in_a_folder % len(MODES)], set()
        train = partial(_train, place, mode)
        told = live_and_be_killed(train, chosen.uniform(0, LONGEST_LIFE))
        acknowledged = {step for (step,) in STEP.iter_unpack(told)}
        known |= acknowledged
        report.kills += 1
        report.acknowledged += len(acknowledged)
        _check(place, mode, known, report)
        progress.add()
    return report


def _train(folder: Path, mode: str, descriptor: int) -> None:
    """Save until killed."""
    with MODES[mode](folder, Acknowledge(descriptor)) as checkpointer:
        for _ in checkpointer.resume(NUMBERS):
            pass


def _check(folder: Path, mode: str, known: set[int], report: Report) -> None:
    if not folder.exists():
        report.lost += len(known)
        return
    files = list(survey(folder))
    report.damaged += sum(file.problem is not None for file in files)
    unfinished = sum(name.startswith(".tmp-") for name in os.listdir(folder))
    report.unfinished += unfinished
    report.left_over += max(0, unfinished - 1)
    checkpoints = {f.checkpoint.step: f.checkpoint for f in files if f.checkpoint is not None}
    due = sorted(known)[-KEPT:] if mode == "retention" else known
    if mode == "retention" and checkpoints:
        # A save that was not acknowledged any more may have pushed an older one out.
        due = [step for step in due if step >= max(checkpoints) - KEPT + 1]
    report.lost += len(set(due) - checkpoints.keys())
    if known and max(checkpoints, default=0) < max(known):
        report.lost += 1
    if checkpoints:
        step = max(checkpoints)
        with NUMBERS.resume(checkpoints[step].state) as iterator:
            report.wrong += next(iterator).tolist() != NUMBERS[step].tolist()


if __name__ == "__main__":
    sys.exit(run_kills(campaign, "kills", __doc__, kills=5000))
