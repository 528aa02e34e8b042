"""Operators with several inputs, and those that expand an item."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

import resumable as rs
from benchmarks.by_hand.operator import (
    BATCH,
    RANDOM_ACCESS,
    Numbers,
    Operator,
    arrays,
    ranges,
    tuples,
)
from benchmarks.work import SEED, Start

CYCLE = 16
MOST_MIXED = 2
"""The limit for a mix; the loop by hand has its schedule ready before it begins."""


def operators(numbers: Numbers) -> Iterator[Operator]:
    """Operators over ``numbers``; with random access, NumPy makes batches by hand if it can."""
    yield from _joined(numbers)
    for inputs in (2, 10):
        yield _interleave(numbers.parts(inputs))
        yield _mix(numbers.parts(inputs), SEED)
    yield _mix(numbers.parts(2), None)
    yield from _expanded(numbers)
    yield from _unbatched(numbers)


def _joined(numbers: Numbers) -> Iterator[Operator]:
    parts = numbers.parts(2)
    count = parts[0].count
    by_index = numbers.over == RANDOM_ACCESS

    def pairs() -> Iterator[tuple[int, int]]:
        left, right = (part.items() for part in parts)
        for pair in zip(left, right):  # noqa: B905, UP028  # as a loop by hand does it
            yield pair

    def pair_parts() -> Iterator[Any]:
        for begin, end in ranges(count):
            yield np.arange(begin, end), np.arange(begin + count, end + count)

    zipped = rs.zip(*(part.pipeline for part in parts))
    yield Operator("zip", zipped, pairs, pair_parts if by_index else tuples(pairs), variant="of 2")

    def chained() -> Iterator[int]:
        for part in parts:
            for item in part.items():  # noqa: UP028
                yield item

    def chained_parts() -> Iterator[Any]:
        """Each input has a whole number of batches."""
        for part in parts:
            for begin, end in ranges(count):
                yield np.arange(part.first + begin, part.first + end)

    yield Operator(
        "concatenate",
        rs.concatenate(*(part.pipeline for part in parts)),
        chained,
        chained_parts if by_index and not count % BATCH else arrays(chained),
        variant="of 2",
    )


def _interleave(parts: list[Numbers]) -> Operator:
    def items() -> Iterator[int]:
        """All inputs are of the same length."""
        iterators = [part.items() for part in parts]
        for _ in range(parts[0].count):
            for iterator in iterators:
                yield next(iterator)

    return Operator(
        "interleave",
        rs.interleave(*(part.pipeline for part in parts)),
        items,
        arrays(items),
        variant=f"of {len(parts)}",
    )


def _mix(parts: list[Numbers], seed: int | None) -> Operator:
    """By hand, a loop follows a schedule that is ready."""
    mixed = rs.mix(*(part.pipeline for part in parts), seed=seed)
    count = parts[0].count
    turns = schedule(len(parts), count, seed)
    listed = turns.tolist()

    def items() -> Iterator[int]:
        iterators = [part.items() for part in parts]
        for turn in listed:
            yield next(iterators[turn])

    def item_parts() -> Iterator[Any]:
        drawn = [part.first for part in parts]
        for begin, end in ranges(len(turns)):
            inputs = turns[begin:end]
            batch = np.empty(len(inputs), np.int64)
            for number in range(len(parts)):
                here = inputs == number
                first, drawn[number] = drawn[number], drawn[number] + int(here.sum())
                batch[here] = np.arange(first, drawn[number])
            yield batch

    return Operator(
        "mix",
        mixed,
        items,
        item_parts if parts[0].over == RANDOM_ACCESS else arrays(items),
        variant=f"of {len(parts)}, " + ("even" if seed is None else "seeded"),
        most_items=MOST_MIXED,
        most_batches=MOST_MIXED,
    )


@cache
def schedule(inputs: int, count: int, seed: int | None) -> npt.NDArray[np.int64]:
    """The input of each item of the library's mix, from a mix of numbers that name their input."""
    told = [rs.range(number * count, (number + 1) * count) for number in range(inputs)]
    batches = list(rs.mix(*told, seed=seed).batch(1 << 16))
    turns: npt.NDArray[np.int64] = np.concatenate(batches) // count
    return turns


def _expanded(numbers: Numbers) -> Iterator[Operator]:
    for size in (3, 100):
        few = Numbers(numbers.over, numbers.count // size, numbers.folder)

        def several(item: int, size: int = size) -> list[int]:
            return [item] * size

        def items(few: Numbers = few, fn: Callable[[int], list[int]] = several) -> Iterator[int]:
            for item in few.items():
                for made in fn(item):  # noqa: UP028
                    yield made

        flat = few.pipeline.flat_map(several)
        yield Operator("flat_map", flat, items, arrays(items), variant=f"to {size}")

    few = Numbers(numbers.over, numbers.count // 100, numbers.folder)

    def hundred(item: int) -> range:
        return range(item, item + 100)

    def cycled() -> Iterator[int]:
        return in_turns(few.items(), hundred)

    interleaved = few.pipeline.interleave_map(hundred, CYCLE)
    yield Operator(
        "interleave(fn)", interleaved, cycled, arrays(cycled), variant=f"{CYCLE} at once"
    )


def in_turns(items: Iterator[int], fn: Callable[[int], Iterable[int]]) -> Iterator[int]:
    """An item from each of `CYCLE` expansions in turn; one that ends is replaced by the next."""
    places: list[Iterator[int] | None] = [iter(fn(item)) for item in islice(items, CYCLE)]
    while any(places):
        for number, place in enumerate(places):
            if place is None:
                continue
            for made in place:
                yield made
                break
            else:
                following = next(items, None)
                places[number] = None if following is None else iter(fn(following))


def _unbatched(numbers: Numbers) -> Iterator[Operator]:
    for size in (3, 100):
        lists = [[number] * size for number in range(numbers.count // size)]
        yield _unbatch(numbers, lists, f"lists of {size}")
    columns = np.arange(numbers.count // 100 * 100).reshape(-1, 100)
    yield _unbatch(numbers, list(columns), "arrays of 100")


def _unbatch(numbers: Numbers, batches: list[Any], variant: str) -> Operator:
    by_index = numbers.over == RANDOM_ACCESS
    source: rs.Pipeline[Any] = (
        rs.from_sequence(batches) if by_index else rs.from_iterable(lambda: iter(batches))
    )
    of_arrays = isinstance(batches[0], np.ndarray)

    def items() -> Iterator[int]:
        for batch in batches:
            for item in batch.tolist() if of_arrays else batch:  # noqa: UP028
                yield item

    parts: Start = (lambda: rebatched(batches)) if of_arrays else arrays(items)
    return Operator("unbatch", source.unbatch(), items, parts, variant=variant)


def rebatched(batches: list[npt.NDArray[Any]]) -> Iterator[npt.NDArray[Any]]:
    """Arrays joined and cut to 256 rows: views of what was joined, where the library's are copies."""
    held = batches[0][:0]
    for batch in batches:
        held = np.concatenate([held, batch])
        while len(held) >= BATCH:
            yield held[:BATCH]
            held = held[BATCH:]
    if len(held):
        yield held
