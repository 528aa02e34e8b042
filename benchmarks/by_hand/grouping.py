"""Operators that make something of groups of consecutive items, or of batches."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np

import resumable as rs
from benchmarks.by_hand.operator import (
    BATCH,
    RANDOM_ACCESS,
    STREAM,
    Numbers,
    Operator,
    arrays,
    cut,
)

SIZE = 10
SHORT = 100


def operators(numbers: Numbers) -> Iterator[Operator]:
    """Of ``numbers``; where they have random access, windows by hand are NumPy's."""
    yield _grouped(numbers)
    yield from _windows(numbers)
    yield _rebatched(numbers)
    yield _while(numbers)
    yield _kept(numbers)


def backwards(group: Any) -> Any:
    """Next to nothing, of a list or an array."""
    return group[::-1]


def _grouped(numbers: Numbers) -> Operator:
    def reversed_groups() -> Iterator[int]:
        for group in batched(numbers.items(), SHORT):
            yield from backwards(group)

    pipeline = numbers.pipeline.map_batches(backwards, SHORT)
    return Operator("map_batches", pipeline, reversed_groups, arrays(reversed_groups))


def _windows(numbers: Numbers) -> Iterator[Operator]:
    pipeline, count = numbers.pipeline, numbers.count
    by_index = numbers.over == RANDOM_ACCESS
    for shift in (SIZE, SIZE // 2):

        def ranges(shift: int = shift) -> Iterator[Any]:
            for begin in range(0, count, shift):
                yield np.arange(begin, min(begin + SIZE, count))

        def lists(shift: int = shift) -> Iterator[Any]:
            items = numbers.items()
            window = list(islice(items, SIZE))
            while window:
                yield np.asarray(window)
                window = window[shift:]
                window += islice(items, SIZE - len(window))

        by_hand = ranges if by_index else lists

        def batches(shift: int = shift, by_hand: Any = by_hand) -> Iterator[Any]:
            whole = (count - SIZE) // shift + 1
            return cut(lambda: islice(by_hand(shift), whole), np.stack)

        yield Operator("window", pipeline.window(SIZE, shift=shift), by_hand, variant=f"by {shift}")
        batched = pipeline.window(SIZE, shift=shift, drop_last=True)
        yield Operator("window", batched, batches=batches, variant=f"by {shift}")


def _rebatched(numbers: Numbers) -> Operator:
    """Arrays of 100 made into arrays of 256."""
    given = [np.asarray(part) for part in batched(numbers.items(), SHORT)]
    pipeline = rs.from_sequence(given)
    if numbers.over == STREAM:
        pipeline = rs.from_iterable(lambda: iter(given))

    def joined() -> Iterator[Any]:
        parts, length = [], 0
        for part in given:
            parts.append(part)
            length += len(part)
            while length >= BATCH:
                rows = np.concatenate(parts)
                yield rows[:BATCH]
                parts, length = [rows[BATCH:]], length - BATCH
        if length:
            yield np.concatenate(parts)

    return Operator("rebatch", pipeline.rebatch(BATCH), joined)


def _while(numbers: Numbers) -> Operator:
    last = numbers.first + numbers.count // 10 * 9

    def below(item: int) -> bool:
        return item < last

    def taken() -> Iterator[int]:
        for item in numbers.items():
            if not below(item):
                return
            yield item

    return Operator("take_while", numbers.pipeline.take_while(below), taken, arrays(taken))


def _kept(numbers: Numbers) -> Operator:
    """Made in the first epoch, and given from a list in two more."""

    def three_epochs() -> Iterator[int]:
        items: list[int] = []
        for item in numbers.items():
            items.append(item)
            yield item
        for _ in range(2):
            for item in items:
                yield item

    cached = numbers.pipeline.cache().repeat(3)
    return Operator("cache", cached, three_epochs, arrays(three_epochs), variant="3 epochs")


def batched(items: Iterator[int], size: int) -> Iterator[list[int]]:
    """Lists of ``size`` of them, the last one perhaps shorter."""
    while part := list(islice(items, size)):
        yield part
