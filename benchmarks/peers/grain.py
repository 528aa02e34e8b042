"""Grain."""

# Recommended: a source with random access, shuffle, map, batch, and `to_iter_dataset()` with its
# default threads. Lean: no threads, as its documentation advises for data in memory, and the
# shuffle and the batches are those of indices, of which one map makes a batch. Its packers keep a number of
# rows open: more of them have less padding and take longer.

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.by_hand.packing import cut
from benchmarks.functions import batch_of, identity, lines_of
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

NAME = "Grain"
DISTRIBUTION = "grain"
NEEDS = ("grain",)
EXACT_WINDOW = "yes: positions; disjoint windows are shuffled, and one is read again"


def configurations(work: Work) -> dict[str, Prepare]:
    """With and without threads."""
    if isinstance(work.source, Stream):
        return {"": lambda folder: _stream(work)}
    if isinstance(work.groups, Bucket):
        raise Unsupported("has no bucketing")
    if isinstance(work.groups, Pack):
        return _packed(work, work.groups)
    if work.workers:
        return {"": lambda folder: _parallel(work)}
    if work.batch is None:
        return {
            "recommended": lambda folder: _single(work, None),
            "lean": lambda folder: _single(work, 0),
        }
    return {"recommended": lambda folder: _recommended(work), "lean": lambda folder: _lean(work)}


def _recommended(work: Work) -> Start:
    import grain

    data: Any = grain.MapDataset.source(_Rows(work))
    if work.shuffle:
        data = data.shuffle(SEED)
    if work.map is not None:
        data = data.map(work.map)
    batches = data.batch(work.batch).to_iter_dataset()
    return lambda: iter(batches)


def _lean(work: Work) -> Start:
    import grain

    data: Any = grain.MapDataset.range(len(work.source))
    if work.shuffle:
        data = data.shuffle(SEED)
    batches = data.batch(work.batch, batch_fn=batch_of(work))
    without_threads = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
    return lambda: iter(batches.to_iter_dataset(without_threads))


class _Rows:
    """A `RandomAccessDataSource`."""

    def __init__(self, work: Work) -> None:
        source = work.source
        self._columns = tuple(source.columns.values()) if isinstance(source, Arrays) else ()
        self._items: Any = lines_of(source) if isinstance(source, JsonLines) else range(len(source))

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: int) -> Any:
        if self._columns:
            return tuple(column[index] for column in self._columns)
        return self._items[index]


def _single(work: Work, threads: int | None) -> Start:
    import grain

    items: Any = grain.MapDataset.range(len(work.source)).map(work.map or identity)
    if threads is None:
        options = None
    else:
        options = grain.ReadOptions(num_threads=threads, prefetch_buffer_size=threads)
    stream = items.to_iter_dataset(options)
    if work.keep is not None:
        stream = stream.filter(work.keep)
    return lambda: iter(stream)


def _parallel(work: Work) -> Start:
    import grain

    items: Any = grain.MapDataset.range(len(work.source)).map(work.map or identity)
    if work.executor == "thread":
        threads = grain.ReadOptions(work.workers, prefetch_buffer_size=2 * work.workers)
        return lambda: iter(items.to_iter_dataset(threads))
    stream = items.to_iter_dataset(grain.ReadOptions(num_threads=0, prefetch_buffer_size=0))
    processes = grain.MultiprocessingOptions(num_workers=work.workers)
    return lambda: iter(stream.mp_prefetch(processes))


def _stream(work: Work) -> Start:
    """Its shuffle of a stream takes a dataset, so the integers are a dataset read in order."""
    import grain
    from grain.experimental import WindowShuffleIterDataset

    if work.window is None:
        raise Unsupported("has no source for an iterator without state")
    integers: Any = grain.MapDataset.range(len(work.source))
    without_threads = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
    stream = integers.to_iter_dataset(without_threads)
    shuffled = WindowShuffleIterDataset(stream, window_size=work.window, seed=SEED)
    return lambda: iter(shuffled.batch(work.batch or 1))


def _packed(work: Work, pack: Pack) -> dict[str, Prepare]:
    import grain.experimental as packers

    length = {"tokens": pack.length}
    if pack.whole:
        found = {
            f"{fit}, {rows} rows": partial(
                getattr(packers, f"{fit}PackIterDataset"),
                length_struct=length,
                num_packing_bins=rows,
            )
            for fit in ("FirstFit", "BestFit")
            for rows in (64, pack.window)
        }
    else:
        join = partial(packers.ConcatThenSplitIterDataset, length_struct=length)
        found = {"ConcatThenSplit": join}
    return {
        f"{name}{way}": partial(_in_rows, work, pack, threads, packer)
        for name, packer in found.items()
        for way, threads in (("", None), (", lean", 0))
    }


def _in_rows(
    work: Work, pack: Pack, threads: int | None, packer: Callable[[Any], Any], folder: Path
) -> Start:
    """Documents that are to stay whole are cut before they are packed: it takes no longer ones."""
    import grain
    from grain.experimental import FlatMapIterDataset, FlatMapTransform

    fn = work.map or identity

    class Cut(FlatMapTransform):
        max_fan_out = 2**20

        def flat_map(self, element: Any) -> Any:
            return [{"tokens": piece} for piece in cut(element["tokens"], pack.length)]

    options = None if threads is None else grain.ReadOptions(threads, threads)
    data: Any = grain.MapDataset.source(_Rows(work)).shuffle(SEED)
    documents: Any = data.map(lambda line: {"tokens": fn(line)}).to_iter_dataset(options)
    processes = grain.MultiprocessingOptions(num_workers=work.workers)
    if work.workers and not work.partitions:
        documents = documents.mp_prefetch(processes)
    if pack.whole:
        documents = FlatMapIterDataset(documents, Cut())
    batches = packer(documents).batch(work.batch or 1)
    if work.partitions:
        batches = batches.mp_prefetch(processes)
    return lambda: map(_renamed, batches)


def _renamed(batch: dict[str, Any]) -> dict[str, Any]:
    return {name.removeprefix("tokens_"): column for name, column in batch.items()}
