"""Every stage of the catalogue behind a `shard`, and what ranks may do with their states there.

A *tail* is what stands behind the deal: it takes a pipeline of numbers. A *deal* makes that pipeline for a rank.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np
import pytest
from support import graphs
from support.tiers import is_deep

import resumable as rs
from resumable.core import block_items, freeze, unpack

__all__ = ["CASES", "DEALS", "TAILS", "Deal", "Tail", "joined", "leaves", "shown"]

Tail: TypeAlias = Callable[[rs.Pipeline[Any]], rs.Pipeline[Any]]
Deal: TypeAlias = Callable[[int, int], rs.Pipeline[Any]]

COUNT = 90


class Held(rs.Transform[Any]):
    """A stage of a user as `docs/writing/stage.md` shows it: the difference to the item before."""

    def start(self, epoch: int = 0) -> rs.StageIterator[Any]:
        return _HeldIterator(self, epoch)


class _HeldIterator(rs.TransformIterator[Any]):
    last: list[Any] = []  # noqa: RUF012  # it is never changed in place

    def pull(self, count: int) -> list[Any]:
        items = list(block_items(self._upstream.pull(count)))
        before = [*self.last, *items] if self.last else [0, *items]
        self.last = items[-1:] or self.last
        return [(item, last) for item, last in zip(items, before, strict=False)]

    def get_state(self) -> Any:
        return {"last": freeze(self.last), "upstream": self._upstream.get_state()}

    def set_state(self, state: Any) -> None:
        self.last, upstream = unpack(self._stage, state, "last", "upstream")
        self._upstream.set_state(upstream)


def is_no_third(number: int) -> bool:
    return number % 3 > 0


def repeated(number: int) -> list[int]:
    return [number] * (number % 3)


def with_sum(total: int, number: int) -> tuple[int, int]:
    return total + number, total + number


def last_sum(total: int) -> list[int]:
    return [-total] * (total % 3)


def fails_on_sevenths(number: int) -> int:
    if number % 7 == 0:
        raise ValueError(number)
    return number


def without_thirds(batch: Any) -> list[int]:
    return [int(number) for number in batch if number % 3]


def is_not_50(number: int) -> bool:
    return number != 50


def length_of(tokens: Any) -> int:
    return len(tokens)


TAILS: dict[str, Tail] = {
    "nothing": lambda numbers: numbers,
    "map": lambda numbers: numbers.map(graphs.double),
    "map in workers": lambda numbers: numbers.map(graphs.double, workers=2),
    "map skipping": lambda numbers: numbers.map(fails_on_sevenths, on_error="skip"),
    "map stateful": lambda numbers: numbers.map(graphs.RunningSum()),
    "random_map": lambda numbers: numbers.random_map(graphs.with_noise, 3),
    "random_map skipping": lambda numbers: numbers.random_map(
        graphs.noise_but_thirds, 3, on_error="skip"
    ),
    "random_map of what is filtered": lambda numbers: numbers.filter(is_no_third).random_map(
        graphs.with_noise, 3
    ),
    "filter": lambda numbers: numbers.filter(is_no_third),
    "filter stateful": lambda numbers: numbers.filter(graphs.UpTo(500)),
    "flat_map": lambda numbers: numbers.flat_map(repeated),
    "flat_map of a size": lambda numbers: numbers.flat_map(
        lambda number: [number, -number], size=2
    ),
    "interleave of an item": lambda numbers: numbers.interleave(repeated, cycle_length=3),
    "scan": lambda numbers: numbers.scan(with_sum, 0),
    "scan with an end": lambda numbers: numbers.scan(with_sum, 0, last_sum),
    "shuffle": lambda numbers: numbers.shuffle(5) if numbers.random_access else numbers.cache(),
    "shuffle in blocks": lambda numbers: (
        numbers.shuffle(5, block=4) if numbers.random_access else numbers.cache().repeat(2)
    ),
    # Each rank has as many weights as items, so all ranks take as many items.
    "sample": lambda numbers: (
        numbers.take(15).sample(range(15), seed=5) if numbers.random_access else numbers.cache()
    ),
    "window shuffle": lambda numbers: numbers.shuffle(5, window=4),
    "window shuffle carried": lambda numbers: numbers.shuffle(5, window=4, carry=True),
    "batch": lambda numbers: numbers.batch(4),
    "batch unbatch": lambda numbers: numbers.batch(4).unbatch(),
    "batch stateful": lambda numbers: numbers.batch(4, collate=graphs.SummedBatches()),
    "rebatch": lambda numbers: numbers.batch(4).rebatch(3),
    # Windows that share items may begin anywhere, so their size and the ranks may change; then some
    # items are in more or fewer windows than before, and there is nothing to compare with.
    "window": lambda numbers: numbers.window(4),
    "map_batches": lambda numbers: numbers.map_batches(without_thirds, 5),
    "pack": lambda numbers: numbers.map(graphs.document).pack(16, window=4),
    "pack concatenated": lambda numbers: numbers.map(graphs.document).pack(
        16, how="concatenate", window=4
    ),
    "pack with options": lambda numbers: numbers.map(graphs.document).pack(
        16, align=4, bos=-1, max_documents=3, window=4
    ),
    "pack fields": lambda numbers: numbers.map(graphs.inputs_and_targets).pack(
        {"inputs": 16, "targets": 12}, how="concatenate", per_document=["id"], window=4
    ),
    "bucket": lambda numbers: numbers.map(graphs.document).bucket(
        length_of, batch_size=3, window=6, collate=rs.padded(-1)
    ),
    "repeat": lambda numbers: numbers.repeat(2),
    "repeat batch": lambda numbers: numbers.repeat(2).batch(4),
    "by epoch": lambda numbers: rs.by_epoch({0: numbers, 1: numbers.skip(4)}).repeat(2),
    "by epoch batch": lambda numbers: (
        rs.by_epoch({0: numbers.skip(4), 1: numbers}).batch(4).repeat(2)
    ),
    "take": lambda numbers: numbers.take(5),
    "skip": lambda numbers: numbers.skip(4),
    "skip repeat": lambda numbers: numbers.skip(4).repeat(2),
    "take_while": lambda numbers: numbers.take_while(is_not_50),
    "take_while stateful": lambda numbers: numbers.take_while(graphs.UpTo(500)),
    "enumerate": lambda numbers: numbers.enumerate(),
    "cache": lambda numbers: numbers.cache(),
    "prefetch": lambda numbers: numbers.prefetch(2),
    "zip": lambda numbers: rs.zip(numbers, numbers.map(graphs.double)),
    "zip with all": lambda numbers: rs.zip(numbers, rs.range(100, 160)),
    "concatenate": lambda numbers: rs.concatenate(numbers, rs.range(100, 108)),
    "concatenate twice": lambda numbers: rs.concatenate(numbers, numbers.map(graphs.double)),
    "interleave": lambda numbers: rs.interleave(numbers, rs.range(100, 108), block_length=2),
    "mix": lambda numbers: rs.mix(numbers, rs.range(100, 120), seed=1, stop="all"),
    "mix until one ends": lambda numbers: rs.mix(numbers, rs.range(100, 160), weights=[3, 1]),
    "mix cycle": lambda numbers: rs.mix(
        numbers, rs.range(100, 106), seed=1, stop="cycle", reshuffle=True
    ),
    "mix of two": lambda numbers: rs.mix(numbers, numbers.map(graphs.double), weights=[1, 2]),
    "a stage of a user": lambda numbers: numbers.apply(Held),
    "a stage of a user, batch": lambda numbers: numbers.apply(Held).batch(2),
}


def sharded(rank: int, ranks: int) -> rs.Pipeline[int]:
    return rs.range(1, COUNT).shuffle(2).shard(rank, ranks, uneven="keep")


def sharded_stream(rank: int, ranks: int) -> rs.Pipeline[int]:
    return rs.range(1, COUNT).shuffle(2).filter(is_no_third).shard(rank, ranks, uneven="keep")


def partitioned(rank: int, ranks: int) -> rs.Pipeline[int]:
    numbers = rs.range(1, COUNT).shuffle(2).partition(6, lambda part: part.filter(is_no_third))
    return numbers.shard(rank, ranks)


DEALS: dict[str, Deal] = {
    "shard": sharded,
    "shard of a stream": sharded_stream,
    "partition": partitioned,
}


# In the quick tier each tail stands behind one of the deals.
CASES = [
    pytest.param(deal, tail, id=f"{deal}-{tail}")
    for number, tail in enumerate(TAILS)
    for place, deal in enumerate(DEALS)
    if is_deep() or number % len(DEALS) == place
]


def joined(states: list[Any]) -> list[Any]:
    """The state of all ranks, if they can be joined."""
    try:
        return [rs.merge_states(states)]
    except rs.StateMismatch:
        return []


def leaves(items: Iterable[Any]) -> Counter[Any]:
    """The numbers in all ``items``, whatever they are in."""
    return Counter(leaf for item in items for leaf in _leaves(item))


def _leaves(item: Any) -> Iterator[Any]:
    if isinstance(item, np.ndarray):
        yield from item.ravel().tolist()
    elif isinstance(item, dict):
        for value in item.values():
            yield from _leaves(value)
    elif isinstance(item, (list, tuple)):
        for value in item:
            yield from _leaves(value)
    else:
        yield item


def shown(items: Iterable[Any]) -> list[str]:
    """Each of ``items`` with all that it holds."""
    return [repr(item) for item in items]
