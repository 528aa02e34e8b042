"""Raise from a signal handler at random moments, use everything on afterwards, compare with a model.

Run as `PYTHONPATH=tests python -m campaigns.interrupts --interrupts 200000`; the suite runs a short
form.
"""

# The timer of the process sends the signal, so the handler raises wherever the main thread is.
# The loops here take an item and note it without a call between: what is handed out is noted.

from __future__ import annotations

import argparse
import faulthandler
import gc
import itertools
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from support.descendants import descendants

import resumable as rs
from resumable.checkpoint.envelope import decode

ITEMS = 400
LONGEST_DELAY = 0.0006
PATIENCE = 8.0
"""Seconds after which a call that was interrupted counts as hanging."""


class Stop(Exception):
    """What an alarm is turned into."""


class Kill(BaseException):
    """What ends a process, unless it is caught."""


KINDS = {"Exception": Stop, "KeyboardInterrupt": KeyboardInterrupt, "BaseException": Kill}


@dataclass
class Report:
    """What was found, by what is wrong with it."""

    interrupts: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    def fault(self, kind: str, example: object) -> None:
        """Count one; the first of each kind is kept."""
        self.faults[kind] += 1
        self.examples.setdefault(kind, repr(example))

    def __str__(self) -> str:
        lines = [f"{name:32} {count:8,} interrupts" for name, count in self.interrupts.items()]
        lines.append(f"{'all':32} {self.interrupts.total():8,} interrupts")
        lines += [
            f"{kind}: {count}, as {self.examples[kind]}" for kind, count in self.faults.items()
        ]
        return "\n".join([*lines, "no fault" if not self.faults else "FAULTS"])


class Alarm:
    """Interrupts the main thread once, after a random time, by an exception of ``kind``."""

    def __init__(self, kind: type[BaseException], random: random.Random) -> None:
        self.kind = kind
        self.rung = 0
        self.armed = False
        self.delay = LONGEST_DELAY
        self._random = random

    def __enter__(self) -> Alarm:
        self._before = signal.signal(signal.SIGALRM, self._ring)
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._before)

    def arm(self) -> None:
        """Ring once within ``delay``, in seconds."""
        self.armed = True
        signal.setitimer(signal.ITIMER_REAL, self._random.uniform(1e-6, self.delay))

    def disarm(self) -> None:
        """Ring no more."""
        self.armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _ring(self, number: int, frame: FrameType | None) -> None:
        if self.armed:
            self.armed = False
            self.rung += 1
            raise self.kind


def double(item: int) -> int:
    """What pipelines here do."""
    return 2 * item


def keep(item: int) -> bool:
    """Leave some out."""
    return item % 3 != 0


NUMBERS = rs.range(ITEMS).shuffle(3)
PIPELINES: dict[str, rs.Pipeline[Any]] = {
    "plain": NUMBERS.map(double).filter(keep),
    "batches": NUMBERS.map(double).filter(keep).batch(5).map(tuple),
    "stream": rs.from_iterable(range(ITEMS)).shuffle(1, window=16).flat_map(lambda n: [n, -n]),
    "prefetch": NUMBERS.map(double).filter(keep).prefetch(4),
    "thread workers": NUMBERS.map(double, workers=2),
    "process workers": NUMBERS.map(double, workers=1, executor="process"),
}


class Trial:
    """One run of a scenario, from its beginning to its end, interrupted again and again."""

    def __init__(self, report: Report, name: str, alarm: Alarm) -> None:
        self.report = report
        self.name = name
        self.alarm = alarm

    def interrupted(self, call: Callable[[], object]) -> bool:
        """Make ``call`` with the alarm armed; whether it was interrupted."""
        rung, began, error = self.alarm.rung, time.monotonic(), None
        faulthandler.dump_traceback_later(60, exit=True)
        try:
            self.alarm.arm()
            call()
            self.alarm.disarm()
        except BaseException as raised:
            error = raised
        self.alarm.disarm()
        faulthandler.cancel_dump_traceback_later()
        if time.monotonic() - began > PATIENCE:
            self.report.fault("hang", self.name)
        if error is not None and type(error) is not self.alarm.kind:
            self.report.fault("raw error", (self.name, error))
        self.report.interrupts[self.name] += self.alarm.rung - rung
        return self.alarm.rung > rung

    def check(self, right: object, kind: str, example: object) -> None:
        """Count a fault unless it is ``right``."""
        if not right:
            self.report.fault(kind, (self.name, example))


def take_all(items: Iterator[Any], seen: list[Any]) -> None:
    """The loop of a user who notes each item."""
    for item in items:
        seen.append(item)


def iterate(pipeline: rs.Pipeline[Any], trial: Trial) -> None:
    """Take all items, however often that is interrupted."""
    with pipeline.start() as whole:
        expected = list(whole)
    iterator = pipeline.start()
    seen: list[Any] = []
    for number in itertools.count():
        if not trial.interrupted(partial(take_all, iterator, seen)):
            break
        trial.check(iterator.step == len(seen), "torn", (iterator.step, len(seen)))
        trial.check(seen == expected[: len(seen)], "lost or repeated", seen[-3:])
        if number % 16 == 0:
            state = rs.loads(rs.dumps(iterator.get_state()))
            with pipeline.resume(state) as resumed:
                found = list(itertools.islice(resumed, 2))
            trial.check(found == expected[len(seen) :][:2], "wrong resume", (len(seen), found))
    trial.check(seen == expected, "lost or repeated", len(seen))
    while trial.interrupted(iterator.close):
        pass
    iterator.close()


def end(pipeline: rs.Pipeline[Any], trial: Trial) -> None:
    """Close passes that have just begun."""
    with pipeline.start() as whole:
        expected = list(itertools.islice(whole, 5))
    for _ in range(20):
        iterator = pipeline.start()
        seen = list(itertools.islice(iterator, 3))
        while trial.interrupted(iterator.close):
            pass
        state = iterator.get_state()
        iterator.close()
        with pipeline.resume(state) as resumed:
            seen += itertools.islice(resumed, 2)
        trial.check(seen == expected, "wrong resume", seen)


def restore(pipeline: rs.Pipeline[Any], trial: Trial) -> None:
    """Go to and fro between states."""
    with pipeline.start() as whole:
        states, expected = [whole.get_state()], []
        for item in whole:
            expected.append(item)
            states.append(whole.get_state())
    iterator = pipeline.start()
    here = 0
    for place in random.Random(1).choices(range(len(states)), k=40):
        while True:
            again = trial.interrupted(partial(iterator.set_state, states[place]))
            step = iterator.step
            trial.check(step in (here, place), "torn", (here, place, step))
            state = iterator.get_state()
            trial.check(state["step"] == step, "torn", (state, step))
            with pipeline.resume(state) as resumed:
                theirs = list(itertools.islice(resumed, 1))
            ours = list(itertools.islice(iterator, 1))
            trial.check(theirs == ours == expected[step : step + 1], "torn", (step, theirs, ours))
            here = iterator.step
            if not again:
                break
    iterator.close()


def train(folder: Path, asynchronous: bool, pipeline: rs.Pipeline[Any], trial: Trial) -> None:
    """A loop that saves every third step."""
    shutil.rmtree(folder, ignore_errors=True)
    with pipeline.start() as whole:
        expected = list(whole)
    seen: list[Any] = []
    checkpointer = rs.Checkpointer(folder, rs.EverySteps(3), asynchronous=asynchronous)
    loop = checkpointer.resume(pipeline)
    while trial.interrupted(partial(take_all, loop, seen)):
        trial.check(checkpointer.step == len(seen), "torn", (checkpointer.step, len(seen)))
    trial.check(seen == expected, "lost or repeated", len(seen))
    while trial.interrupted(partial(checkpointer.__exit__, None)):
        pass
    checkpointer.close()
    steps = checkpointer.steps()
    wanted = sorted({*range(3, len(expected) + 1, 3), len(expected)})
    trial.check(steps == wanted, "saves lost or repeated", sorted({*steps} ^ {*wanted}))
    for step in steps[:: max(len(steps) // 4, 1)]:
        state = decode(checkpointer.store.load(step)).state
        with pipeline.resume(state) as resumed:
            found = list(itertools.islice(resumed, 2))
        trial.check(found == expected[step:][:2], "wrong resume", (step, found))
    trial.check(not list(folder.glob(".tmp-*")), "unfinished file", folder)


def leave(folder: Path, asynchronous: bool, pipeline: rs.Pipeline[Any], trial: Trial) -> None:
    """One interrupt, which ends the loop and its `with` block, as Ctrl-C does."""
    shutil.rmtree(folder, ignore_errors=True)

    def run() -> None:
        with rs.Checkpointer(folder, rs.EverySteps(1), asynchronous=asynchronous) as checkpointer:
            for _ in checkpointer.resume(pipeline):
                pass

    trial.interrupted(run)
    gc.collect()
    with rs.Checkpointer(folder, rs.AtEnd()) as checkpointer:
        item = next(checkpointer.resume(pipeline), None)
        step = checkpointer.step
    with pipeline.start() as whole:
        whole.skip(max(step - 1, 0))
        trial.check(item == next(whole, None), "wrong resume", (step, item))


def scenarios(folder: Path) -> dict[str, Callable[[Trial], None]]:
    """What is interrupted, by name."""
    found: dict[str, Callable[[Trial], None]] = {
        name: partial(iterate, pipeline) for name, pipeline in PIPELINES.items()
    }
    plain, prefetch = PIPELINES["plain"], PIPELINES["prefetch"]
    for name in ("plain", "prefetch", "thread workers", "process workers"):
        found[f"close of {name}"] = partial(end, PIPELINES[name])
    found["set_state"] = partial(restore, plain)
    found["set_state of a prefetch"] = partial(restore, prefetch)
    for asynchronous, word in ((False, "synchronous"), (True, "asynchronous")):
        found[f"loop, {word} saves"] = partial(train, folder, asynchronous, plain)
        found[f"prefetched loop, {word} saves"] = partial(train, folder, asynchronous, prefetch)
        found[f"end of a loop, {word} saves"] = partial(leave, folder, asynchronous, plain)
    return found


SHARES = {"process workers": 0.01, "close of process workers": 0.01}
"""Of the interrupts, where one takes long, compared with the others."""


def campaign(interrupts: int, seed: int, only: Collection[str] = ("",)) -> Report:
    """At least so many interrupts, in equal parts over the scenarios and kinds of exceptions.

    ``only`` those with one of these in their names.
    """
    report = Report()
    others = set(descendants(os.getpid()))
    choose = random.Random(seed)
    folder = Path(tempfile.mkdtemp(prefix="interrupts-", dir=_fast_folder()))
    # pytest's keeps the tracebacks of what was raised while something was dropped, and with them
    # what was to be dropped.
    hook, sys.unraisablehook = sys.unraisablehook, sys.__unraisablehook__
    try:
        found = scenarios(folder / "run")
        chosen = {name: found[name] for name in found if any(part in name for part in only)}
        total = sum(SHARES.get(name, 1.0) for name in chosen) * len(KINDS)
        for (name, run), kind in itertools.product(chosen.items(), KINDS):
            label = f"{name}, {kind}"
            wanted = interrupts * SHARES.get(name, 1.0) / total
            with Alarm(KINDS[kind], choose) as alarm:
                while alarm.rung < wanted:
                    run(Trial(report, label, alarm))
            _check_nothing_left(report, label, others)
    finally:
        sys.unraisablehook = hook
        shutil.rmtree(folder, ignore_errors=True)
    return report


def _check_nothing_left(report: Report, label: str, others: set[int]) -> None:
    """No thread and no process but those of ``others``, one second after all was closed."""
    gc.collect()
    ends = time.monotonic() + 1
    while (left := _left(others)) and time.monotonic() < ends:
        time.sleep(0.01)
    for one in left:
        report.fault("left behind", (label, one))


def _left(others: set[int]) -> list[str]:
    threads = [one.name for one in threading.enumerate() if one.name.startswith("resumable")]
    children = [
        command for number, command in descendants(os.getpid()).items() if number not in others
    ]
    return threads + children


def _fast_folder() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def main() -> int:
    """Run a campaign and print what it found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--interrupts", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", default=[""], help="parts of names of scenarios")
    options = parser.parse_args()
    began = time.monotonic()
    report = campaign(options.interrupts, options.seed, options.only)
    print(report)
    print(f"{time.monotonic() - began:.0f} s, Python {sys.version.split()[0]}")
    return bool(report.faults)


if __name__ == "__main__":
    sys.exit(main())
