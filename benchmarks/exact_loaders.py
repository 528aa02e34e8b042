"""Loaders of other libraries over the same 240 samples, each made as its documentation does."""

# Each function returns a new loader, for `resumable.testing.check_loader`. The samples are numbers.

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

SAMPLES, BATCH, SHARDS = 240, 8, 4


def _folder(name: str) -> Path:
    return Path(os.environ["RESUMABLE_EXACT_LOADERS"], name)


class Numbers:
    """A map-style data set."""

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> int:
        return int(index)


def torch_loader(workers: int = 0) -> Any:
    """Torch's own, shuffled by a generator with a seed."""
    import torch
    from torch.utils.data import DataLoader

    generator = torch.Generator().manual_seed(0)
    return DataLoader(Numbers(), BATCH, shuffle=True, generator=generator, num_workers=workers)


def torch_sampler(workers: int = 0, rank: int = 0, ranks: int = 1) -> Any:
    """Torch's own, with a sampler that has `set_epoch`."""
    from torch.utils.data import DataLoader, DistributedSampler

    sampler = DistributedSampler(Numbers(), ranks, rank, seed=0)
    return DataLoader(Numbers(), BATCH, sampler=sampler, num_workers=workers)


def stateful_loader(workers: int = 0) -> Any:
    """The same with torchdata's loader."""
    import torch
    from torchdata.stateful_dataloader import StatefulDataLoader

    generator = torch.Generator().manual_seed(0)
    return StatefulDataLoader(
        Numbers(), BATCH, shuffle=True, generator=generator, num_workers=workers
    )


def hugging_face() -> Any:
    """A stream with a shuffle buffer."""
    import datasets

    rows = datasets.Dataset.from_dict({"id": [*range(SAMPLES)]})
    return rows.to_iterable_dataset(SHARDS).shuffle(seed=0, buffer_size=32).batch(BATCH)


def litdata(workers: int = 0) -> Any:
    """Optimised chunks."""
    from litdata import StreamingDataLoader, StreamingDataset

    data = StreamingDataset(str(_folder("litdata")), shuffle=True, seed=0)
    return StreamingDataLoader(data, batch_size=BATCH, num_workers=workers)


def mosaicml(workers: int = 0) -> Any:
    """Shards in MDS."""
    from streaming import StreamingDataLoader, StreamingDataset
    from streaming.base.util import clean_stale_shared_memory

    clean_stale_shared_memory()  # of a run that was killed
    data = StreamingDataset(
        local=str(_folder("mosaicml")), shuffle=True, shuffle_seed=0, batch_size=BATCH
    )
    return StreamingDataLoader(data, batch_size=BATCH, num_workers=workers)


def grain(workers: int = 0) -> Any:
    """A shuffled `MapDataset` as a stream of batches."""
    import grain

    rows = grain.MapDataset.range(SAMPLES).shuffle(seed=0).to_iter_dataset().batch(BATCH)
    if workers:
        rows = rows.mp_prefetch(grain.multiprocessing.MultiprocessingOptions(workers))
    return rows


def webdataset(workers: int = 0) -> Any:
    """Shuffled shards with a shuffle buffer."""
    import webdataset

    shards = str(_folder("webdataset") / "{0..3}.tar")
    rows = webdataset.WebDataset(shards, shardshuffle=SHARDS, seed=0).shuffle(32).to_tuple("txt")
    return webdataset.WebLoader(rows, batch_size=BATCH, num_workers=workers)


def tf_data() -> Any:
    """A shuffle buffer."""
    import tensorflow as tf

    return tf.data.Dataset.range(SAMPLES).shuffle(32, seed=0).batch(BATCH)


def save_tf(loader: Any, iterator: Any) -> dict[str, bytes]:
    """The files of a checkpoint of the iterator."""
    import tensorflow as tf

    folder = _folder(f"tf-{os.getpid()}")
    path = Path(tf.train.Checkpoint(iterator=iterator).write(str(folder / "state")))
    return {file.name: file.read_bytes() for file in path.parent.iterdir()}


def load_tf(loader: Any, iterator: Any, state: dict[str, bytes]) -> None:
    """Restore the iterator from such files."""
    import tensorflow as tf

    folder = _folder(f"tf-{os.getpid()}-loaded")
    folder.mkdir()
    for name, data in state.items():
        (folder / name).write_bytes(data)
    tf.train.Checkpoint(iterator=iterator).read(str(folder / "state")).assert_consumed()


def resumable_loader(workers: int = 0) -> Any:
    """The loader of this library."""
    from resumable_torch import ResumableDataLoader

    return ResumableDataLoader(Numbers(), BATCH, shuffle=True, seed=0, num_workers=workers)


def _write_litdata() -> None:
    from litdata.streaming.writer import BinaryWriter

    writer = BinaryWriter(str(_folder("litdata")), chunk_size=SAMPLES // SHARDS)
    for number in range(SAMPLES):
        writer.add_item(number, number)
    writer.done()
    writer.merge()


def _write_mosaicml() -> None:
    from streaming import MDSWriter

    with MDSWriter(
        out=str(_folder("mosaicml")), columns={"id": "int"}, size_limit=1 << 10
    ) as writer:
        for number in range(SAMPLES):
            writer.write({"id": number})


def _write_webdataset() -> None:
    import webdataset

    _folder("webdataset").mkdir()
    for shard in range(SHARDS):
        with webdataset.TarWriter(str(_folder("webdataset") / f"{shard}.tar")) as writer:
            for number in range(shard, SAMPLES, SHARDS):
                writer.write({"__key__": f"{number:04}", "txt": str(number)})


class Contestant(NamedTuple):
    """A loader: its name, its distribution, what makes it, and what writes its files."""

    title: str
    distribution: str
    make: Callable[..., Any]
    write: Callable[[], None] | None = None
    options: Mapping[str, Any] = MappingProxyType({})


CONTESTANTS: Iterable[Contestant] = (
    Contestant("`DataLoader` of torch, with a generator", "torch", torch_loader),
    Contestant("`DataLoader`, with a `DistributedSampler`", "torch", torch_sampler),
    Contestant("`StatefulDataLoader`", "torchdata", stateful_loader),
    Contestant("Hugging Face stream, shuffled", "datasets", hugging_face),
    Contestant("LitData", "litdata", litdata, _write_litdata),
    Contestant("MosaicML Streaming", "mosaicml-streaming", mosaicml, _write_mosaicml),
    Contestant("Grain", "grain", grain),
    Contestant("WebDataset", "webdataset", webdataset, _write_webdataset),
    Contestant("tf.data", "tensorflow-cpu", tf_data, None, {"save": save_tf, "load": load_tf}),
    Contestant("`ResumableDataLoader`", "resumable-loader", resumable_loader),
)
