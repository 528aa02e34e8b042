"""A million integers: shuffle, a Python function of each, batches of 256."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from benchmarks.race import race
from benchmarks.result import Claim, Options, Result, at_least, at_most
from benchmarks.timings import Timings
from benchmarks.work import SEED, Integers, Work

MINUTES: Final = 6


def works(options: Options) -> dict[str, Work]:
    """The function does next to nothing, so that the work around it counts."""
    count = 10_000 if options.quick else 1_000_000
    return {"python-map": Work(Integers(count), shuffle=True, map=lambda i: 3 * i + 1, batch=256)}


def bare(work: Work) -> Iterator[Any]:
    """A permutation, and a list comprehension over each part of it."""
    assert work.map is not None
    assert work.batch is not None
    fn = work.map
    order = np.random.default_rng(SEED).permutation(len(work.source))
    for begin in range(0, len(order), work.batch):
        part = order[begin : begin + work.batch]
        yield np.asarray([fn(i) for i in part.tolist()])


def claims(timings: dict[str, Timings]) -> list[Claim]:
    """The limits of the speed budget."""
    mapped = timings["python-map"]
    return [
        at_most("resumable's time ÷ the bare loop's", mapped.of_bare, 1.2),
        at_least("the best peer's time ÷ resumable's", mapped.of_best_peer, 2.5),
    ]


def run(options: Options) -> Result:
    """Time all contestants."""
    return race(options, __name__, claims)
