"""PyTorch's DataLoader."""

# Recommended: a map-style dataset, `shuffle=True`, the default collation. Lean: its BatchSampler
# as the sampler, so that the dataset gets the indices of a whole batch and nothing is collated.
# It has no packing: the collate function packs a group of documents as the loop by hand does.

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.by_hand.packing import packed
from benchmarks.functions import Each, identity, lines_of
from benchmarks.work import SEED, Arrays, JsonLines, Pack, Prepare, Start, Stream, Unsupported, Work

NAME = "torch DataLoader"
DISTRIBUTION = "torch"
NEEDS = ("torch",)
EXACT_WINDOW = "has no shuffle of a stream"


class Items:
    """A map-style dataset of the results of `Work.map`, by one index or several at once."""

    def __init__(self, work: Work) -> None:
        self._each = Each(work)
        self._fn = work.map or identity
        source = work.source
        self._items: Any = lines_of(source) if isinstance(source, JsonLines) else range(len(source))

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: Any) -> Any:
        items = self._items
        if isinstance(index, list):
            return self._each([items[each] for each in index])
        return self._fn(items[index])


def configurations(work: Work) -> dict[str, Prepare]:
    """Without workers unless the work asks for them: for small batches they do not pay."""
    if work.window is not None or isinstance(work.source, Stream):
        raise Unsupported("has no shuffle of a stream")
    if work.workers and work.executor == "thread":
        raise Unsupported("its workers are processes")
    if work.keep is not None:
        return {"": lambda folder: _filtered(work)}
    if work.groups is not None:
        return _of_groups(work)
    if work.batch is None:
        return {"": lambda folder: _single(work, 2), "lean": lambda folder: _single(work, 8)}
    return {"recommended": lambda folder: _recommended(work), "lean": lambda folder: _lean(work)}


def _recommended(work: Work) -> Start:
    from torch.utils.data import DataLoader

    dataset: Any = _tensors(work.source) if isinstance(work.source, Arrays) else Items(work)
    return lambda: DataLoader(
        dataset, batch_size=work.batch, shuffle=work.shuffle, num_workers=work.workers
    )


def _lean(work: Work) -> Start:
    from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler

    dataset: Any = _tensors(work.source) if isinstance(work.source, Arrays) else Items(work)
    assert work.batch is not None

    def start() -> Any:
        order: Any = RandomSampler(dataset) if work.shuffle else SequentialSampler(dataset)
        parts: Any = BatchSampler(order, work.batch or 1, drop_last=False)
        return DataLoader(dataset, batch_size=None, sampler=parts, collate_fn=identity)

    return start


def _tensors(source: Arrays) -> Any:
    import torch
    from torch.utils.data import TensorDataset

    return TensorDataset(*map(torch.from_numpy, source.columns.values()))


def _single(work: Work, prefetch_factor: int) -> Start:
    """Items one by one; arrays come as tensors in shared memory."""
    from torch.utils.data import DataLoader

    options: dict[str, Any] = {"prefetch_factor": prefetch_factor} if work.workers else {}
    dataset: Any = Items(work)
    return lambda: DataLoader(dataset, batch_size=None, num_workers=work.workers, **options)


def _filtered(work: Work) -> Start:
    """An iterable dataset, the only kind that may leave items out."""
    from torch.utils.data import DataLoader, IterableDataset

    class Kept(IterableDataset[Any]):
        def __iter__(self) -> Any:
            return filter(work.keep, map(work.map or identity, range(len(work.source))))

    return lambda: DataLoader(Kept(), batch_size=None)


def _of_groups(work: Work) -> dict[str, Prepare]:
    if not isinstance(work.groups, Pack):
        raise Unsupported("has no bucketing")
    if not work.groups.whole:
        raise Unsupported("has nothing that keeps documents from one group for the next")
    return {"packing written by hand": lambda folder: _packed(work, work.groups)}


def _packed(work: Work, pack: Any) -> Start:
    """Batches are cut out of the rows of a group; the last of each is shorter."""
    from torch.utils.data import DataLoader

    dataset: Any = Items(work)
    batch = work.batch or 1
    if work.partitions:
        return _chain(work, pack)

    def start() -> Iterator[Any]:
        groups: Any = DataLoader(
            dataset,
            pack.window,
            work.shuffle,
            collate_fn=partial(packed, length=pack.length),
            num_workers=work.workers,
        )
        for rows in groups:
            yield from _cut(rows, batch)

    return start


def _cut(rows: Any, batch: int) -> Iterator[Any]:
    for begin in range(0, len(rows["tokens"]), batch):
        yield {name: column[begin : begin + batch] for name, column in rows.items()}


def _chain(work: Work, pack: Pack) -> Start:
    """Each worker has every so-manieth item of one permutation, and packs and batches them."""
    from torch.utils.data import DataLoader, IterableDataset, get_worker_info

    class Batches(IterableDataset[Any]):
        def __init__(self) -> None:
            self._items = Items(work)

        def __iter__(self) -> Iterator[Any]:
            worker: Any = get_worker_info()
            order = np.random.default_rng(SEED).permutation(len(self._items))
            own = order[worker.id :: worker.num_workers].tolist()
            for begin in range(0, len(own), pack.window):
                group = [self._items[index] for index in own[begin : begin + pack.window]]
                yield from _cut(packed(group, pack.length), work.batch or 1)

    return lambda: DataLoader(Batches(), batch_size=None, num_workers=work.workers)
