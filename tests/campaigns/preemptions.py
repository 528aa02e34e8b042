"""Send SIGTERM to a training loop at random moments, and check what it leaves.

Run as `PYTHONPATH=tests python -m campaigns.preemptions --signals 500`; the suite runs a short form.
"""

# Each loop tells through a pipe when it can be signalled, the number of each step whose work is
# done, and at the end whether the previous handler is back.

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import signal
import struct
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from campaigns.harness import (
    command_line,
    fresh_folders,
    kill,
    run_campaign,
    start_telling,
    status_of,
)

import resumable as rs

LONGEST_WAIT = 0.02
SLOW = 0.002
PATIENCE = 20
RECORD = struct.Struct("<q")
RESTORED, NOT_RESTORED = -1, -2
NUMBERS = rs.range(10**6).shuffle(1)


@dataclass(frozen=True)
class Mode:
    """Where a loop spends its time, and what it is sent.

    Attributes:
      pipeline: makes the input.
      working: seconds of a training step.
      saving: seconds of a save, and a save every step if there are any.
      signals: how many are sent, one right after the other.
      group: whether they go to the whole process group.
      asynchronous: as in `Checkpointer`.
    """

    pipeline: Callable[[], rs.Pipeline[Any]] = lambda: NUMBERS.map(abs)
    working: float = 0.0
    saving: float = 0.0
    signals: int = 1
    group: bool = False
    asynchronous: bool = False


def slowly(item: int) -> int:
    """The item, after a while."""
    time.sleep(SLOW)
    return item


def in_processes() -> rs.Pipeline[Any]:
    """A pipeline whose workers die of the same signal."""
    pool = ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork"))
    return NUMBERS.map(slowly, workers=2, executor=pool)


MODES = {
    "iterating": Mode(pipeline=lambda: NUMBERS.map(slowly)),
    "in the training step": Mode(working=SLOW),
    "in a save": Mode(saving=SLOW),
    "in an asynchronous save": Mode(saving=SLOW, asynchronous=True),
    "twice in a row": Mode(working=SLOW, signals=2),
    "the group, with threads": Mode(
        pipeline=lambda: NUMBERS.map(slowly, workers=2).prefetch(2), group=True
    ),
    "the group, with processes": Mode(pipeline=in_processes, group=True, signals=2),
}


@dataclass
class Report:
    """What a campaign found."""

    signals: int = 0
    steps: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        """Whether nothing was wrong."""
        return not self.problems

    def __str__(self) -> str:
        counted = f"{self.signals} signals, {self.steps} steps, {len(self.problems)} problems"
        return "\n".join([*self.problems, counted])


def slow_disk(seconds: float) -> None:
    """Let the two `fsync` of a save take so many seconds."""
    real: Any = os.fsync

    def fsync(descriptor: Any) -> None:
        time.sleep(seconds / 2)
        real(descriptor)

    vars(os)["fsync"] = fsync


def campaign(signals: int, seed: int, folder: Path) -> Report:
    """Interrupt ``signals`` loops, in all modes alike."""
    chosen = random.Random(seed)
    report = Report()
    for number, place in zip(range(signals), fresh_folders(folder, 1), strict=False):
        name = list(MODES)[number % len(MODES)]
        problem = _one_life(MODES[name], place, chosen.uniform(0, LONGEST_WAIT), report)
        if problem is not None:
            report.problems.append(f"{name}: {problem}")
        report.signals += 1
    return report


def _one_life(mode: Mode, folder: Path, seconds: float, report: Report) -> str | None:
    """Interrupt one loop after ``seconds``; returns what is wrong with what it left."""
    own_handler = random.Random(seconds).random() < 0.5
    child, pipe = start_telling(partial(_train, mode, folder, own_handler))
    with pipe:
        assert pipe.read(RECORD.size) == RECORD.pack(0), "the loop did not begin"
        time.sleep(seconds)
        for _ in range(mode.signals):
            with contextlib.suppress(ProcessLookupError):
                (os.killpg if mode.group else os.kill)(child, signal.SIGTERM)
        status = _end_of(child)
        with contextlib.suppress(ProcessLookupError):  # workers that outlived it
            os.killpg(child, signal.SIGKILL)
        records = [record for (record,) in RECORD.iter_unpack(_rest_of(pipe))]
    if status != 0:
        return f"it ended with {status}"
    if not records or records.pop() != RESTORED:
        return "the previous handler is not back"
    finished = records[-1] if records else 0
    report.steps += finished
    checkpoint = rs.Checkpointer(folder, rs.AtEnd()).latest()
    if checkpoint is None or checkpoint.step != finished:
        return f"{finished} steps were finished, the newest checkpoint is {checkpoint}"
    with NUMBERS.map(abs).resume(checkpoint.state) as iterator:
        return None if next(iterator) == NUMBERS[finished] else "it resumes at another item"


def _end_of(child: int) -> int | str:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if (status := status_of(child)) is not None:
            return status
        time.sleep(0.001)
    kill(child)
    return f"SIGKILL, since it had not ended after {PATIENCE} s"


def _rest_of(pipe: Any) -> bytes:
    # Not to the end of the file: a worker that outlives its parent holds the pipe open.
    os.set_blocking(pipe.fileno(), False)
    return b"".join(iter(lambda: pipe.read(1 << 16) or b"", b""))


def _train(mode: Mode, folder: Path, own_handler: bool, descriptor: int) -> None:
    """Train until asked to stop."""
    os.setsid()
    signal.signal(signal.SIGTERM, _note if own_handler else signal.SIG_DFL)
    previous = signal.getsignal(signal.SIGTERM)
    if mode.saving:
        slow_disk(mode.saving)
    warnings.filterwarnings("ignore", "the pipeline failed after a signal to stop")
    for record in _records(mode, folder):
        os.write(descriptor, RECORD.pack(record))
    back = signal.getsignal(signal.SIGTERM) is previous
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.write(descriptor, RECORD.pack(RESTORED if back else NOT_RESTORED))


def _note(number: int, frame: object) -> None:
    """A handler of somebody else."""


def _records(mode: Mode, folder: Path) -> Iterator[int]:
    """0 once the loop can be signalled, then each step whose work is done."""
    trigger = rs.OnSignal(signal.SIGTERM) | rs.EverySteps(1 if mode.saving else 10**6)
    with rs.Checkpointer(
        folder, trigger, stop_on_signal=True, asynchronous=mode.asynchronous
    ) as checkpointer:
        loop = checkpointer.resume(mode.pipeline())
        yield 0
        for _ in loop:
            time.sleep(mode.working)
            yield checkpointer.step


def main() -> int:
    """Run a campaign; 0 if nothing was wrong."""
    options = command_line(__doc__, signals=500).parse_args()
    run = partial(campaign, options.signals, options.seed)
    return run_campaign(run, "preemptions", options.folder, printed="{report}, {seconds:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
