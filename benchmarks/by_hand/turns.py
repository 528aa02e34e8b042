"""Time epochs in one process, in turns, so that a slow minute of the machine slows all alike."""

from __future__ import annotations

import gc
import time
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from benchmarks.journal import Journal
from benchmarks.work import Start

__all__ = ["INSTANT", "take_turns"]

Key = TypeVar("Key", bound=Hashable)

SHORTEST = 0.02
INSTANT = 0.001
"""The longest time of an epoch whose figures mean nothing."""


def take_turns(
    epochs: Mapping[Key, Start],
    rounds: int,
    longest: float,
    journal: Journal | None = None,
    what: str = "",
    until: float = 1.0,
) -> dict[Key, list[float]]:
    """Seconds for an item or a batch in each round.

    Args:
      epochs: what begins each.
      rounds: how many there are at most.
      longest: seconds of an epoch.
      journal: what was measured so far.
      what: takes turns, if a workload has several such races.
      until: see `Journal.turns`.

    The order rotates, and is reversed in every other round, so that neighbours stay neighbours: the
    two times of a ratio are close together. Short epochs are repeated, and those that take more
    than ``longest`` seconds are stopped then.
    """
    shortest = min(SHORTEST, longest)
    journal = journal or Journal()
    counts = {
        key: journal.once(what, key, "count", measure=partial(_count, start, longest))
        for key, start in epochs.items()
    }
    seconds: dict[Key, list[float]] = {key: [] for key in epochs}
    keys = list(epochs)
    for turn in journal.turns(rounds, what, until=until):
        shift = turn * len(keys) // rounds
        order = keys[shift:] + keys[:shift]
        gc.collect()
        for key in order[::-1] if turn % 2 else order:
            measure = partial(_seconds_each, epochs[key], counts[key], shortest)
            seconds[key].append(journal.once(what, key, turn, measure=measure))
    return seconds


def _count(start: Start, longest: float) -> int:
    """How many items or batches an epoch delivers within ``longest`` seconds."""
    ends = time.perf_counter() + longest
    count = 0
    with _opened(start) as items:
        for _ in items:
            count += 1
            if time.perf_counter() > ends:
                break
    return count


def _seconds_each(start: Start, count: int, shortest: float) -> float:
    """Seconds for each of ``count``, over epochs of ``shortest`` seconds or more together."""
    epochs, taken = 0, 0.0
    while taken < shortest:
        began = time.perf_counter()
        with _opened(start) as items:
            for _ in islice(items, count + 1):  # one more finds the end
                pass
        taken += time.perf_counter() - began
        epochs += 1
    return taken / (epochs * count)


@contextmanager
def _opened(start: Start) -> Iterator[Iterator[Any]]:
    items = iter(start())
    try:
        yield items
    finally:
        if hasattr(items, "close"):
            items.close()
