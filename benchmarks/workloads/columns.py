"""Small images and labels in memory: shuffle, batches of 256."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from benchmarks.race import race
from benchmarks.result import Claim, Options, Result, at_least, at_most
from benchmarks.timings import Timings
from benchmarks.work import SEED, Arrays, Work

MINUTES: Final = 12


def works(options: Options) -> dict[str, Work]:
    """Items as in CIFAR-10: 32 × 32 × 3 bytes and an integer each."""
    count = 1_000 if options.quick else 50_000
    rng = np.random.default_rng(SEED)
    images = rng.integers(0, 256, (count, 32, 32, 3), np.uint8)
    labels = rng.integers(0, 10, count)
    return {"columns": Work(Arrays({"image": images, "label": labels}), shuffle=True, batch=256)}


def bare(work: Work) -> Iterator[Any]:
    """A permutation, and a take of each part of it."""
    assert isinstance(work.source, Arrays)
    assert work.batch is not None
    x, y = work.source.columns.values()
    order = np.random.default_rng(SEED).permutation(len(x))
    for begin in range(0, len(x), work.batch):
        part = order[begin : begin + work.batch]
        yield x.take(part, 0), y.take(part, 0)


def claims(timings: dict[str, Timings]) -> list[Claim]:
    """The limits of the speed budget."""
    columns = timings["columns"]
    return [
        at_most("resumable's time ÷ the bare loop's", columns.of_bare, 1.1),
        at_least("the best peer's time ÷ resumable's", columns.of_best_peer, 4),
        at_least("Grain's time ÷ resumable's", columns.of_peer("grain"), 40),
    ]


def run(options: Options) -> Result:
    """Time all contestants."""
    return race(options, __name__, claims)
