"""Time contestants by the processor, in one process and in turns, and compare what they deliver."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

from benchmarks.result import Options, Result, Table
from benchmarks.timings import spread

__all__ = ["Ways", "add_table", "race", "ratio", "scan_seconds"]

Ways: TypeAlias = dict[str, Callable[[], Iterable[Any]]]
"""How each contestant begins an epoch."""


def race(
    ways: Ways,
    options: Options,
    count: int,
    look_at: Callable[[Any], int],
    what: str,
    until: float = 1.0,
) -> dict[str, list[float]]:
    """Seconds of the processor for an epoch in each round, by way; the order rotates.

    Args:
      ways: of the contestants.
      options: with the rounds and the journal.
      count: of items that each must deliver.
      look_at: makes a number of an item; the sums must be equal.
      what: is raced for, if a workload has several races.
      until: see `Journal.turns`.

    Raises:
      AssertionError: naming a contestant that delivers something else.
    """
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    labels, expected = list(ways), None
    for start in ways.values():  # imports, and first calls
        next(iter(start()))
    journal = options.journal
    for turn in journal.turns(options.rounds, what, until=until):
        for way in labels[turn % len(labels) :] + labels[: turn % len(labels)]:
            measure = partial(_epoch, ways[way], look_at)
            taken, delivered, total = journal.once(what, way, turn, measure=measure)
            seconds[way].append(taken)
            expected = expected or total
            assert (delivered, total) == (count, expected), f"{way} delivers other items"
    return seconds


def _epoch(start: Callable[[], Iterable[Any]], look_at: Callable[[Any], int]) -> list[Any]:
    """Seconds of the processor for an epoch, the number of its items, and the sum of what they have."""
    delivered = total = 0
    began = time.process_time()
    for item in start():
        delivered += 1
        total += look_at(item)
    return [time.process_time() - began, delivered, total]


def ratio(seconds: Mapping[str, list[float]], way: str, other: str) -> float:
    """The time of one way as a multiple of another's: the median over the rounds."""
    return statistics.median(_ratios(seconds, way, other))


def add_table(
    result: Result, title: str, item: str, seconds: Mapping[str, list[float]], ours: str, count: int
) -> None:
    """Add to ``result`` what each contestant took for ``count`` items, and as a multiple of ``ours``.

    Args:
      result: of the workload.
      title: of the table.
      item: what the contestants deliver, in the singular.
      seconds: as `race` returns them.
      ours: the way with which the others are compared.
      count: of items in an epoch.
    """
    header = ("", f"µs a {item}", "its time ÷ that of resumable in order (quartiles)")
    rows = [(way, *_cells(seconds, way, ours, count)) for way in seconds]
    result.tables.append(Table(title, header, rows))
    result.raw[title] = dict(seconds)


def _cells(seconds: Mapping[str, list[float]], way: str, ours: str, count: int) -> tuple[str, str]:
    """Microseconds an item, and the time as a multiple of ours, with quartiles."""
    each = 1e6 * statistics.median(seconds[way]) / count
    ratios = spread(_ratios(seconds, way, ours))
    return f"{each:.2f}", "{:.2f} ({:.2f} to {:.2f})".format(*ratios)


def _ratios(seconds: Mapping[str, list[float]], way: str, other: str) -> list[float]:
    return [mine / theirs for mine, theirs in zip(seconds[way], seconds[other], strict=True)]


def scan_seconds(opener: Callable[..., object], paths: Iterable[str]) -> float:
    """Seconds of the processor to open files whose indexes are not there yet."""
    with TemporaryDirectory() as folder:
        began = time.process_time()
        for path in paths:
            opener(path, index_dir=folder)
        return time.process_time() - began
