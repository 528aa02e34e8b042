"""Make, save and restore the loaders whose resume is measured."""

# Each shuffles integers in the way it recommends, and is saved and restored as its documentation
# says. A loader without a state is started anew, and the batches already seen are passed over.

from __future__ import annotations

import json
import pickle
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

import resumable as rs
from benchmarks.discovery import is_installed, load, names
from benchmarks.environments import python_of
from benchmarks.mosaicml import streaming
from benchmarks.result import Options
from benchmarks.work import SEED

__all__ = ["ANEW", "BATCH", "BUFFER", "Loader", "made", "measured", "plain"]

BATCH: Final = 64
BUFFER: Final = 10_000
"""Items of the buffer in which a stream is shuffled."""
ANEW: Final = "resumable, a stream read anew"
TITLES: Final = {"torchdata": "torchdata"}  # its loader, not its nodes


class Loader(NamedTuple):
    """How a loader is iterated, saved and restored.

    Attributes:
      start: a new iterator over batches.
      save: its state as the bytes that the loader would write.
      restore: an iterator that continues at those bytes, saved after so many batches.
    """

    start: Callable[[], Iterator[Any]]
    save: Callable[[Any], bytes]
    restore: Callable[[bytes, int], Iterator[Any]]


def integers(length: int) -> Callable[[], Iterator[int]]:
    """A stream without a state."""
    return lambda: iter(range(length))


def ours(pipeline: rs.Pipeline[Any]) -> Loader:
    """A pipeline of this library."""
    return Loader(
        pipeline.start,
        lambda iterator: rs.dumps(iterator.get_state()),
        lambda data, batches: pipeline.resume(rs.loads(data)),
    )


def resumable_window(window: int, length: int) -> Loader:
    """A source that knows its place, shuffled in a window."""
    return ours(rs.range(length).shuffle(SEED, window=window).batch(BATCH))


def stream_window(window: int, length: int) -> Loader:
    """A stream that is read anew, shuffled in a window."""
    stream = rs.from_iterable(integers(length))
    return ours(stream.shuffle(SEED, window=window).batch(BATCH))


def resumable_position(length: int) -> Loader:
    """Everything shuffled, looked up by index."""
    return ours(rs.range(length).shuffle(SEED).batch(BATCH))


def grain_window(window: int, length: int) -> Loader:
    """A stream, shuffled in one window after the other."""
    import grain
    from grain.experimental import WindowShuffleIterDataset

    without_threads = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
    stream = grain.MapDataset.range(length).to_iter_dataset(without_threads)
    return _grain(WindowShuffleIterDataset(stream, window_size=window, seed=SEED).batch(BATCH))


def grain_position(length: int) -> Loader:
    """Everything shuffled, looked up by index."""
    import grain

    data: Any = grain.MapDataset.range(length).shuffle(SEED).batch(BATCH)
    return _grain(data.to_iter_dataset())


def _grain(data: Any) -> Loader:
    def restore(saved: bytes, batches: int) -> Iterator[Any]:
        iterator: Any = iter(data)
        iterator.set_state(json.loads(saved))
        return iterator  # type: ignore[no-any-return]

    return Loader(
        lambda: iter(data), lambda iterator: json.dumps(iterator.get_state()).encode(), restore
    )


def infinibatch_window(window: int, length: int) -> Loader:
    """A buffered shuffle of a source that is read anew."""
    from infinibatch import iterators as it

    class Fresh:
        def __iter__(self) -> Iterator[int]:
            return iter(range(length))

    def start() -> Any:
        flow: Any = it.NativeCheckpointableIterator(Fresh())
        return it.FixedBatchIterator(it.BufferedShuffleIterator(flow, window, SEED), BATCH)

    def restore(saved: bytes, batches: int) -> Iterator[Any]:
        iterator: Any = start()
        iterator.setstate(pickle.loads(saved))
        return iterator  # type: ignore[no-any-return]

    return Loader(start, lambda iterator: pickle.dumps(iterator.getstate()), restore)


def tf_data_window(window: int, length: int) -> Loader:
    """A buffered shuffle, its iterator saved in a `tf.train.Checkpoint`."""
    import tensorflow as tf

    data = tf.data.Dataset.range(length).shuffle(window, SEED).batch(BATCH)

    def save(iterator: Any) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            tf.train.Checkpoint(input=iterator).write(f"{folder}/saved")
            files = {path.name: path.read_bytes() for path in Path(folder).iterdir()}
        return pickle.dumps(files)

    def restore(saved: bytes, batches: int) -> Iterator[Any]:
        iterator: Any = iter(data)
        with tempfile.TemporaryDirectory() as folder:
            for name, content in pickle.loads(saved).items():
                (Path(folder) / name).write_bytes(content)
            tf.train.Checkpoint(input=iterator).read(f"{folder}/saved")
        return iterator  # type: ignore[no-any-return]

    return Loader(lambda: iter(data), save, restore)


def datasets_window(window: int, length: int) -> Loader:
    """A table, iterated and shuffled in a buffer."""
    from datasets import Dataset

    table = Dataset.from_dict({"item": np.arange(length)}).to_iterable_dataset()
    data = table.shuffle(SEED, buffer_size=window)

    def restore(saved: bytes, batches: int) -> Iterator[Any]:
        data.load_state_dict(pickle.loads(saved))
        return data.iter(BATCH)  # type: ignore[no-any-return]

    return Loader(
        lambda: data.iter(BATCH), lambda iterator: pickle.dumps(data.state_dict()), restore
    )


def torch_position(length: int) -> Loader:
    """No state: it is started anew, and the batches already seen are passed over."""
    from torch.utils.data import DataLoader

    data: Any = range(length)

    def start() -> Iterator[Any]:
        return iter(DataLoader(data, BATCH, shuffle=True, generator=_seeded()))

    def restore(saved: bytes, batches: int) -> Iterator[Any]:
        iterator = start()
        for _ in islice(iterator, batches):
            pass
        return iterator

    return Loader(start, lambda iterator: b"", restore)


def torchdata_position(length: int) -> Loader:
    """A shuffling `StatefulDataLoader`."""
    from torchdata.stateful_dataloader import StatefulDataLoader

    data: Any = range(length)
    loaders: list[Any] = []

    def start() -> Iterator[Any]:
        loader = StatefulDataLoader(data, BATCH, shuffle=True, generator=_seeded())
        loaders[:] = [loader]
        return iter(loader)

    def restore(saved: bytes, batches: int) -> Iterator[Any]:
        loader = StatefulDataLoader(data, BATCH, shuffle=True, generator=_seeded())
        loader.load_state_dict(pickle.loads(saved))
        return iter(loader)

    return Loader(start, lambda iterator: pickle.dumps(loaders[0].state_dict()), restore)


def streaming_window(window: int, length: int) -> Loader:
    """Shards of files, shuffled in blocks of ``window`` items."""
    return _streaming(length, window)


def streaming_position(length: int) -> Loader:
    """Shards of files, shuffled in blocks of the default size."""
    return _streaming(length, None)


def _streaming(length: int, block: int | None) -> Loader:
    package = streaming()
    shards = tempfile.TemporaryDirectory()
    with package.MDSWriter(out=f"{shards.name}/0", columns={"item": "int"}) as written:
        for item in range(length):
            written.write({"item": item})
    started = count(1)
    loaders: list[Any] = []

    def loader() -> Any:
        # Two of its data sets in one process must not have the same folder.
        place = Path(shards.name) / str(next(started))
        place.symlink_to(f"{shards.name}/0")
        data = package.StreamingDataset(
            local=str(place),
            shuffle=True,
            shuffle_seed=SEED,
            shuffle_block_size=block,
            batch_size=BATCH,
        )
        return package.StreamingDataLoader(data, batch_size=BATCH)

    def start() -> Iterator[Any]:
        loaders[:] = [loader()]
        return iter(loaders[0])

    def restore(saved: bytes, batches: int) -> Iterator[Any]:
        restored = loader()
        restored.load_state_dict(json.loads(saved))
        return iter(restored)

    return Loader(start, lambda iterator: json.dumps(loaders[0].state_dict()).encode(), restore)


def _seeded() -> Any:
    import torch

    return torch.Generator().manual_seed(SEED)


def plain(batch: Any) -> Any:
    """A batch as a list, to be compared."""
    items = batch["item"] if isinstance(batch, dict) else batch
    return np.asarray(items).tolist()


def measured(options: Options, kind: str) -> dict[str, tuple[str, str]]:
    """The installed loaders of this kind: by title, the function that makes it and its interpreter.

    Args:
      options: with the peers that are asked for.
      kind: ``"window"`` or ``"position"``.
    """
    peers = [name for name in names("peers") if name == "resumable" or is_installed(name)]
    if options.peers is not None:
        peers = [name for name in peers if name in (*options.peers, "resumable")]
    titles = {TITLES.get(peer) or load("peers", peer).NAME: peer for peer in peers}
    found = {title: (f"{peer}_{kind}", python_of(peer)) for title, peer in titles.items()}
    found[ANEW] = f"stream_{kind}", sys.executable
    return {title: made for title, made in found.items() if made[0] in globals()}


def made(make: str, *arguments: int) -> Loader:
    """Call the function of this module named ``make``."""
    loader: Loader = globals()[make](*arguments)
    return loader
