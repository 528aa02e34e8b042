"""torchdata.nodes."""

# Recommended: a node for each step. Lean: indices are batched first, and one mapper makes a batch.

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.functions import Each, identity, lines_of
from benchmarks.work import Arrays, JsonLines, Prepare, Start, Stream, Unsupported, Work

NAME = "torchdata.nodes"
DISTRIBUTION = "torchdata"
NEEDS = ("torchdata", "torch")
EXACT_WINDOW = "has no shuffle of a stream"


def configurations(work: Work) -> dict[str, Prepare]:
    """Filters are no node of it, but an iterable may filter."""
    work.refuse_groups()
    if work.window is not None or isinstance(work.source, Stream):
        raise Unsupported("has no shuffle of a stream")
    if work.keep is not None:
        raise Unsupported("has no filter")
    if work.batch is None:
        return {"": lambda folder: _single(work)}
    return {"recommended": lambda folder: _recommended(work), "lean": lambda folder: _lean(work)}


def _recommended(work: Work) -> Start:
    from torch.utils.data import default_collate
    from torchdata import nodes

    one, _ = _lookups(work)

    def start() -> Any:
        items = nodes.Mapper(_order(work), one)
        batches = nodes.Batcher(items, work.batch or 1, drop_last=False)
        return nodes.Loader(nodes.Mapper(batches, default_collate))

    return start


def _lean(work: Work) -> Start:
    from torchdata import nodes

    _, several = _lookups(work)

    def start() -> Any:
        parts = nodes.Batcher(_order(work), work.batch or 1, drop_last=False)
        return nodes.Loader(nodes.Mapper(parts, several))

    return start


def _order(work: Work) -> Any:
    from torch.utils.data import RandomSampler, SequentialSampler
    from torchdata import nodes

    indices: Any = range(len(work.source))
    return nodes.SamplerWrapper(
        RandomSampler(indices) if work.shuffle else SequentialSampler(indices)
    )


def _lookups(work: Work) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """A function that makes an item of an index, and one that makes a batch of several."""
    import torch

    source = work.source
    if isinstance(source, Arrays):
        columns = [torch.from_numpy(column) for column in source.columns.values()]
        return (
            lambda index: tuple(column[index] for column in columns),
            lambda part: tuple(column[part] for column in columns),
        )
    fn, each = work.map or identity, Each(work)
    if isinstance(source, JsonLines):
        lines = lines_of(source)
        return (
            lambda index: fn(lines[index]),
            lambda part: each([lines[index] for index in part]),
        )
    return fn, each


def _single(work: Work) -> Start:
    from torchdata import nodes

    def start() -> Iterator[Any]:
        indices = nodes.IterableWrapper(range(len(work.source)))
        if not work.workers:
            return iter(nodes.Loader(nodes.Mapper(indices, work.map or identity)))
        method: Any = work.executor
        mapped = nodes.ParallelMapper(
            indices, work.map or identity, num_workers=work.workers, method=method
        )
        return iter(nodes.Loader(mapped))

    return start
