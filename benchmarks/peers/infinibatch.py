"""infinibatch."""

# Its permutation source never ends, so an epoch is a buffered shuffle whose buffer holds everything.
# Recommended: an iterator for each step over items. Lean: over indices, and one map makes a batch.

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.by_hand.packing import padded
from benchmarks.functions import batch_of, lines_of, stack
from benchmarks.work import (
    SEED,
    Arrays,
    Bucket,
    JsonLines,
    Pack,
    Prepare,
    Start,
    Stream,
    Unsupported,
    Work,
)

NAME = "infinibatch"
DISTRIBUTION = "infinibatch"
NEEDS = ("infinibatch",)
EXACT_WINDOW = "yes: a copy of all items of the buffer is in the state"


def configurations(work: Work) -> dict[str, Prepare]:
    """One process, or nothing."""
    if isinstance(work.groups, Pack):
        raise Unsupported("has no packing")
    if work.workers:
        raise Unsupported("has no parallel map of single items")
    if work.batch is None or work.groups or isinstance(work.source, Stream):
        return {"": lambda folder: _recommended(work)}
    return {"recommended": lambda folder: _recommended(work), "lean": lambda folder: _lean(work)}


class _Fresh:
    """An iterable that begins anew each time, as its source requires."""

    def __init__(self, make: Callable[[], Iterator[Any]]) -> None:
        self._make = make

    def __iter__(self) -> Iterator[Any]:
        return self._make()


def _recommended(work: Work) -> Start:
    from infinibatch import iterators as it

    items = _items(work)

    def start() -> Any:
        flow: Any = it.NativeCheckpointableIterator(items)
        if work.shuffle or work.window:
            flow = it.BufferedShuffleIterator(flow, work.window or len(work.source), SEED)
        if work.map is not None:
            flow = it.MapIterator(flow, work.map)
        if work.keep is not None:
            keep = work.keep
            flow = it.SelectManyIterator(flow, lambda item: [item] if keep(item) else [])
        if isinstance(work.groups, Bucket):
            boundaries = work.groups.boundaries
            batches = it.BucketedReadaheadBatchIterator(
                flow,
                read_ahead=work.groups.window,
                key=len,
                batch_size=work.batch or 1,
                boundary_key=lambda document: bisect_right(boundaries, len(document)),
                seed=SEED,
            )
            flow = it.MapIterator(batches, padded)
        elif work.batch is not None:
            flow = it.MapIterator(it.FixedBatchIterator(flow, work.batch), stack)
        return flow

    return start


def _items(work: Work) -> Any:
    source = work.source
    if isinstance(source, Stream):
        return _Fresh(source.make)
    if isinstance(source, Arrays):
        return list(zip(*source.columns.values(), strict=True))
    return lines_of(source) if isinstance(source, JsonLines) else range(len(source))


def _lean(work: Work) -> Start:
    from infinibatch import iterators as it

    make_batch = batch_of(work)
    count, batch = len(work.source), work.batch or 1

    def start() -> Any:
        flow: Any = it.NativeCheckpointableIterator(range(count))
        if work.shuffle:
            flow = it.BufferedShuffleIterator(flow, count, SEED)
        return it.MapIterator(it.FixedBatchIterator(flow, batch), make_batch)

    return start
