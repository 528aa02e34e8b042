"""The loop of `python_map` with saves every 1, 10 and 100 steps, in the loop and beside it."""

# The steps of that loop do nothing with a batch, so a save weighs more than it would beside
# training; a second table has the same for steps that last a few milliseconds. What a save costs
# by hand, with the system calls of a durable file and nothing else, is that of the disk.

from __future__ import annotations

import gc
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import resumable as rs
from benchmarks.result import Claim, Options, Result, Table, at_most
from benchmarks.work import SEED

NONE = "no saves"
EVERY = (1, 10, 100)
BY_HAND = "every 100, by hand"
BATCH = 256
STEP_SECONDS = 0.005
TRAINED_ROUNDS = 3

Way: TypeAlias = Callable[[rs.Pipeline[Any], float, Path], None]


def run(options: Options) -> Result:
    """Time the loop with each way of saving, in turns."""
    count = 2_000 if options.quick else 1_000_000
    result = Result("save_overhead", (__doc__ or "").splitlines()[0])
    bare = _race(options, count, 0.0)
    result.tables.append(_table("steps that do nothing", bare, -(-count // BATCH)))
    steps = 10 if options.quick else 300
    # A save weighs so little there that more rounds are needed to tell it from the clock's noise.
    more = options if options.quick else replace(options, rounds=TRAINED_ROUNDS * options.rounds)
    trained = _race(more, BATCH * steps, STEP_SECONDS)
    result.tables.append(_table(f"steps of {1e3 * STEP_SECONDS:g} ms", trained, steps))
    result.raw = {"nothing": bare, "training": trained}
    if not options.quick:
        result.claims = _claims(bare, "the loop of python_map")
        result.claims += _claims(trained, f"steps of {1e3 * STEP_SECONDS:g} ms")
    return result


def _race(options: Options, count: int, step_seconds: float) -> dict[str, list[float]]:
    """Seconds of each round, by the way of saving; the order rotates."""
    ways: dict[str, Way] = {NONE: _without_saves, BY_HAND: _by_hand}
    for beside in (False, True):
        ways |= {_label(steps, beside): _checkpointed(steps, beside) for steps in EVERY}
    seconds: dict[str, list[float]] = {label: [] for label in ways}
    labels = list(ways)
    for turn in range(options.rounds):
        for label in labels[turn % len(labels) :] + labels[: turn % len(labels)]:
            pipeline = rs.range(count).shuffle(SEED).map(lambda i: 3 * i + 1).batch(BATCH)
            folder = Path(tempfile.mkdtemp(dir=options.folder))
            gc.collect()
            began = time.perf_counter()
            ways[label](pipeline, step_seconds, folder)
            seconds[label].append(time.perf_counter() - began)
    return seconds


def _label(steps: int, beside: bool) -> str:
    return f"every {steps}, {'asynchronous' if beside else 'synchronous'}"


def _without_saves(pipeline: rs.Pipeline[Any], step_seconds: float, folder: Path) -> None:
    for _ in pipeline:
        _train(step_seconds)


def _by_hand(pipeline: rs.Pipeline[Any], step_seconds: float, folder: Path) -> None:
    with iter(pipeline) as iterator:
        for step, _ in enumerate(iterator, 1):
            _train(step_seconds)
            if step % 100 == 0:
                _write_durably(folder / f"{step}.ckpt", rs.dumps(iterator.get_state()))


def _write_durably(path: Path, data: bytes) -> None:
    """As little as leaves a whole file or none after a power cut."""
    temporary = path.with_suffix(".tmp")
    with open(temporary, "xb", buffering=0) as file:
        file.write(data)
        os.fsync(file.fileno())
    os.rename(temporary, path)
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def _checkpointed(steps: int, beside: bool) -> Way:
    def way(pipeline: rs.Pipeline[Any], step_seconds: float, folder: Path) -> None:
        """The end of an asynchronous one waits for what is being written."""
        with rs.Checkpointer(
            folder,
            rs.EverySteps(steps),
            retention=rs.Retention(5),
            asynchronous=beside,
            when_busy="skip" if beside else "wait",
            save_at_end=False,
        ) as checkpointer:
            for _ in checkpointer.resume(pipeline):
                _train(step_seconds)

    return way


def _train(seconds: float) -> None:
    """Wait as for an accelerator that needs so long: in a loop, so that no sleep is in the figures."""
    done = time.perf_counter() + seconds
    while time.perf_counter() < done:
        pass


def _overhead(seconds: dict[str, list[float]], label: str) -> float:
    """Percent more than without saves: the median over the rounds."""
    pairs = zip(seconds[label], seconds[NONE], strict=True)
    return 100 * (statistics.median(mine / none for mine, none in pairs) - 1)


def _table(title: str, seconds: dict[str, list[float]], steps: int) -> Table:
    rows = [
        (
            label,
            f"{1e3 * statistics.median(each):.1f}",
            f"{1e6 * statistics.median(each) / steps:.1f}",
            "" if label == NONE else f"{_overhead(seconds, label):.1f}",
        )
        for label, each in seconds.items()
    ]
    return Table(title, ("saves", "pass, ms", "step, µs", "more, %"), rows)


def _claims(seconds: dict[str, list[float]], where: str) -> list[Claim]:
    chosen = _label(100, beside=False), _label(10, beside=True)
    return [at_most(f"{where}: {label}", _overhead(seconds, label), 2, "%") for label in chosen]
