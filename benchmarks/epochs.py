"""Time an epoch: short epochs are repeated, long ones are stopped and scaled."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from itertools import islice
from typing import Any

from benchmarks.work import Start, Work

__all__ = ["LONGEST", "seconds_of_an_epoch"]

SHORTEST = 1.0
LONGEST = 1.0
PORTION = 64  # items or batches between two looks at the clock


def seconds_of_an_epoch(start: Start, work: Work, expected: int, once: bool = False) -> float:
    """Seconds from the making of the iterator to its end.

    Args:
      start: makes the iterator.
      work: what is measured.
      expected: items or batches of an epoch.
      once: see below.

    Unless ``once``, epochs are repeated until they have taken `SHORTEST` seconds together, and the
    mean is returned. An epoch is stopped `LONGEST` seconds after its first item or batch, and the
    time since then is scaled to all the others; the time before, with what is done once, is not. If
    the first items are untimed, while workers start, the end is not timed either.
    """
    gc.collect()
    batches = expected - work.untimed
    epochs: list[float] = []
    while sum(epochs) < SHORTEST:
        epochs.append(_one(start, work.untimed, batches))
        if once:
            break
    return sum(epochs) / len(epochs)


def _one(start: Start, untimed: int, batches: int) -> float:
    clock = time.perf_counter
    began = clock()
    items: Iterator[Any] = iter(start())
    if untimed:
        _consume(items, untimed)
        began = clock()
    _consume(items, 1)
    first = clock() - began
    done = 1
    while done < batches and clock() - began - first < LONGEST:
        portion = min(PORTION, batches - done)
        _consume(items, portion)
        done += portion
    if done == batches and not untimed:
        _consume(items, 1)  # this finds the end
    seconds = clock() - began
    if done < batches:
        return first + (seconds - first) * (batches - 1) / (done - 1)
    return seconds


def _consume(items: Iterator[Any], count: int) -> None:
    for _ in islice(items, count):
        pass
