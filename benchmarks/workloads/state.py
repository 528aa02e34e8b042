"""What a state costs: bytes, and time to take it, to write it and to restore it."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import resumable as rs
from benchmarks.result import Claim, Options, Result, Series, Table, at_most
from benchmarks.timings import spread
from benchmarks.work import SEED

MINUTES: Final = 3

FAR = 10**9
SIX_STAGES = "range, shuffle, map, batch(64), repeat, take"
SAVES = 4  # in a turn
FLAT = 2.0  # largest ratio between sizes: more than noise, less than growth


def six_stages(length: int) -> rs.Pipeline[Any]:
    """A random-access pipeline that is longer than `FAR` batches."""
    return rs.range(length).shuffle(SEED).map(abs).batch(64).repeat().take(10 * FAR)


def windowed(window: int) -> rs.Pipeline[Any]:
    """A shuffle in a window, over enough items to fill it."""
    return rs.range(20 * window).map(abs).shuffle(SEED, window=window).batch(64)


def prefetched(depth: int) -> rs.Pipeline[Any]:
    """Batches that a thread computes ahead."""
    return rs.range(10**9).shuffle(SEED).map(abs).batch(64).repeat().prefetch(depth)


class Place:
    """A pipeline at a position, and the measured costs of its state there.

    Args:
      pipeline: to be measured.
      position: batches passed over before.
      folder: for files.
    """

    def __init__(self, pipeline: rs.Pipeline[Any], position: int, folder: Path) -> None:
        self._pipeline = pipeline
        self._folder = folder
        self._iterator = pipeline.start()
        self._iterator.skip(position)
        next(self._iterator)
        self._data = rs.dumps(self._iterator.get_state())
        with pipeline.resume(rs.loads(self._data)) as again:
            self._expected = next(again)
        self._take: list[float] = []
        self._write: list[float] = []
        self._restore: list[float] = []

    def measure(self, calls: int) -> None:
        """Take the state ``calls`` times, write it `SAVES` times and restore it once."""
        self._take += _seconds_each(self._iterator.get_state, calls)
        self._write += _seconds_to_write(self._pipeline, self._data, self._folder)
        self._restore.append(_seconds_to_restore(self._pipeline, self._data, self._expected))

    def costs(self) -> dict[str, Any]:
        """The bytes; and of the seconds of each cost the median, and it with the quartiles."""
        self._iterator.close()
        seconds = {"take": self._take, "write": self._write, "restore": self._restore}
        medians = {key: statistics.median(each) for key, each in seconds.items()}
        spreads = {key: spread(each) for key, each in seconds.items()}
        return {"bytes": len(self._data), **medians, "spread": spreads}


def _seconds_each(fn: Callable[[], object], calls: int) -> list[float]:
    """Seconds of single calls, without the cost of reading the clock."""
    clock = time.perf_counter
    seconds, empty = [], []
    for _ in range(calls):
        began = clock()
        fn()
        ended = clock()
        seconds.append(ended - began)
        empty.append(clock() - ended)
    reading = statistics.median(empty)
    return [each - reading for each in seconds]


def _seconds_to_restore(pipeline: rs.Pipeline[Any], data: bytes, expected: Any) -> float:
    """Seconds from bytes up to and including the first item."""
    with pipeline.start() as iterator:
        began = time.perf_counter()
        iterator.set_state(rs.loads(data))
        item = next(iterator)
        seconds = time.perf_counter() - began
    assert (item == expected).all()
    return seconds


def _seconds_to_write(pipeline: rs.Pipeline[Any], data: bytes, folder: Path) -> list[float]:
    """Seconds of saves by a `Checkpointer` until they are durable."""
    seconds = []
    with rs.Checkpointer(
        tempfile.mkdtemp(dir=folder), rs.AtEnd(), save_at_end=False
    ) as checkpointer:
        loop = checkpointer.resume(pipeline)
        loop.iterator.set_state(rs.loads(data))
        for _ in range(SAVES):
            next(loop)
            began = time.perf_counter()
            checkpointer.save()
            seconds.append(time.perf_counter() - began)
    return seconds


def run(options: Options) -> Result:
    """Measure the six stages over length and position, the window and the prefetch over size."""
    top = 3 if options.quick else 6
    sweeps: dict[str, dict[int, dict[str, Any]]] = {}
    for title, (make, sizes) in {
        f"{SIX_STAGES}: number of items, at batch 1,000": (
            lambda length: (six_stages(length), 1000),
            (10**3, 10**6, 10**9, 10**12),
        ),
        f"{SIX_STAGES}: position in batches, of 10¹² items": (
            lambda position: (six_stages(10**12), position),
            (0, 10**3, 10**6, FAR),
        ),
        "prefetch: its depth": (lambda depth: (prefetched(depth), 100), (1, 10, 100, 1000)),
        "shuffle in a window: its items, after ten windows": (
            lambda window: (windowed(window), 10 * window // 64),
            tuple(10**power for power in range(3, top + 1)),
        ),
    }.items():
        found = options.journal.once(title, measure=partial(_sweep, make, sizes, options))
        sweeps[title] = {int(size): costs for size, costs in found.items()}
    result = Result("state", (__doc__ or "").strip())
    for title, costs in sweeps.items():
        rows = [_row(size, each) for size, each in costs.items()]
        header = ("", "bytes", "take, µs", "write, ms", "restore to first item, ms")
        result.tables.append(Table(title, header, rows))
        result.raw[title] = costs
    _plot(result, sweeps)
    result.claims = [] if options.quick else _claims(*sweeps.values())
    return result


def _sweep(
    make: Callable[[int], tuple[rs.Pipeline[Any], int]], sizes: tuple[int, ...], options: Options
) -> dict[str, dict[str, Any]]:
    """The costs at each size, in turns, so that a slow minute of the machine slows all alike."""
    places = {size: Place(*make(size), options.folder) for size in sizes}
    for _ in range(2 * options.rounds + 1):
        for place in places.values():
            place.measure(calls=20 if options.quick else 400)
    return {str(size): place.costs() for size, place in places.items()}


def _row(size: int, each: dict[str, Any]) -> tuple[Any, ...]:
    return (
        f"{size:,}",
        each["bytes"],
        _cell(each["spread"]["take"], 1e6, 1),
        _cell(each["spread"]["write"], 1e3, 2),
        _cell(each["spread"]["restore"], 1e3, 3),
    )


def _cell(found: tuple[float, float, float], factor: float, digits: int) -> str:
    median, lower, upper = (f"{factor * seconds:,.{digits}f}" for seconds in found)
    return f"{median} ({lower} to {upper})"


def _plot(result: Result, sweeps: dict[str, dict[int, dict[str, Any]]]) -> None:
    """Lines for window and prefetch, where the costs of other loaders grow with the buffer."""
    names = {"shuffle": "window of a shuffle", "prefetch": "depth of a prefetch"}
    labels = {"bytes": ("bytes", 1.0), "take": ("take (µs)", 1e6), "restore": ("restore (ms)", 1e3)}
    for key, (label, factor) in labels.items():
        result.series[label] = [
            Series(
                names[title.split()[0].strip(":")],
                list(costs),
                [factor * each[key] for each in costs.values()],
            )
            for title, costs in sweeps.items()
            if title.split()[0].strip(":") in names
        ]


def _claims(*sweeps: dict[int, dict[str, Any]]) -> list[Claim]:
    lengths, positions, _, windows = (list(sweep.values()) for sweep in sweeps)
    six = lengths + positions

    def growth(costs: list[dict[str, Any]], key: str) -> float:
        return float(costs[-1][key] / costs[0][key])

    return [
        at_most("six stages: bytes", max(each["bytes"] for each in six), 256, "bytes"),
        at_most("six stages: take", 1e6 * max(each["take"] for each in six), 5, "µs"),
        at_most("six stages: restore", 1e3 * max(each["restore"] for each in six), 1, "ms"),
        at_most("flat in 10³ to 10¹² items: take", growth(lengths, "take"), FLAT),
        at_most("flat in 10³ to 10¹² items: restore", growth(lengths, "restore"), FLAT),
        at_most("flat in position 0 to 10⁹: take", growth(positions, "take"), FLAT),
        at_most("flat in position 0 to 10⁹: restore", growth(positions, "restore"), FLAT),
        at_most("flat in a window of 10³ to 10⁶: take", growth(windows, "take"), FLAT),
        at_most("window: bytes", max(each["bytes"] for each in windows), 1024, "bytes"),
    ]
