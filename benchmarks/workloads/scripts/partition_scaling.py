"""Count and time what partitions cost, from 1 rank to 1,024 in one process.

Run as `python benchmarks/workloads/scripts/partition_scaling.py [PARTITIONS]`.

The first table has, for each number of ranks, the partitions that a rank holds, the bytes of its state, and microseconds of the processor for each partition held: to
build and start the rank up to its first item, to take its state when that of no partition is known, to resume up to
the next item, and to merge the states of all. Where they stay the same, cost is linear in what a rank holds; with few
partitions, what a rank costs by itself is seen. The second one counts how often an item of the source is read in an epoch by all ranks together.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np

ROOT = Path(__file__).resolve().parents[3]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

import resumable as rs  # noqa: E402

T = TypeVar("T")

PARTITIONS: Final = 4096
ITEMS: Final = 10**7
MEASURED: Final = 64
"""Ranks that are timed, of more; all of them are merged."""
FEW: Final = 64
DOCUMENTS: Final = 2_000


def good(number: int) -> bool:
    """Leave out some, so that no length is known."""
    return number % 7 > 0


def tokens(number: int) -> Any:
    """A document of 1 to 16 tokens."""
    return np.ones(number % 16 + 1, np.int32)


def chain(part: rs.Pipeline[Any]) -> rs.Pipeline[Any]:
    """What a language model's input has in each partition."""
    return part.filter(good).map(tokens).pack(64, group=16).batch(4)


def timed(call: Callable[[], T]) -> tuple[float, T]:
    """Seconds of the processor, and what ``call`` returns."""
    began = time.process_time()
    result = call()
    return time.process_time() - began, result


def costs(pipeline: rs.Pipeline[Any], partitions: int, ranks: int) -> list[str]:
    """A row of the first table."""
    held = partitions // ranks
    some = range(min(ranks, MEASURED))

    def started() -> list[Any]:
        iterators = [iter(pipeline.shard(rank, ranks)) for rank in some]
        for iterator in iterators:
            next(iterator)
        return iterators

    def taken() -> list[Any]:
        return [iterator.get_state() for iterator in iterators]

    def resumed() -> None:
        for rank, state in zip(some, states, strict=True):
            with pipeline.shard(rank, ranks).resume(state) as iterator:
                next(iterator)

    start, iterators = timed(started)
    state, states = timed(taken)
    resume, _ = timed(resumed)
    size = len(rs.dumps(states[0]))
    for iterator in iterators:
        iterator.close()
    for rank in range(len(some), ranks):
        with iter(pipeline.shard(rank, ranks)) as iterator:
            states.append(iterator.get_state())
    merge, _ = timed(lambda: rs.merge_states(states))
    all_held = held * len(some)
    each = [1e6 * seconds / all_held for seconds in (start, state, resume)]
    return [
        f"{ranks:,}",
        f"{held:,}",
        f"{size:,}",
        *(f"{microseconds:.1f}" for microseconds in (*each, 1e6 * merge / partitions)),
    ]


class Counting(Sequence[int]):
    """Numbers, and how many were read."""

    def __init__(self, length: int) -> None:
        self._length = length
        self._lock = threading.Lock()
        self.reads = 0

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: Any) -> Any:
        with self._lock:
            self.reads += 1
        return index


def reads(ranks: int, workers: int) -> list[str]:
    """A row of the second table."""
    dealt, shared = Counting(DOCUMENTS), Counting(DOCUMENTS)
    for rank in range(ranks):
        work = rs.from_sequence(dealt).partition(FEW, chain, workers=workers)
        whole = chain(rs.from_sequence(shared))
        for pipeline in (work.shard(rank, ranks), whole.shard(rank, ranks)):
            for _ in pipeline:
                pass
    return [
        f"{ranks}",
        f"{workers}",
        *(f"{source.reads / DOCUMENTS:.2f}" for source in (dealt, shared)),
    ]


def show(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table in Markdown."""
    for row in (header, ["---"] * len(header), *rows):
        print("| " + " | ".join(row) + " |", flush=True)
    print()


def main() -> None:
    """Print both tables."""
    partitions = int(sys.argv[1]) if len(sys.argv) > 1 else PARTITIONS
    pipeline = rs.range(ITEMS).shuffle(seed=0).partition(partitions, chain)
    header = (
        "ranks",
        "partitions of each",
        "bytes of its state",
        "µs: start",
        "state",
        "resume",
        "merge",
    )
    counts = [2**power for power in range(11) if 2**power <= partitions]
    show(header, [costs(pipeline, partitions, ranks) for ranks in counts])
    table = [reads(ranks, workers) for ranks in (1, 2, 8, 32) for workers in (0, 2)]
    show(("ranks", "threads of each", "reads with `partition`", "with `shard` at the end"), table)


if __name__ == "__main__":
    main()
