"""A million JSON lines on disk: shuffle, parse, batches of 256."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from benchmarks.fresh import in_fresh_process
from benchmarks.memory import private_bytes
from benchmarks.race import race
from benchmarks.result import Claim, Options, Result, Table, at_least, at_most
from benchmarks.timings import Timings, shown
from benchmarks.work import SEED, JsonLines, Work

MINUTES: Final = 12

MEGABYTE = 10**6


def parse(line: str | bytes) -> tuple[int, int]:
    """A number and the length of a text."""
    row = json.loads(line)
    return row["id"], len(row["text"])


def works(options: Options) -> dict[str, Work]:
    """Lines of some 120 bytes."""
    count = 2_000 if options.quick else 1_000_000
    source = JsonLines(options.folder / f"{count}.jsonl", count)
    return {"text": Work(source, shuffle=True, map=parse, result=(0, 0), batch=256)}


def bare(work: Work) -> Iterator[Any]:
    """The whole file in memory, a permutation of its lines, a comprehension over each part."""
    assert isinstance(work.source, JsonLines)
    assert work.map is not None
    assert work.batch is not None
    fn = work.map
    data, ends = _read(work.source.path)
    begins = np.append(0, ends[:-1] + 1)
    order = np.random.default_rng(SEED).permutation(len(ends))
    for begin in range(0, len(order), work.batch):
        part = order[begin : begin + work.batch]
        bounds = zip(begins[part].tolist(), ends[part].tolist(), strict=True)
        ids, lengths = zip(*[fn(data[first:last]) for first, last in bounds], strict=True)
        yield np.asarray(ids), np.asarray(lengths)


@lru_cache(maxsize=1)
def _read(path: Path) -> tuple[bytes, npt.NDArray[np.int64]]:
    data = path.read_bytes()
    return data, np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))


def write_lines(path: Path, count: int) -> None:
    """Write the file of the `works`."""
    words = ["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog"]
    rng = np.random.default_rng(SEED)
    texts = [" ".join(rng.choice(words, 18).tolist()) for _ in range(997)]
    with path.open("w") as file:
        file.writelines(
            f'{{"id": {number}, "text": "{texts[number % 997]}"}}\n' for number in range(count)
        )


def claims(timings: dict[str, Timings]) -> list[Claim]:
    """The limit against peers; `run` adds those of the index and the memory."""
    return [at_least("the best peer's time ÷ resumable's", timings["text"].of_best_peer, 1)]


def run(options: Options) -> Result:
    """Time all contestants and the index, and measure the memory of an epoch over a tenth and all."""
    (work,) = works(options).values()
    assert isinstance(work.source, JsonLines)
    path, tenth = work.source.path, options.folder / "tenth.jsonl"
    write_lines(path, len(work.source))
    write_lines(tenth, len(work.source) // 10)
    result = race(options, __name__, claims)
    speeds = [_index_speed(path, options, turn) for turn in range(options.rounds)]
    speed = float(np.median(speeds))
    small, large = (
        options.journal.once("memory", each.stem, measure=partial(_memory, each, options.folder))
        for each in (tenth, path)
    )
    rows: list[tuple[Any, ...]] = [
        ("bytes of the file", f"{path.stat().st_size:,}"),
        ("building its index of lines", f"{shown(speeds, 0)} MB/s"),
        ("private memory after an epoch over a tenth", f"{small / MEGABYTE:.1f} MB"),
        ("private memory after an epoch", f"{large / MEGABYTE:.1f} MB"),
    ]
    result.tables.append(Table("resumable's index and memory", ("", "measured"), rows))
    result.raw["index"] = {"megabytes_per_second": speeds, "private_bytes": [small, large]}
    if not options.quick:
        result.claims += [
            at_least("the index is built at", speed, 500, "MB/s"),
            at_most("memory over all lines ÷ over a tenth of them", large / small, 1.1),
        ]
    return result


def _index_speed(path: Path, options: Options, turn: int) -> float:
    measure = partial(in_fresh_process, _seconds_to_index, path, options.folder / f"index-{turn}")
    seconds = options.journal.once("index", turn, measure=measure)
    return path.stat().st_size / seconds / MEGABYTE


def _seconds_to_index(path: Path, folder: Path) -> float:
    import time

    import resumable as rs

    path.read_bytes()  # so that it is in the page cache
    lines = rs.lines  # this imports what an epoch needs
    began = time.perf_counter()
    assert len(lines(path, index_dir=folder)) > 0
    return time.perf_counter() - began


def _memory(path: Path, place: Path) -> int:
    return in_fresh_process(_memory_of_an_epoch, path, place / f"memory-{path.stem}")


def _memory_of_an_epoch(path: Path, folder: Path) -> int:
    import resumable as rs

    with rs.lines(path, index_dir=folder).shuffle(SEED).map(parse).batch(256).start() as batches:
        for _ in batches:
            pass
        return private_bytes()
