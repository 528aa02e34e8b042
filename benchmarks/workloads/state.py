"""What a state costs: bytes, and time to take it, to write it and to restore it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import resumable as rs
from benchmarks.result import Claim, Options, Result, Series, Table, at_most
from benchmarks.work import SEED

FAR = 10**9
SIX_STAGES = "range, shuffle, map, batch(64), repeat, take"
FLAT = 2.0  # between the largest and the smallest size: more than noise, less than growth


def six_stages(length: int) -> rs.Pipeline[Any]:
    """A random-access pipeline that is longer than `FAR` batches."""
    return rs.range(length).shuffle(SEED).map(abs).batch(64).repeat().take(10 * FAR)


def windowed(window: int) -> rs.Pipeline[Any]:
    """A shuffle in a window, over enough items that all of it is in use."""
    return rs.range(20 * window).map(abs).shuffle(SEED, window=window).batch(64)


def prefetched(depth: int) -> rs.Pipeline[Any]:
    """Batches that a thread computes ahead."""
    return rs.range(10**9).shuffle(SEED).map(abs).batch(64).repeat().prefetch(depth)


def cost(pipeline: rs.Pipeline[Any], position: int, options: Options, name: str) -> dict[str, Any]:
    """Bytes of a state at ``position`` batches, and medians of seconds."""
    with pipeline.start() as iterator:
        iterator.skip(position)
        next(iterator)
        take = _median(iterator.get_state, 20 if options.quick else 2_000)
        data = rs.dumps(iterator.get_state())
        expected = next(iterator)
    restored = [
        _seconds_to_restore(pipeline, data, expected) for _ in range(2 * options.rounds + 1)
    ]
    return {
        "bytes": len(data),
        "take": take,
        "write": _seconds_to_write(pipeline, data, options.folder / name, options.rounds),
        "restore": statistics.median(restored),
    }


def _median(fn: Callable[[], object], calls: int) -> float:
    """Of single calls; each after the cost of reading the clock is taken off."""
    clock = time.perf_counter
    seconds, empty = [], []
    for _ in range(calls):
        began = clock()
        fn()
        ended = clock()
        seconds.append(ended - began)
        empty.append(clock() - ended)
    return statistics.median(seconds) - statistics.median(empty)


def _seconds_to_restore(pipeline: rs.Pipeline[Any], data: bytes, expected: Any) -> float:
    """From bytes up to and including the first item."""
    with pipeline.start() as iterator:
        began = time.perf_counter()
        iterator.set_state(rs.loads(data))
        item = next(iterator)
        seconds = time.perf_counter() - began
    assert (item == expected).all()
    return seconds


def _seconds_to_write(pipeline: rs.Pipeline[Any], data: bytes, folder: Path, rounds: int) -> float:
    """Of a save by a `Checkpointer`, up to its being durable."""
    seconds = []
    with rs.Checkpointer(folder, rs.AtEnd(), save_at_end=False) as checkpointer:
        loop = checkpointer.resume(pipeline)
        loop.iterator.set_state(rs.loads(data))
        for _ in range(4 * rounds):
            next(loop)
            began = time.perf_counter()
            checkpointer.save()
            seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def run(options: Options) -> Result:
    """Measure the six stages over length and position, the window and the prefetch over size."""
    top = 3 if options.quick else 6
    sweeps: dict[str, dict[int, dict[str, Any]]] = {
        f"{SIX_STAGES}: number of items, at batch 1,000": _sweep(
            lambda length: (six_stages(length), 1000), (10**3, 10**6, 10**9, 10**12), options
        ),
        f"{SIX_STAGES}: position in batches, of 10¹² items": _sweep(
            lambda position: (six_stages(10**12), position), (0, 10**3, 10**6, FAR), options
        ),
        "prefetch: its depth": _sweep(
            lambda depth: (prefetched(depth), 100), (1, 10, 100, 1000), options
        ),
        "shuffle in a window: its items, after ten windows": _sweep(
            lambda window: (windowed(window), 10 * window // 64),
            tuple(10**power for power in range(3, top + 1)),
            options,
        ),
    }
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
) -> dict[int, dict[str, Any]]:
    found = {}
    for size in sizes:
        pipeline, position = make(size)
        number = len(list(options.folder.glob("state-*")))
        found[size] = cost(pipeline, position, options, f"state-{number}")
    return found


def _row(size: int, each: dict[str, Any]) -> tuple[Any, ...]:
    return (
        f"{size:,}",
        each["bytes"],
        f"{1e6 * each['take']:.1f}",
        f"{1e3 * each['write']:.2f}",
        f"{1e3 * each['restore']:.3f}",
    )


def _plot(result: Result, sweeps: dict[str, dict[int, dict[str, Any]]]) -> None:
    """The window and the prefetch: what elsewhere grows with the buffer."""
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
