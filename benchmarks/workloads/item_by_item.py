"""Integers one by one: a function of each, and a filter; no batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from benchmarks.race import race
from benchmarks.result import Claim, Options, Result, at_least, at_most
from benchmarks.timings import Timings
from benchmarks.work import Integers, Work

MINUTES: Final = 5


def works(options: Options) -> dict[str, Work]:
    """Two functions that do next to nothing."""
    count = 2_000 if options.quick else 200_000
    return {
        "item-by-item": Work(Integers(count), map=lambda i: 3 * i + 1, keep=lambda i: i % 2 == 0)
    }


def bare(work: Work) -> Iterator[Any]:
    """A generator expression."""
    fn, keep = work.map, work.keep
    assert fn is not None
    assert keep is not None
    return (y for y in (fn(i) for i in range(len(work.source))) if keep(y))


def claims(timings: dict[str, Timings]) -> list[Claim]:
    """The limits of the speed budget."""
    items = timings["item-by-item"]
    return [
        at_most("resumable's time ÷ the generator expression's", items.of_bare, 1.5),
        at_least("the best peer's time ÷ resumable's", items.of_best_peer, 1),
    ]


def run(options: Options) -> Result:
    """Time all contestants."""
    return race(options, __name__, claims)
