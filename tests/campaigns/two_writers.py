"""Start two jobs under one name, kill and restart them at random, and check what they acknowledged.

Run as `PYTHONPATH=tests python -m campaigns.two_writers --seconds 60`; the suite runs a short form.
With ``--no-locks`` it is as on a file system without locks, where the jobs do come in each other's
way: then only what one of them acknowledged is checked, which the other must not replace.
"""

# Each job is a fork of this process. It logs by single appends what it has resumed from and what
# was acknowledged, each as a step and a digest, and with the locks on whoever is refused ends.
# The loops take their state from numbers that differ between any two runs, so that two
# checkpoints of one step are never the same bytes.

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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


class Log(rs.CheckpointListener):
    """Appends what happens to ``path``, each as one line by one write."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def after_save(self, step: int, path: str) -> None:
        self.write("saved", step, digest(Path(path).read_bytes()))

    def write(self, event: str, step: int = 0, digest: str = "") -> None:
        line = json.dumps([event, os.getpid(), step, digest]) + "\n"
        os.write(self._descriptor, line.encode())


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def job(folder: Path, log: Log) -> None:
    """Save at every step, until killed; or be refused."""
    store = rs.Directory(folder)
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


def start(folder: Path, log: Log) -> int:
    """The number of a fork that does a job."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        job(folder, log)
        status = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(status)


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


def campaign(folder: Path, seconds: float, seed: int, *, locks: bool) -> Report:
    """Let the jobs begin and end for so many seconds, and check what they have left."""
    chosen = random.Random(seed)
    report = Report()
    log = Log(folder / "log")
    running: dict[int, float] = {}
    pauses = [0.0] * JOBS
    deadline = time.monotonic() + seconds
    while (now := time.monotonic()) < deadline or not _has_saved(folder, until=deadline + PATIENCE):
        for number, killed_at in list(running.items()):
            if now >= killed_at:
                os.kill(number, signal.SIGKILL)
                report.kills += 1
            done, status = os.waitpid(number, 0 if now >= killed_at else os.WNOHANG)
            if done:
                del running[number]
                report.crashes += os.waitstatus_to_exitcode(status) not in (0, -signal.SIGKILL)
                pauses.append(now + chosen.uniform(0, LONGEST_PAUSE))
        for begins in [begins for begins in pauses if begins <= now]:
            pauses.remove(begins)
            longest = LONGEST_LIFE + max(0.0, now - deadline)
            running[start(folder / "run", log)] = now + chosen.uniform(0, longest)
        time.sleep(0.001)
    for number in running:
        os.kill(number, signal.SIGKILL)
        os.waitpid(number, 0)
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
    for line in (folder / "log").read_text().splitlines():
        event, process, step, seen = json.loads(line)
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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-locks", action="store_true")
    options = parser.parse_args()
    if options.no_locks:

        def refuse(descriptor: int) -> None:
            raise OSError(38, "Function not implemented")

        locking._lock = refuse
        warnings.simplefilter("ignore", RuntimeWarning)
    with tempfile.TemporaryDirectory(prefix="resumable-two-writers-") as folder:
        report = campaign(Path(folder), options.seconds, options.seed, locks=not options.no_locks)
    print(report)
    return 0 if report.clean else 1


if __name__ == "__main__":
    sys.exit(main())
