"""Data sets of Grain that the tests read; its worker processes import this module."""

from __future__ import annotations

from typing import Any

import grain
import numpy as np
from absl import flags
from grain import experimental
from grain.python import SharedMemoryArray

flags.FLAGS.mark_as_parsed()  # without it Grain starts no processes

ITEMS = 17
NO_THREADS = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
THREADS = grain.ReadOptions(num_threads=2, prefetch_buffer_size=3)


def start_lasting_threads() -> None:
    """Start what Grain starts with its first processes, and keeps."""
    SharedMemoryArray.enable_async_del(1)


def is_even(number: int) -> bool:
    return number % 2 == 0


def with_noise(number: int, generator: np.random.Generator) -> int:
    return 1000 * number + int(generator.integers(1000))


def document(number: int) -> dict[str, Any]:
    return {"tokens": np.full(1 + number * 7 % 5, number + 1)}


class Copies(experimental.FlatMapTransform):  # type: ignore[misc]
    """Each number as often as its remainder by 3 says, so some not at all."""

    max_fan_out = 2

    def flat_map(self, number: int) -> list[int]:
        return [number] * (number % 3)


class Gaps(grain.MapDataset):  # type: ignore[misc]
    """Of a user, who has not called the constructor of the base."""

    def __init__(self) -> None:
        pass

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int | None:
        return None if index % 4 == 2 else index


def numbers(length: int = ITEMS) -> Any:
    return grain.MapDataset.range(length)


def map_datasets() -> dict[str, Any]:
    """One of each kind with random access."""
    # Grain's shuffle takes the longer the fewer items there are.
    shuffled = numbers(4096).seed(3).shuffle()[:ITEMS]
    return {
        "range": numbers(),
        "source": grain.MapDataset.source([{"x": np.arange(3) + i} for i in range(ITEMS)]),
        "shuffle": shuffled,
        "random map": shuffled.random_map(with_noise),
        "slice": shuffled[1::2],
        "batch": shuffled.batch(4),
        "batch of whole ones": shuffled.batch(4, drop_remainder=True),
        "with index": shuffled.map_with_index(lambda i, number: (i, number)),
        "repeat": shuffled.repeat(2),
        "repeat alike": shuffled.repeat(2, reseed_each_epoch=False),
        "window": experimental.WindowShuffleMapDataset(numbers(4096), window_size=1024, seed=1)[
            :ITEMS
        ],
        "mix": grain.MapDataset.mix([shuffled, numbers(40).map(str)], [0.7, 0.3]),
        "concatenate": grain.MapDataset.concatenate([shuffled, numbers(5)]),
        "zip": experimental.ZipMapDataset([shuffled, numbers()]),
        "empty": numbers(0),
        "filter": shuffled.filter(is_even).map(str),
        "filter in a mix": grain.MapDataset.mix([numbers().filter(is_even), shuffled]),
        "flat map": experimental.FlatMapMapDataset(shuffled, Copies()),
    }


def streams() -> dict[str, Any]:
    """One of each kind without random access, with and without threads."""
    plain, threaded = numbers().to_iter_dataset(NO_THREADS), numbers().to_iter_dataset(THREADS)
    documents = numbers().map(document).to_iter_dataset(THREADS)
    packed: dict[str, Any] = {"length_struct": {"tokens": 8}}
    windows = experimental.WindowShuffleIterDataset
    return {
        "plain": plain,
        "shuffle": numbers(4096).shuffle(3)[:ITEMS].to_iter_dataset(THREADS),
        "filter": threaded.filter(is_even),
        "filter before": numbers().filter(is_even).to_iter_dataset(THREADS),
        "batch": threaded.filter(is_even).batch(5),
        "batch of whole ones": threaded.batch(4, drop_remainder=True),
        "rebatch": experimental.RebatchIterDataset(threaded.batch(3), 4),
        "window": windows(threaded, window_size=8, seed=1),
        "window of what is kept": windows(threaded.filter(is_even), window_size=8, seed=1).batch(2),
        "first fit": experimental.FirstFitPackIterDataset(
            documents, num_packing_bins=3, shuffle_bins=True, seed=3, **packed
        ),
        "best fit": experimental.BestFitPackIterDataset(documents, num_packing_bins=3, **packed),
        "concatenated": experimental.ConcatThenSplitIterDataset(documents, **packed),
        "mix": grain.IterDataset.mix([threaded, plain.map(str)], [0.7, 0.3]),
        "zip": experimental.ZipIterDataset([threaded, plain]),
        "flat map": experimental.FlatMapIterDataset(threaded, Copies()),
        "interleave": experimental.InterleaveIterDataset(
            [numbers()[i::4].to_iter_dataset(NO_THREADS) for i in range(4)], cycle_length=2
        ),
        "repeat": experimental.RepeatIterDataset(threaded, 2),
        "limit": experimental.LimitIterDataset(threaded, 7),
        "random map": threaded.seed(3).random_map(with_noise),
        "with index": threaded.map_with_index(lambda i, number: (i, number)),
        "prefetch": experimental.ThreadPrefetchIterDataset(
            windows(plain, window_size=8, seed=1).filter(is_even), prefetch_buffer_size=4
        ),
        "threads of slices": experimental.multithread_prefetch(
            threaded.batch(2), num_threads=2, buffer_size=2
        ),
        "cache": experimental.CacheIterDataset(plain),
        "elastic": experimental.ElasticIterator(
            numbers(), 4, grain.sharding.ShardOptions(1, 2), read_options=NO_THREADS
        ),
        "loader": loader(numbers(), workers=0),
    }


def loader(source: Any, *, workers: int, epochs: int = 2) -> Any:
    """A `grain.DataLoader` that shuffles, and makes batches of 4."""
    return grain.DataLoader(
        data_source=source,
        sampler=grain.samplers.IndexSampler(
            len(source),
            shard_options=grain.sharding.NoSharding(),
            shuffle=True,
            seed=3,
            num_epochs=epochs,
        ),
        operations=[grain.transforms.Batch(4)],
        read_options=THREADS,
        worker_count=workers,
    )
