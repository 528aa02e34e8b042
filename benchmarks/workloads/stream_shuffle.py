"""A stream of integers: shuffled in a window of 10,000, batches of 256."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from benchmarks.discovery import load, names
from benchmarks.race import race
from benchmarks.result import Claim, Options, Result, Table, at_least
from benchmarks.timings import Timings
from benchmarks.work import SEED, Stream, Work

MINUTES: Final = 5


def works(options: Options) -> dict[str, Work]:
    """The stream is cheap, so that the window counts."""
    count, window = (10_000, 1_000) if options.quick else (200_000, 10_000)
    source = Stream(lambda: iter(range(count)), count)
    return {"stream-shuffle": Work(source, window=window, batch=256)}


def bare(work: Work) -> Iterator[Any]:
    """Shuffle in a reservoir: a random slot gives its item and takes the next one."""
    assert isinstance(work.source, Stream)
    assert work.batch is not None
    batch: list[int] = []
    for item in reservoir(work.source.make(), work.window or 1, len(work.source)):
        batch.append(item)
        if len(batch) == work.batch:
            yield np.asarray(batch)
            batch = []
    if batch:
        yield np.asarray(batch)


def reservoir(items: Iterator[int], window: int, length: int) -> Iterator[int]:
    """The items in the order of random slots."""
    rng = np.random.default_rng(SEED)
    held = [item for _, item in zip(range(window), items, strict=False)]
    for slot, item in zip(rng.integers(0, window, length).tolist(), items, strict=False):
        yield held[slot]
        held[slot] = item
    yield from (held[slot] for slot in rng.permutation(len(held)).tolist())


def claims(timings: dict[str, Timings]) -> list[Claim]:
    """The limit, against those peers whose buffer is the same after a resume."""
    exact = [peer for peer in names("peers") if load("peers", peer).EXACT_WINDOW.startswith("yes")]
    others = [peer for peer in exact if peer != "resumable"]
    return [
        at_least(
            "the time of the best peer that resumes its buffer exactly ÷ resumable's",
            timings["stream-shuffle"].of_peer(*others),
            3,
        )
    ]


def run(options: Options) -> Result:
    """Time all contestants, and say whether their buffer survives a resume."""
    result = race(options, __name__, claims)
    peers = [load("peers", name) for name in names("peers")]
    rows = [(peer.NAME, peer.EXACT_WINDOW) for peer in peers]
    title = "Whether a resume continues with the same buffer"
    result.tables.append(Table(title, ("contestant", "exact"), [tuple(row) for row in rows]))
    return result
