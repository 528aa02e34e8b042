"""Start two jobs under one name, kill and restart them at random, and check what they acknowledged.

Run as `PYTHONPATH=tests python -m campaigns.two_writers --seconds 60`; the suite runs a short form.
With ``--no-locks`` it is as on a file system without locks, where the jobs do come in each other's
way: then only what one of them acknowledged is checked, which the other must not replace.
"""

# Each job logs by single appends what it has resumed from and what
# was acknowledged, each as a step and a digest, and with the locks on whoever is refused ends.
# The loops take their state from numbers that differ between any two runs, so that two
# checkpoints of one step are never the same bytes.

from __future__ import annotations

import hashlib
import os
import random
import sys
import time
import warnings
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from campaigns import harness
from campaigns.harness import KILLED, command_line, kill, logged, run_campaign, start, status_of

import resumable as rs
from resumable.checkpoint import locking
from resumable.checkpoint.envelope import decode

LONGEST_LIFE = 0.08
LONGEST_PAUSE = 0.01
PATIENCE = 60  # seconds beyond those asked for, if nothing is saved in these
JOBS = 2


class Run:
    """A source whose state names the run that it was in last."""

    def __init__(self) -> None:
        self.position, self.run = 0, ""

    def __iter__(self) -> Run:
        return self

    def __next__(self) -> int:
        self.position += 1
        return self.position

    def get_state(self) -> dict[str, Any]:
        return {"position": self.position, "run": f"{os.getpid()}"}

    def set_state(self, state: dict[str, Any]) -> None:
        self.position = state["position"]


class Log(harness.Log):
    """Has with each save the digest of what was saved."""

    def after_save(self, step: int, path: str) -> None:
        self.write("saved", step, digest(Path(path).read_bytes()))


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def job(folder: Path) -> None:
    """Save at every step, until killed; or be refused."""
    store, log = rs.Directory(folder / "run"), Log(folder / "log", os.getpid())
    try:
        with rs.Checkpointer(store, rs.EverySteps(1), listeners=[log]) as checkpointer:
            loop = checkpointer.resume(rs.from_iterable(Run))
            log.write("resumed", loop.step, digest(store.load(loop.step)) if loop.step else "")
            for _ in loop:
                pass
    except rs.NameInUse:
        log.write("refused")
    except rs.SaveError:  # without locks the other one was first
        log.write("failed")


@dataclass
class Report:
    """What a campaign found.

    Attributes:
      events: how often what was logged.
      kills: of jobs that were still running.
      crashes: jobs that ended in another way.
      replaced: acknowledged checkpoints that are not there, or not as they were.
      disordered: of those, and of the resumes, how many do not follow the ones before.
      damaged: files that are no checkpoints.
    """

    events: Counter[str] = field(default_factory=Counter)
    kills: int = 0
    crashes: int = 0
    replaced: int = 0
    disordered: int = 0
    damaged: int = 0

    @property
    def clean(self) -> bool:
        """Whether nothing was replaced, out of order or damaged."""
        return not (self.replaced or self.disordered or self.damaged or self.crashes)


def campaign(seconds: float, seed: int, folder: Path, *, locks: bool) -> Report:
    """Let the jobs begin and end for so many seconds, and check what they have left."""
    chosen = random.Random(seed)
    report = Report()
    (folder / "log").touch()
    running: dict[int, float] = {}
    pauses = [0.0] * JOBS
    deadline = time.monotonic() + seconds
    while (now := time.monotonic()) < deadline or not _has_saved(folder, until=deadline + PATIENCE):
        for number, killed_at in list(running.items()):
            report.kills += now >= killed_at
            status = kill(number) if now >= killed_at else status_of(number)
            if status is not None:
                del running[number]
                report.crashes += status not in (0, KILLED)
                pauses.append(now + chosen.uniform(0, LONGEST_PAUSE))
        for begins in [begins for begins in pauses if begins <= now]:
            pauses.remove(begins)
            longest = LONGEST_LIFE + max(0.0, now - deadline)
            running[start(partial(job, folder))] = now + chosen.uniform(0, longest)
        time.sleep(0.001)
    for number in running:
        kill(number)
    check(folder, report, locks=locks)
    return report


def _has_saved(folder: Path, *, until: float) -> bool:
    """Whether any job has: on a busy machine none may live for long enough, and is given more."""
    return time.monotonic() >= until or '["saved"' in (folder / "log").read_text()


def check(folder: Path, report: Report, *, locks: bool) -> None:
    """Compare what was logged with the files."""
    store = rs.Directory(folder / "run")
    data = {step: store.load(step) for step in store.steps()}
    found = {step: digest(content) for step, content in data.items()}
    report.damaged += sum(decode(content).step != step for step, content in data.items())
    report.damaged += len(list(store.folder.glob("*.damaged*")))
    acknowledged: dict[int, str] = {}
    newest, writer = 0, 0
    for event, process, step, seen in logged(folder / "log"):
        report.events[event] += 1
        if event == "saved":
            report.replaced += step in acknowledged or found.get(step) != seen
            acknowledged[step] = seen
        elif event == "resumed":
            report.replaced += found.get(step, "") != seen
        if locks and event == "saved":
            report.disordered += (process, step) != (writer, newest + 1)
            newest = step
        elif locks and event == "resumed":
            # One that was saved by the one before may not have been acknowledged any more.
            report.disordered += step not in (newest, newest + 1)
            newest, writer = step, process


def main() -> int:
    """Run a campaign; 0 if it was clean."""
    parser = command_line(__doc__, seconds=60.0)
    parser.add_argument("--no-locks", action="store_true")
    options = parser.parse_args()
    if options.no_locks:

        def refuse(descriptor: int) -> None:
            raise OSError(38, "Function not implemented")

        vars(locking)["lock"] = refuse
        warnings.simplefilter("ignore", RuntimeWarning)
    run = partial(campaign, options.seconds, options.seed, locks=not options.no_locks)
    return run_campaign(run, "two-writers", options.folder, printed="{report}")


if __name__ == "__main__":
    sys.exit(main())
