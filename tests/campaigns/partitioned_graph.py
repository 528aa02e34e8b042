"""A random pipeline in partitions, and the plan by which its ranks and workers change."""

# Every number that enters a graph is in one partition, so an item tells which partition it came from.
# A stage after `shard` that sees batches of a rank sees others with other ranks, so batches come last there.

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any, Final, NamedTuple

import numpy as np

import resumable as rs
from resumable.core.block import block_items

__all__ = ["Graph", "exactly", "numbers_in"]

GENERATIONS: Final = 3
MOST_RANKS: Final = 4
FIRST: Final = 1000
"""Numbers of the sources begin here; all others are smaller."""
SHARE_IN_PROCESSES: Final = 0.002

Made = rs.Pipeline[Any]
Chain = tuple[tuple[str, int], ...]


def numbers_in(item: Any) -> Iterator[int]:
    """The numbers of the sources of which ``item`` is made."""
    if isinstance(item, dict):
        item = tuple(item.values())
    if isinstance(item, np.ndarray):
        item = item.tolist()
    if isinstance(item, (list, tuple)):
        for part in item:
            yield from numbers_in(part)
    elif item >= FIRST:
        yield int(item)


def key(item: Any) -> int:
    """A number that depends on all of ``item``."""
    return sum(numbers_in(item)) % 997


def first_number(item: Any) -> int:
    """The first of the numbers in ``item``."""
    return next(numbers_in(item))


def exactly(item: Any) -> Any:
    """``item`` with its types and dtypes, as a value that can be compared."""
    if isinstance(item, dict):
        return {name: exactly(value) for name, value in item.items()}
    if isinstance(item, (list, tuple)):
        return type(item).__name__, [exactly(part) for part in item]
    if isinstance(item, (np.ndarray, np.generic)):
        return type(item).__name__, item.dtype.str, item.shape, item.tobytes()
    return type(item).__name__, item


class Fails:
    """Returns items, but fails for some."""

    def __init__(self, divisor: int) -> None:
        self.divisor = divisor

    def __call__(self, item: Any) -> Any:
        return item if key(item) % self.divisor else 1 // 0


def drawn(item: Any, rng: np.random.Generator) -> tuple[Any, int]:
    """An item with a random number."""
    return item, int(rng.integers(FIRST))


def summed(total: int, item: Any) -> tuple[int, tuple[Any, int]]:
    """An item with a sum over those before it."""
    total = (total + key(item)) % FIRST
    return total, (item, total)


ONE_BY_ONE: Final[dict[str, Callable[[Made, int], Made]]] = {
    "map": lambda p, size: p.map(lambda item: (item, size)),
    "map in threads": lambda p, size: p.map(lambda item: (size, item), workers=size),
    "filter": lambda p, size: p.filter(lambda item: key(item) % (size + 1)),
    "random_map": lambda p, size: p.random_map(drawn, size),
    "prefetch": lambda p, size: p.prefetch(size),
}
"""What may stand between partitions and their shard."""
BATCHES: Final = "batch", "arrays"
STAGES: Final[dict[str, Callable[[Made, int], Made]]] = {
    **ONE_BY_ONE,
    "drop": lambda p, size: p.map(Fails(size + 1), on_error="skip"),
    "flat_map": lambda p, size: p.flat_map(lambda item: [item] * (key(item) % (size + 1))),
    "interleave": lambda p, size: p.interleave_map(lambda item: [item] * (key(item) % 3), size),
    "shuffle": lambda p, size: p.shuffle(size, window=2 * size),
    "batch": lambda p, size: p.batch(size, collate=list),
    "unbatch": lambda p, size: p.batch(size, collate=list).unbatch(),
    "map_batches": lambda p, size: p.map_batches(lambda group: block_items(group)[::-1], size),
    "window": lambda p, size: p.map(first_number).window(size + 1, shift=size),
    "arrays": lambda p, size: p.map(first_number).batch(size),
    "rows": lambda p, size: p.map(first_number).batch(size).unbatch(),
    "pack": lambda p, size: p.map(lambda item: [*numbers_in(item)]).pack(2 * size, group=size),
    "enumerate": lambda p, size: p.enumerate(),
    "scan": lambda p, size: p.scan(summed, size),
    "skip": lambda p, size: p.skip(size),
    "take": lambda p, size: p.take(5 * size),
    "take_while": lambda p, size: p.take_while(lambda item: key(item) % 50 >= size),
    "repeat": lambda p, size: p.repeat(min(size, 2)),
}
"""Stages for the functions of partitions, and for after the shard; sizes are from 1 to 4."""
SOURCES: Final[dict[str, Callable[[range], Made]]] = {
    "range": lambda numbers: rs.range(numbers.start, numbers.stop),
    "sequence": lambda numbers: rs.from_sequence(numbers),
    "foreign": lambda numbers: rs.from_arrays(np.array(numbers, ">i4")),
    "dicts": lambda numbers: rs.from_arrays({"n": np.array(numbers, np.int32)}),
}
JOINS: Final[dict[str, Callable[[Made, Made], Made]]] = {
    "mix": lambda one, two: rs.mix(one, two, weights=(1, 3), stop="all"),
    "mix seeded": lambda one, two: rs.mix({"a": one, "b": two}, seed=2),
    "zip": rs.zip,
    "concatenate": rs.concatenate,
    "interleave": rs.interleave,
}


class Generation(NamedTuple):
    """So many steps with so many ranks, whose partitions so many workers run."""

    ranks: int
    workers: int
    steps: int


@dataclass(frozen=True)
class Graph:
    """A random graph, and how it is run; the same for the same seed and number.

    Attributes:
      kinds: of the sources.
      lengths: of the sources.
      shuffled: whether they are.
      count: number of partitions.
      inside: stages upon the part of each source, then those upon what they are joined to.
      join: how parts of two sources are joined.
      before: stages between the partitions and the shard.
      after: stages after it.
      plan: of the generations; the last one runs to the end.
      executor: of the workers.
    """

    kinds: tuple[str, ...]
    lengths: tuple[int, ...]
    shuffled: bool
    count: int
    inside: tuple[Chain, ...]
    join: str
    before: Chain
    after: Chain
    plan: tuple[Generation, ...]
    executor: str

    @classmethod
    def buildable(cls, seed: int, number: int) -> Graph:
        """Graph ``number`` of a campaign."""
        rng = Random(f"{seed}/{number}")
        while True:
            graph = cls._drawn(rng)
            with suppress(
                rs.InvalidArgument
            ):  # a thread before a stage that looks items up by index
                graph.rank(0, 1, 0)
                return graph

    @classmethod
    def _drawn(cls, rng: Random) -> Graph:
        sources, count = rng.choice((1, 2)), rng.randint(1, 6)
        in_processes = rng.random() < SHARE_IN_PROCESSES
        plan = [
            Generation(
                rng.randint(1, min(MOST_RANKS, count)),
                rng.choice((0, 0, 0, 1, 2)) if not in_processes else 1,
                rng.randint(0, 8),
            )
            for _ in range(GENERATIONS)
        ]
        last = Generation(rng.randint(1, min(MOST_RANKS, count)), 0, 10**6)
        inside = tuple(_chain(rng, STAGES, 2) for _ in range(sources + 1))
        before = _chain(rng, ONE_BY_ONE, 2)
        after = _chain(rng, ONE_BY_ONE if rng.random() < 0.6 else STAGES, 2)
        # In another epoch a number of a shuffled source may be in another partition.
        repeats = any(name == "repeat" for chain in (*inside, after) for name, _ in chain)
        return cls(
            tuple(rng.choices([*SOURCES], k=sources)),
            tuple(rng.randint(count, 40) for _ in range(sources)),
            rng.random() < 0.5 and not repeats,
            count,
            inside,
            rng.choice([*JOINS]),
            before,
            _batched_last(after),
            (*plan, last),
            "process" if in_processes else "thread",
        )

    def sources(self) -> list[Made]:
        """What is partitioned."""
        found = []
        for place, (kind, length) in enumerate(zip(self.kinds, self.lengths, strict=True)):
            first = FIRST * (place + 1)
            source = SOURCES[kind](range(first, first + length))
            found.append(source.shuffle(place) if self.shuffled else source)
        return found

    def fn(self, *parts: Made) -> Made:
        """What each partition does."""
        made = [_chained(part, chain) for part, chain in zip(parts, self.inside, strict=False)]
        joined = made[0] if len(made) == 1 else JOINS[self.join](*made)
        return _chained(joined, self.inside[-1])

    def rank(self, rank: int, ranks: int, workers: int) -> Made:
        """The pipeline of a rank."""
        executor = self.executor if workers else "thread"
        parts = rs.partition(
            self.sources(), self.count, self.fn, workers=workers, executor=executor
        )
        return _chained(_chained(parts, self.before).shard(rank, ranks), self.after)

    def partition_of(self) -> dict[int, int]:
        """The partition of each number."""
        return {
            first_number(item): place % self.count
            for source in self.sources()
            for place, item in enumerate(source)
        }


def _chain(rng: Random, stages: dict[str, Any], most: int) -> Chain:
    names = rng.choices([*stages], k=rng.randint(0, most))
    return tuple((name, rng.randint(1, 4)) for name in names)


def _batched_last(chain: Chain) -> Chain:
    """``chain`` with one batching at most, which comes last."""
    batching = [stage for stage in chain if stage[0] in BATCHES]
    return (*(stage for stage in chain if stage not in batching), *batching[:1])


def _chained(pipeline: Made, chain: Chain) -> Made:
    for name, size in chain:
        pipeline = STAGES[name](pipeline, size)
    return pipeline
