"""Fork beside busy threads and processes, and let the child end in one way or another.

Run as `PYTHONPATH=tests python -m campaigns.forks --forks 500`; the suite runs a short form.
"""

# Each scene is a process of its own. It draws items and forks again and again; the child does one
# thing with what it inherited and exits as any program does, while the parent goes on. A child
# that does not end in time hangs; what it writes to its standard error is a fault too.

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

from support.descendants import descendants

import resumable as rs

ROOT = Path(__file__).parents[2]
PATIENCE = 20.0
LONGEST_WAIT = 0.004
ENDS = ("exit", "del", "close", "iterate")


def unevenly(item: int) -> int:
    """The item, now and then after a while: threads are as often at locks as at work."""
    if item % 8 == 0:
        time.sleep(0.0005)
    return item


def numbers() -> Iterator[int]:
    """Without end, and a stream."""
    return count()


def upstream() -> rs.Pipeline[int]:
    return rs.from_iterable(numbers)


def checkpointed(folder: Path) -> Any:
    """A loop that saves all the time."""
    checkpointer = rs.Checkpointer(folder / "input", rs.EverySteps(2), asynchronous=True)
    return checkpointer.resume(rs.range(10**9).map(unevenly))


SCENES: dict[str, Callable[[Path], Any]] = {
    "a prefetch": lambda folder: iter(upstream().map(unevenly).prefetch(64)),
    "threads": lambda folder: iter(upstream().map(unevenly, workers=4)),
    "processes": lambda folder: iter(upstream().map(unevenly, workers=2, executor="process")),
    "saves": checkpointed,
}


class Family:
    """The children of this process, and what was wrong with them."""

    def __init__(self, folder: Path) -> None:
        self.problems: list[str] = []
        self._folder = folder
        self._running: dict[int, tuple[str, float]] = {}

    def fork(self, end: str, act: Callable[[], object]) -> None:
        """Start one that does ``act`` and exits."""
        child = os.fork()
        if child == 0:
            errors = os.open(self._folder / f"{os.getpid()}", os.O_CREAT | os.O_WRONLY)
            os.dup2(errors, 2)
            act()
            sys.exit(0)
        self._running[child] = end, time.monotonic() + PATIENCE

    def reap(self) -> bool:
        """Look after those that have ended, or should have; whether any are left."""
        for child, (end, deadline) in list(self._running.items()):
            ended, status = os.waitpid(child, os.WNOHANG)
            if not ended and time.monotonic() > deadline:
                self.problems.append(f"{end}: hangs")
                os.kill(child, 9)
                os.waitpid(child, 0)
            elif not ended:
                continue
            elif status:
                self.problems.append(f"{end}: ended with {os.waitstatus_to_exitcode(status)}")
            told = (self._folder / f"{child}").read_text()
            if told:
                self.problems.append(f"{end}: wrote {told[-600:]}")
            del self._running[child]
        return bool(self._running)


def play(name: str, forks: int, seed: int, folder: Path) -> list[str]:
    """One scene; what was wrong."""
    sys.setswitchinterval(1e-6)  # so that threads may stop anywhere, also within their locks
    chosen = random.Random(seed)
    family = Family(folder)
    iterator = SCENES[name](folder)
    got = [next(iterator)]
    for number in range(forks):
        got += [next(iterator) for _ in range(chosen.randrange(40))]
        if (
            number % 2
        ):  # so that threads are blocked at half of the forks, and at work at the others
            time.sleep(chosen.uniform(0, LONGEST_WAIT))
        holder = [iterator]
        # No reference to the iterator but the one in `holder`, once the child lets go of this one.
        end = ENDS[number % len(ENDS)]
        if end == "del":
            iterator = None
        family.fork(end, lambda: act(end, holder))  # noqa: B023
        iterator = holder.pop()
        while len(family._running) >= 4:
            family.reap()
            got.append(next(iterator))
    while family.reap():
        time.sleep(0.001)
    got += [next(iterator) for _ in range(20)]
    iterator.close()
    if got != list(range(len(got))):
        family.problems.append("the parent got other items")
    if left := list(_left()):
        family.problems.append(f"left running: {left}")
    return family.problems


def act(end: str, holder: list[Any]) -> None:
    """What a child does with the iterator before it exits."""
    if end == "del":
        holder.clear()
    elif end == "close":
        holder[0].close()
    elif end == "iterate":
        try:
            for _ in range(20):
                next(holder[0])
        except rs.ResumableError:
            pass


def _left() -> Iterator[str]:
    """Processes of ours that still run a second later, but for trackers of resources."""
    deadline = time.monotonic() + 1
    while time.monotonic() < deadline and descendants(os.getpid()):
        time.sleep(0.01)
    for number, command in descendants(os.getpid()).items():
        yield f"{number} {command}"


def main() -> int:
    """Play the scenes; the exit status tells whether all was well."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--forks", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scene", choices=SCENES, action="append")
    parser.add_argument("--play", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    if options.play is not None:
        print(json.dumps(play(options.play, options.forks, options.seed, options.folder)))
        return 0
    failed = 0
    for name in options.scene or SCENES:
        command = [sys.executable, __file__, "--play", name]
        command += ["--forks", str(options.forks), "--seed", str(options.seed)]
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:  # not in there: a child would remove it
            command += ["--folder", folder]
            found = {"PYTHONPATH": os.pathsep.join(map(str, [ROOT, ROOT / "tests"]))}
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, env=os.environ | found
            )
        lines = done.stdout.splitlines()
        problems = json.loads(lines[-1]) if not done.returncode else [done.stderr[-2000:]]
        hanging = sum(problem.endswith("hangs") for problem in problems)
        print(
            f"{options.forks} forks beside {name}: {hanging} hang, {len(problems) - hanging} other "
            f"problems, {time.monotonic() - began:.0f} s"
        )
        for problem in sorted(set(problems)):
            print("   ", problems.count(problem), "x", problem)
        failed += bool(problems)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
