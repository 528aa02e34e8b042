"""Memory is a matter of the items that a stage holds, not of those that it reads for one."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from support.tiers import thinned

import resumable as rs

Make = Callable[[rs.Pipeline[Any]], rs.Pipeline[Any]]


class Enough(Exception):
    """Raised by a stream in the place of the item after its last one."""


def rejects(_: int) -> bool:
    return False


def no_rows(_: int) -> Any:
    return np.zeros((0, 2))


def nothing(_: Any) -> list[Any]:
    return []


def fails(item: int) -> float:
    return item / 0


def after_filter(make: Make) -> Make:
    return lambda pipeline: make(pipeline.filter(rejects))


OF_FILTERED: dict[str, Make] = {
    "batch": lambda p: p.batch(4),
    "batch twice": lambda p: p.batch(4).batch(2, collate=list),
    "rebatch": lambda p: p.batch(2).rebatch(3),
    "window": lambda p: p.window(4, shift=2),
    "bucket": lambda p: p.bucket(int, batch_size=2, group=4),
    "map_batches": lambda p: p.map_batches(list, 4),
    "pack": lambda p: p.pack(8, group=4),
    "pack concatenate": lambda p: p.pack(8, group=4, how="concatenate"),
    "shuffle": lambda p: p.shuffle(0, window=4),
    "shuffle carry": lambda p: p.shuffle(0, window=4, carry=True),
    "skip": lambda p: p.skip(2),
    "shard": lambda p: p.shard(1, 3),
    "mix": lambda p: rs.mix(p, p),
    "interleave": lambda p: rs.interleave(p, p),
    "origins": lambda p: rs.origins(p.pack(8, group=4)),
}
OF_ALL: dict[str, Make] = {
    **{f"{name} of filter": after_filter(make) for name, make in OF_FILTERED.items()},
    "pack of empty": lambda p: p.map(nothing).pack(8, group=4),
    "pack concatenate of empty": lambda p: p.map(nothing).pack(8, group=4, how="concatenate"),
    "rebatch of empty": lambda p: p.map(no_rows).rebatch(3),
    "unbatch of empty": lambda p: p.map(no_rows).unbatch(),
    "flat_map": lambda p: p.flat_map(nothing).batch(2),
    "interleave fn": lambda p: p.interleave_map(nothing, 3).batch(2),
    "map_batches": lambda p: p.map_batches(nothing, 4).batch(2),
    "map skipping": lambda p: p.map(fails, on_error="skip").batch(2),
    "random_map": lambda p: p.random_map(lambda item, _: fails(item), 0, on_error="skip").batch(2),
}  # fmt: skip


def peak(make: Make, count: int) -> int:
    """Bytes at the most while a pipeline reads ``count`` items in vain."""

    def numbers() -> Iterator[int]:
        yield from range(count)
        raise Enough

    iterator = iter(make(rs.from_iterable(numbers)))
    gc.collect()
    tracemalloc.start()
    try:
        with iterator, pytest.raises(Enough):
            next(iterator)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.filterwarnings("ignore:.* has dropped")
@pytest.mark.parametrize("name", thinned(OF_ALL, 3, "read in vain"))
def test_what_is_read_in_vain_is_not_kept(name: str) -> None:
    make = OF_ALL[name]
    peak(make, 10)  # what is made once
    assert peak(make, 6_000) < peak(make, 1_000) + 50_000  # ten bytes an item


def test_a_filter_that_passes_few_items_on_keeps_only_these() -> None:
    def make(pipeline: rs.Pipeline[Any]) -> rs.Pipeline[Any]:
        return pipeline.filter(lambda item: item % 100 == 0).batch(1_000)

    peak(make, 10)
    assert peak(make, 20_000) < peak(make, 2_000) + 100_000
