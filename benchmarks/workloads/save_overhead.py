"""The loop of `python_map` with saves every 1, 10 and 100 steps, in the loop and in a thread."""

# The steps of that loop do nothing with a batch, so a save weighs more than it would in training.
# Two more tables have steps that last a few milliseconds. In one, Python code computes without a
# pause, so a thread that writes has to take the interpreter's lock from it. In the other, the loop
# waits, as for an accelerator, and the lock is free. A save by hand, with only the system calls of
# a durable file, shows the cost of the disk.

from __future__ import annotations

import gc
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import resumable as rs
from benchmarks.result import Claim, Options, Result, Table, at_most
from benchmarks.timings import shown
from benchmarks.work import SEED

MINUTES: Final = 7

NONE = "no saves"
EVERY = (1, 10, 100)
BY_HAND = "every 100, by hand"
BATCH = 256
STEP_SECONDS = 0.005
TRAINED_ROUNDS = 2

Step: TypeAlias = Callable[[], object]
Way: TypeAlias = Callable[[rs.Pipeline[Any], Path], AbstractContextManager[Iterator[Any]]]
"""A way of saving; entering its context does all that is done before the first step."""


def run(options: Options) -> Result:
    """Time the loop with each way of saving, in turns."""
    result = Result("save_overhead", (__doc__ or "").splitlines()[0])
    many, few = (8, 10) if options.quick else (3907, 300)
    # In long steps a save weighs so little that only more rounds tell it from noise.
    more = options if options.quick else replace(options, rounds=TRAINED_ROUNDS * options.rounds)
    each = f"{1e3 * STEP_SECONDS:g} ms"
    for title, step, steps, of_these in (
        ("the loop of python_map", _do_nothing, many, options),
        (f"steps of {each} of Python code", _compute, few, more),
        (f"steps of {each} of waiting", _wait, few, more),
    ):
        seconds = _race(of_these, BATCH * steps, step, title)
        result.tables.append(_table(title, seconds, steps))
        result.raw[title] = seconds
        if not options.quick:
            result.claims += _claims(seconds, title)
    return result


def _race(options: Options, count: int, step: Step, title: str) -> dict[str, list[float]]:
    """Seconds of each round, by way of saving; the order rotates."""
    ways: dict[str, Way] = {NONE: _without_saves, BY_HAND: _by_hand}
    for beside in (False, True):
        ways |= {_label(steps, beside): _checkpointed(steps, beside) for steps in EVERY}
    seconds: dict[str, list[float]] = {label: [] for label in ways}
    labels = list(ways)
    for turn in options.journal.turns(options.rounds, title):
        for label in labels[turn % len(labels) :] + labels[: turn % len(labels)]:
            measure = partial(_epoch, ways[label], count, step, options.folder)
            seconds[label].append(options.journal.once(title, label, turn, measure=measure))
    return seconds


def _epoch(way: Way, count: int, step: Step, place: Path) -> float:
    """Seconds of a loop, to the end of its last save."""
    pipeline = rs.range(count).shuffle(SEED).map(lambda i: 3 * i + 1).batch(BATCH)
    folder = Path(tempfile.mkdtemp(dir=place))
    gc.collect()
    with way(pipeline, folder) as loop:
        began = time.perf_counter()
        for _ in loop:
            step()
    return time.perf_counter() - began


def _label(steps: int, beside: bool) -> str:
    return f"every {steps}, {'asynchronous' if beside else 'synchronous'}"


def _without_saves(pipeline: rs.Pipeline[Any], folder: Path) -> rs.PipelineIterator[Any]:
    return pipeline.start()


@contextmanager
def _by_hand(pipeline: rs.Pipeline[Any], folder: Path) -> Iterator[Iterator[Any]]:
    def saved(iterator: rs.PipelineIterator[Any]) -> Iterator[Any]:
        for number, batch in enumerate(iterator, 1):
            yield batch
            if number % 100 == 0:
                _write_durably(folder / f"{number}.ckpt", rs.dumps(iterator.get_state()))

    with pipeline.start() as iterator:
        yield saved(iterator)


def _write_durably(path: Path, data: bytes) -> None:
    """The least work that leaves a whole file or none after a power cut."""
    temporary = path.with_suffix(".tmp")
    with open(temporary, "xb", buffering=0) as file:
        file.write(data)
        os.fsync(file.fileno())
    os.rename(temporary, path)
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def _checkpointed(steps: int, beside: bool) -> Way:
    @contextmanager
    def way(pipeline: rs.Pipeline[Any], folder: Path) -> Iterator[Iterator[Any]]:
        """Our saves; the end of an asynchronous loop waits for the save in work."""
        with rs.Checkpointer(
            folder,
            rs.EverySteps(steps),
            retention=rs.Retention(5),
            asynchronous=beside,
            when_busy="skip" if beside else "wait",
            save_at_end=False,
        ) as checkpointer:
            yield checkpointer.resume(pipeline)

    return way


def _do_nothing() -> None:
    pass


def _compute() -> None:
    """Run Python code for the time of a step."""
    done = time.perf_counter() + STEP_SECONDS
    while time.perf_counter() < done:
        pass


def _wait() -> None:
    """Wait for the time of a step; by polling at the end, since a long sleep may take longer."""
    done = time.perf_counter() + STEP_SECONDS
    time.sleep(0.8 * STEP_SECONDS)
    while time.perf_counter() < done:
        time.sleep(0)


def _overhead(seconds: dict[str, list[float]], label: str) -> float:
    """The time beyond that without saves, in percent: the median over the rounds."""
    return statistics.median(_overheads(seconds, label))


def _overheads(seconds: dict[str, list[float]], label: str) -> list[float]:
    pairs = zip(seconds[label], seconds[NONE], strict=True)
    return [100 * (mine / none - 1) for mine, none in pairs]


def _table(title: str, seconds: dict[str, list[float]], steps: int) -> Table:
    rows = [
        (
            label,
            shown([1e3 * one for one in each], 1),
            shown([1e6 * one / steps for one in each], 1),
            "" if label == NONE else shown(_overheads(seconds, label), 1),
        )
        for label, each in seconds.items()
    ]
    return Table(title, ("saves", "epoch, ms", "step, µs", "more, %"), rows)


def _claims(seconds: dict[str, list[float]], where: str) -> list[Claim]:
    chosen = _label(100, beside=False), _label(10, beside=True)
    return [at_most(f"{where}: {label}", _overhead(seconds, label), 2, "%") for label in chosen]
