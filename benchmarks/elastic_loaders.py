"""Make, save and restore the loaders that are resumed with other ranks or workers."""

# Each is sharded, saved and restored as its documentation says. Where a loader has one state for
# all ranks, rank 0 writes it and every rank reads it; else each rank has a file of its own. The
# global batch is always the same, so that only ranks and workers change. A loader that can shuffle
# everything does. tf.data and datasets do not shuffle, as datasets would lose its buffer.

from __future__ import annotations

import json
import os
import pickle
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import resumable as rs
from benchmarks import mosaicml
from benchmarks.discovery import is_installed
from benchmarks.functions import identity
from benchmarks.result import Options
from benchmarks.work import SEED

__all__ = ["GLOBAL_BATCH", "ITEMS", "LOADERS", "Elastic", "Part", "installed"]

ITEMS: Final = 1_200
GLOBAL_BATCH: Final = 24  # of all ranks together: 6 items on each of 4, 8 on each of 3
SHARDS: Final = 12  # for loaders that give whole shards to ranks and workers


class Part(NamedTuple):
    """One rank of a run.

    Attributes:
      folder: for states, and for data that a loader needs as files.
    """

    folder: Path
    rank: int
    ranks: int
    workers: int

    @property
    def batch_size(self) -> int:
        return GLOBAL_BATCH // self.ranks

    @property
    def own(self) -> Path:
        """The file of this rank's own state."""
        return self.folder / f"state-{self.rank}"

    @property
    def common(self) -> Path:
        """The file of a state for all ranks."""
        return self.folder / "state"


class Elastic(NamedTuple):
    """How a loader is iterated, saved and restored.

    Attributes:
      start: a new iterator over batches.
      save: writes its state.
      restore: an iterator that continues at the state written.
    """

    start: Callable[[], Iterator[Any]]
    save: Callable[[Any], object]
    restore: Callable[[], Iterator[Any]]


def pipeline(part: Part) -> Elastic:
    """A pipeline of this library, with the workers in a map."""
    numbers = rs.range(ITEMS).shuffle(SEED).shard(part.rank, part.ranks)
    options: Any = {"workers": part.workers, "executor": "process"} if part.workers else {}
    batches = numbers.map(identity, **options).batch(part.batch_size)
    return Elastic(
        batches.start,
        lambda iterator: part.rank or part.common.write_bytes(rs.dumps(iterator.get_state())),
        lambda: batches.resume(rs.loads(part.common.read_bytes())),
    )


def torch_adapter(part: Part) -> Elastic:
    """The same pipeline in torch's loader, with the loader's workers."""
    from resumable_torch import PipelineDataset, ResumableDataLoader

    numbers = rs.range(ITEMS).shuffle(SEED).shard(part.rank, part.ranks)
    loader: Any = ResumableDataLoader(
        PipelineDataset(numbers), batch_size=part.batch_size, num_workers=part.workers
    )
    return _of_torch(loader, part, part.common)


def grain_slices(part: Part) -> Elastic:
    """A slice for each rank; `CheckpointHandler` names its files by rank and ranks."""
    import grain

    data: Any = grain.MapDataset.range(ITEMS).shuffle(SEED)[part.rank :: part.ranks]
    data = data.batch(part.batch_size).to_iter_dataset()
    if part.workers:
        data = data.mp_prefetch(grain.MultiprocessingOptions(num_workers=part.workers))
    return _of_grain(data, part)


def grain_elastic(part: Part) -> Elastic:
    """Grain's experimental `ElasticIterator`."""
    import grain
    from grain.experimental import ElasticIterator

    workers = grain.MultiprocessingOptions(num_workers=part.workers) if part.workers else None
    data: Any = ElasticIterator(
        grain.MapDataset.range(ITEMS).shuffle(SEED),
        GLOBAL_BATCH,
        grain.sharding.ShardOptions(part.rank, part.ranks),
        multiprocessing_options=workers,
    )
    return Elastic(
        lambda: iter(data),
        lambda iterator: part.rank or part.common.write_text(json.dumps(iterator.get_state())),
        lambda: _set(iter(data), json.loads(part.common.read_text())),
    )


def _of_grain(data: Any, part: Part) -> Elastic:
    from grain._src.core import sharding
    from grain.checkpoint import CheckpointHandler

    # Otherwise these numbers come from JAX, which needs a process for each rank.
    sharding.get_process_index_and_count = lambda: (part.rank, part.ranks)
    handler: Any = CheckpointHandler()
    return Elastic(
        lambda: iter(data),
        lambda iterator: handler.save(part.folder, iterator),
        lambda: handler.restore(part.folder, iter(data)),
    )


def _set(iterator: Any, state: Any) -> Any:
    iterator.set_state(state)
    return iterator


def torchdata(part: Part) -> Elastic:
    """`StatefulDataLoader` and its sampler; the states of the ranks are left to the user."""
    from torchdata.stateful_dataloader import StatefulDataLoader
    from torchdata.stateful_dataloader.sampler import StatefulDistributedSampler

    numbers: Any = range(ITEMS)
    sampler = StatefulDistributedSampler(numbers, part.ranks, part.rank, seed=SEED)
    loader = StatefulDataLoader(numbers, part.batch_size, sampler=sampler, num_workers=part.workers)
    return _of_torch(loader, part, part.own)


def datasets(part: Part) -> Elastic:
    """An iterable data set with a shard for each rank and worker, in a `StatefulDataLoader`."""
    from datasets import Dataset
    from datasets.distributed import split_dataset_by_node
    from torchdata.stateful_dataloader import StatefulDataLoader

    table = Dataset.from_dict({"item": [*range(ITEMS)]}).to_iterable_dataset(num_shards=SHARDS)
    data: Any = split_dataset_by_node(table, rank=part.rank, world_size=part.ranks)
    loader = StatefulDataLoader(data, part.batch_size, num_workers=part.workers)
    return _of_torch(loader, part, part.own)


def streaming(part: Part) -> Elastic:
    """Its loader over shards of files; rank and ranks come from environment variables."""
    package = mosaicml.streaming()
    shards = part.folder / "shards"
    if part.rank == 0 and not shards.exists():
        with package.MDSWriter(
            out=str(part.folder / "written"), columns={"item": "int"}
        ) as written:
            for item in range(ITEMS):
                written.write({"item": item})
        (part.folder / "written").rename(shards)
    while not shards.exists():
        time.sleep(0.01)
    data = package.StreamingDataset(
        local=str(shards), shuffle=True, shuffle_seed=SEED, batch_size=part.batch_size
    )
    loader = package.StreamingDataLoader(data, batch_size=part.batch_size, num_workers=part.workers)
    return _of_torch(loader, part, part.common)


def _of_torch(loader: Any, part: Part, path: Path) -> Elastic:
    """A loader with `state_dict` and `load_state_dict`; a common state is written by rank 0."""

    def save(iterator: Any) -> None:
        state = loader.state_dict()
        if part.rank == 0 or path == part.own:
            path.write_bytes(pickle.dumps(state))

    def restore() -> Iterator[Any]:
        loader.load_state_dict(pickle.loads(path.read_bytes()))
        return iter(loader)

    return Elastic(lambda: iter(loader), save, restore)


def tf_data(part: Part) -> Elastic:
    """`shard`, and on each rank a `tf.train.Checkpoint` of the iterator."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    numbers = tf.data.Dataset.range(ITEMS).shard(part.ranks, part.rank)
    data = numbers.map(identity, num_parallel_calls=part.workers or None).batch(part.batch_size)

    def restore() -> Iterator[Any]:
        iterator: Any = iter(data)
        tf.train.Checkpoint(input=iterator).read(str(part.own)).assert_consumed()
        return iterator  # type: ignore[no-any-return]

    return Elastic(
        lambda: iter(data),
        lambda iterator: tf.train.Checkpoint(input=iterator).write(str(part.own)),
        restore,
    )


LOADERS: Final = {
    "resumable": (pipeline, ()),
    "resumable in torch's DataLoader": (torch_adapter, ("torch",)),
    "Grain, slices": (grain_slices, ("grain",)),
    "Grain, experimental ElasticIterator": (grain_elastic, ("grain",)),
    "torchdata StatefulDataLoader": (torchdata, ("torchdata",)),
    "tf.data": (tf_data, ("tf_data",)),
    "datasets in a StatefulDataLoader": (datasets, ("datasets", "torchdata")),
    "MosaicML Streaming": (streaming, ("streaming",)),
}
"""By title, the function that makes the loader and the modules of ``peers`` that it needs."""


def installed(options: Options) -> list[str]:
    """The titles of the loaders that are asked for and can run here."""
    return [
        title
        for title, (_, peers) in LOADERS.items()
        if all(map(is_installed, peers))
        and (options.peers is None or set(peers) <= set(options.peers))
    ]
