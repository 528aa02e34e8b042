"""Kill a saving loop at random moments, many times, and check every checkpoint it leaves.

Run as `PYTHONPATH=tests python -m campaigns.kills --kills 5000`; the suite runs a short form.
"""

# Each loop runs in a fork of this process, so that a start costs milliseconds and the kill falls
# into a save as often as not. It reports each acknowledged save through a pipe, after the fact.

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

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


def campaign(kills: int, seed: int, folder: Path, shown: Callable[[int], object]) -> Report:
    """Kill ``kills`` loops that save in ``folder``, in all modes alike."""
    chosen = random.Random(seed)
    report = Report()
    known: set[int] = set()
    place, mode = folder, ""
    in_a_folder = min(MOST_KILLS_A_FOLDER, -(-kills // len(MODES)))
    for number in range(kills):
        if number % in_a_folder == 0:
            shutil.rmtree(place, ignore_errors=True)
            mode = list(MODES)[number // in_a_folder % len(MODES)]
            place, known = folder / f"{number}", set()
        acknowledged = _one_life(place, mode, chosen.uniform(0, LONGEST_LIFE))
        known |= acknowledged
        report.kills += 1
        report.acknowledged += len(acknowledged)
        _check(place, mode, known, report)
        shown(1)
    return report


def _one_life(folder: Path, mode: str, seconds: float) -> set[int]:
    """Let a loop live for ``seconds``; returns the steps it acknowledged."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _train(folder, mode, writing)
    os.close(writing)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    with open(reading, "rb") as pipe:
        data = pipe.read()
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), f"the loop ended by itself: {os.waitstatus_to_exitcode(status)}"
    return {step for (step,) in STEP.iter_unpack(data)}


def _train(folder: Path, mode: str, descriptor: int) -> None:
    """Save until killed."""
    try:
        with MODES[mode](folder, Acknowledge(descriptor)) as checkpointer:
            for _ in checkpointer.resume(NUMBERS):
                pass
    finally:
        sys.excepthook(*sys.exc_info())
        os._exit(1)


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


def main() -> int:
    """Run a campaign; 0 if it was clean."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="where to save (default: a temporary folder)")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="resumable-kills-"))
    started = time.perf_counter()
    done = 0

    def shown(count: int) -> None:
        nonlocal done
        done += count
        if done % 500 == 0:
            print(f"{done} of {options.kills} kills", file=sys.stderr)

    report = campaign(options.kills, options.seed, folder, shown)
    shutil.rmtree(folder, ignore_errors=True)
    print(f"{report}\n{time.perf_counter() - started:.0f} s")
    return 0 if report.clean else 1


if __name__ == "__main__":
    sys.exit(main())
