"""The loop of `python_map` with saves every 1, 10 and 100 steps, in the loop and beside it."""

# The steps of that loop do nothing with a batch, so a save weighs more than it would beside
# training; a second table has the same for steps that last a few milliseconds.

from __future__ import annotations

import gc
import statistics
import time
from pathlib import Path

import resumable as rs
from benchmarks.result import Claim, Options, Result, Table, at_most
from benchmarks.work import SEED

NONE = "no saves"
EVERY = (1, 10, 100)
STEP_SECONDS = 0.005


def run(options: Options) -> Result:
    """Time the loop with each way of saving, in turns."""
    count = 2_000 if options.quick else 1_000_000
    result = Result("save_overhead", (__doc__ or "").splitlines()[0])
    bare = _race(options, count, 0.0, EVERY)
    result.tables.append(_table("steps that do nothing", bare, -(-count // 256)))
    steps = 10 if options.quick else 300
    trained = _race(options, 256 * steps, STEP_SECONDS, EVERY)
    result.tables.append(_table(f"steps of {1e3 * STEP_SECONDS:g} ms", trained, steps))
    result.raw = {"nothing": bare, "training": trained}
    if not options.quick:
        result.claims = _claims(bare, "the loop of python_map")
        result.claims += _claims(trained, f"steps of {1e3 * STEP_SECONDS:g} ms")
    return result


def _race(
    options: Options, count: int, step_seconds: float, every: tuple[int, ...]
) -> dict[str, list[float]]:
    """Seconds of each round, by the way of saving; the order rotates."""
    ways: dict[str, tuple[int, bool] | None] = {NONE: None}
    ways |= {_label(steps, beside): (steps, beside) for beside in (False, True) for steps in every}
    seconds: dict[str, list[float]] = {label: [] for label in ways}
    labels = list(ways)
    for turn in range(options.rounds):
        for label in labels[turn % len(labels) :] + labels[: turn % len(labels)]:
            folder = options.folder / f"saves-{count}-{turn}-{label.replace(' ', '-')}"
            gc.collect()
            seconds[label].append(_seconds(count, step_seconds, ways[label], folder))
    return seconds


def _label(steps: int, beside: bool) -> str:
    return f"every {steps}, {'asynchronous' if beside else 'synchronous'}"


def _seconds(count: int, step_seconds: float, way: tuple[int, bool] | None, folder: Path) -> float:
    """Of one pass; the end of an asynchronous one waits for what is being written."""
    pipeline = rs.range(count).shuffle(SEED).map(lambda i: 3 * i + 1).batch(256)
    began = time.perf_counter()
    if way is None:
        for _ in pipeline:
            _train(step_seconds)
        return time.perf_counter() - began
    steps, beside = way
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
    return time.perf_counter() - began


def _train(seconds: float) -> None:
    """Wait as for an accelerator."""
    if seconds:
        time.sleep(seconds)


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
