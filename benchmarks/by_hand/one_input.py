"""Operators with one input that deliver at most one item for each of its items."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice
from queue import Empty, Queue
from threading import Thread
from typing import Any

import numpy as np

from benchmarks.by_hand.operator import (
    RANDOM_ACCESS,
    Numbers,
    Operator,
    arrays,
    how_many,
    parts_of,
    ranges,
    tuples,
)
from benchmarks.work import SEED, Start
from benchmarks.workloads.stream_shuffle import reservoir

PARTITIONS = 8
SLOWER = 20
"""Epochs of prefetch have so many times fewer items: handing one to a thread takes long."""


def operators(numbers: Numbers) -> Iterator[Operator]:
    """Operators over ``numbers``; with random access, batches by hand are made by NumPy."""
    yield from _functions(numbers)
    yield from _places(numbers)
    yield from _orders(numbers)
    yield from _threads(numbers)


def triple(item: int) -> int:
    """A function that does next to nothing."""
    return 3 * item


def is_even(item: int) -> bool:
    """A condition that is next to nothing."""
    return item % 2 == 0


def add_noise(item: int, rng: np.random.Generator) -> float:
    """Draw one random number."""
    return item + rng.random()


def add(total: int, item: int) -> tuple[int, int]:
    """Make a running sum."""
    return total + item, total + item


def _functions(numbers: Numbers) -> Iterator[Operator]:
    pipeline, count = numbers.pipeline, numbers.count
    by_index = numbers.over == RANDOM_ACCESS

    def mapped() -> Iterator[int]:
        for item in numbers.items():
            yield triple(item)

    def mapped_parts() -> Iterator[Any]:
        for begin, end in ranges(count):
            yield np.asarray([triple(item) for item in range(begin, end)])

    batches = mapped_parts if by_index else arrays(mapped)
    yield Operator("map", pipeline.map(triple), mapped, batches)

    def kept() -> Iterator[int]:
        for item in numbers.items():
            if is_even(item):
                yield item

    yield Operator("filter", pipeline.filter(is_even), kept, arrays(kept))

    def noisy() -> Iterator[float]:
        """Every item has its own generator, so that its noise depends on no other item."""
        for number, item in enumerate(numbers.items()):
            yield add_noise(item, np.random.Generator(np.random.Philox(key=[SEED, number])))

    random_map = pipeline.random_map(add_noise, seed=SEED)
    yield Operator("random_map", random_map, noisy, arrays(noisy), compared=how_many)

    def summed() -> Iterator[int]:
        total = 0
        for item in numbers.items():
            total, made = add(total, item)
            yield made

    yield Operator("scan", pipeline.scan(add, 0), summed, arrays(summed))


def _places(numbers: Numbers) -> Iterator[Operator]:
    pipeline, count = numbers.pipeline, numbers.count
    by_index = numbers.over == RANDOM_ACCESS
    some = count // 10

    def batches(items: Start, begin: int, end: int, step: int = 1) -> Start:
        """The batches by hand; NumPy's own where the items are a range."""
        length = len(range(begin, end, step))

        def parts() -> Iterator[Any]:
            for first, last in ranges(length):
                yield np.arange(begin + first * step, begin + last * step, step)

        return parts if by_index else arrays(items)

    def everything() -> Iterator[int]:
        for item in numbers.items():  # noqa: UP028  # a loop by hand, as every other
            yield item

    name = "range" if by_index else "from_iterable"
    most = math.inf if by_index else 3  # only the outermost iterator, which has no limit
    yield Operator(name, pipeline, everything, batches(everything, 0, count), most_items=most)

    def numbered() -> Iterator[tuple[int, int]]:
        number = 0
        for item in numbers.items():
            yield number, item
            number += 1  # noqa: SIM113  # without the built-in one

    def numbered_parts() -> Iterator[Any]:
        for begin, end in ranges(count):
            yield np.arange(begin, end), np.arange(begin, end)

    enumerated = numbered_parts if by_index else tuples(numbered)
    yield Operator("enumerate", pipeline.enumerate(), numbered, enumerated)

    def taken() -> Iterator[int]:
        for item in islice(numbers.items(), count - some):  # noqa: UP028
            yield item

    yield Operator("take", pipeline.take(count - some), taken, batches(taken, 0, count - some))

    def left() -> Iterator[int]:
        for item in islice(numbers.items(), some, None):  # noqa: UP028
            yield item

    yield Operator("skip", pipeline.skip(some), left, batches(left, some, count))

    bad = range(0, count, 100)

    def good() -> Iterator[int]:
        excluded = set(bad)
        for item in numbers.items():
            if item not in excluded:
                yield item

    def good_parts() -> Iterator[Any]:
        kept = np.delete(np.arange(count), bad)
        for begin, end in ranges(len(kept)):
            yield kept[begin:end]

    if by_index:
        yield Operator("exclude", pipeline.exclude(bad), good, good_parts)

    def dealt() -> Iterator[int]:
        for item in islice(numbers.items(), 0, None, 2):  # noqa: UP028
            yield item

    shard = pipeline.shard(0, 2)
    yield Operator("shard", shard, dealt, batches(dealt, 0, count, 2), variant="of 2")
    if not by_index:
        return

    def in_turns() -> Iterator[int]:
        parts = [iter(range(number, count, PARTITIONS)) for number in range(PARTITIONS)]
        while parts:
            for part in parts[:]:
                for item in part:
                    yield item
                    break
                else:
                    parts.remove(part)

    partition = pipeline.partition(PARTITIONS, lambda part: part)
    yield Operator("partition", partition, in_turns, arrays(in_turns), variant=f"of {PARTITIONS}")


def _orders(numbers: Numbers) -> Iterator[Operator]:
    pipeline, count = numbers.pipeline, numbers.count
    by_index = numbers.over == RANDOM_ACCESS
    for length in (10, 1_000):
        part = Numbers(numbers.over, length, numbers.folder)
        epochs = count // length

        def repeated(part: Numbers = part, epochs: int = epochs) -> Iterator[int]:
            for _ in range(epochs):
                for item in part.items():  # noqa: UP028
                    yield item

        def repeated_parts(length: int = length, total: int = length * epochs) -> Iterator[Any]:
            for begin, end in ranges(total):
                yield np.arange(begin, end) % length

        yield Operator(
            "repeat",
            part.pipeline.repeat(epochs),
            repeated,
            repeated_parts if by_index else arrays(repeated),
            variant=f"epochs of {length:,}",
        )
    if by_index:

        def shuffled() -> Iterator[int]:
            for item in np.random.default_rng(SEED).permutation(count).tolist():  # noqa: UP028
                yield item

        def shuffled_parts() -> Iterator[Any]:
            return parts_of(np.random.default_rng(SEED).permutation(count))

        yield Operator(
            "shuffle", pipeline.shuffle(SEED), shuffled, shuffled_parts, compared=how_many
        )
        yield _in_blocks(numbers)
        yield _sampled(numbers)
    for window in (100, 1_000, 10_000):

        def mixed(window: int = window) -> Iterator[int]:
            return reservoir(numbers.items(), window, count)

        yield Operator(
            "shuffle in a window",
            pipeline.shuffle(SEED, window=window),
            mixed,
            arrays(mixed),
            variant=f"of {window:,}",
            compared=how_many,
        )


def _sampled(numbers: Numbers) -> Operator:
    """Numbers drawn with replacement, the larger the likelier."""
    weights = np.arange(1, numbers.count + 1)

    def drawn() -> Any:
        chance = weights / weights.sum()
        return np.random.default_rng(SEED).choice(numbers.count, numbers.count, p=chance)

    def sampled() -> Iterator[int]:
        for item in drawn().tolist():  # noqa: UP028
            yield item

    return Operator(
        "sample",
        numbers.pipeline.sample(weights, seed=SEED),
        sampled,
        lambda: parts_of(drawn()),
        compared=how_many,
    )


def _in_blocks(numbers: Numbers) -> Operator:
    """Blocks of 1,000 numbers in a random order, shuffled eight at a time."""
    count, size = numbers.count, 1_000

    def groups() -> Iterator[Any]:
        rng = np.random.default_rng(SEED)
        blocks = rng.permutation(-(-count // size))
        for begin in range(0, len(blocks), 8):
            group = np.add.outer(blocks[begin : begin + 8] * size, np.arange(size)).ravel()
            rng.shuffle(group)
            yield group[group < count]

    def items() -> Iterator[int]:
        for group in groups():
            yield from group.tolist()

    pipeline = numbers.pipeline.shuffle(SEED, block=size)
    return Operator(
        "shuffle in blocks",
        pipeline,
        items,
        lambda: parts_of(np.concatenate(list(groups()))),
        compared=how_many,
    )


def _threads(numbers: Numbers) -> Iterator[Operator]:
    fewer = Numbers(numbers.over, numbers.count // SLOWER, numbers.folder)

    def ahead() -> Iterator[int]:
        return in_a_thread(fewer.items, 64)

    yield Operator("prefetch", fewer.pipeline.prefetch(64), ahead, arrays(ahead))


def in_a_thread(items: Start, size: int) -> Iterator[Any]:
    """Items that a thread puts into a queue of ``size``."""
    queue: Queue[Any] = Queue(size)
    ended = object()
    stopped = False

    def fill() -> None:
        for item in items():
            queue.put(item)
            if stopped:
                return
        queue.put(ended)

    thread = Thread(target=fill)
    thread.start()
    try:
        while (item := queue.get()) is not ended:
            yield item
    finally:
        stopped = True
        while thread.is_alive():
            try:
                queue.get_nowait()
            except Empty:
                thread.join(0.001)
