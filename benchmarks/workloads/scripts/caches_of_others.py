"""How many bytes the caches of MosaicML Streaming and LitData fetch for shuffled epochs, with a limit of their size.

Run as `python -m benchmarks.workloads.scripts.caches_of_others mosaicml` or `... litdata`, with that package installed. The
data are those of `remote_cache.py`: 200 shards of random bytes, written by the package itself. What is
printed is the bytes that each epoch copies from the folder that stands for the store, divided by the size of the data.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import mosaicml as package

SHARDS = 200


class Copied:
    """Counts the bytes that are copied from the store."""

    def __init__(self) -> None:
        self.bytes = 0

    def counting(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """``method`` of a downloader, which gets the path of the remote file first."""

        def counted(downloader: Any, remote: str, *rest: Any, **options: Any) -> Any:
            found = method(downloader, remote, *rest, **options)
            self.bytes += os.path.getsize(remote.removeprefix("local:"))
            return found

        return counted


def samples(items: int, size: int) -> Iterator[bytes]:
    """The samples, ``items`` for each shard."""
    generator = np.random.default_rng(0)
    for _ in range(items * SHARDS):
        yield generator.bytes(size)


def mosaicml(
    folder: Path, items: int, size: int, epochs: int, algorithms: list[str]
) -> Iterator[dict[str, Any]]:
    """The epochs of a `StreamingDataset` with a ``cache_limit``, for each ``shuffle_algo``."""
    streaming = package.streaming()
    from streaming.base.storage import download

    store = folder / "mds"
    with streaming.MDSWriter(
        out=str(store), columns={"data": "bytes"}, size_limit=items * (size + 8) + 4096
    ) as writer:
        for data in samples(items, size):
            writer.write({"data": data})
    total = sum(path.stat().st_size for path in store.iterdir())
    copied = Copied()
    local = download.LocalDownloader
    local._download_file_impl = copied.counting(local._download_file_impl)
    for algorithm in algorithms:
        for share in (0.1, 0.25, 0.5):
            cache = tempfile.mkdtemp()
            dataset = streaming.StreamingDataset(
                remote=str(store), local=cache, shuffle=True, shuffle_algo=algorithm, batch_size=1, num_canonical_nodes=1,
                cache_limit=int(share * total), predownload=8,
            )  # fmt: skip
            yield row(f"{algorithm}", share, copied, total, epochs, dataset)
            shutil.rmtree(cache, ignore_errors=True)


def litdata(
    folder: Path, items: int, size: int, epochs: int, _: list[str]
) -> Iterator[dict[str, Any]]:
    """The epochs of a `StreamingDataset` with a ``max_cache_size``."""
    from litdata.streaming import Cache, StreamingDataset
    from litdata.streaming.downloader import LocalDownloaderWithCache, register_downloader

    store = folder / "chunks"
    writer = Cache(input_dir=str(store), chunk_size=items)
    for number, data in enumerate(samples(items, size)):
        writer[number] = data
    writer.done()
    writer.merge()
    total = sum(path.stat().st_size for path in store.iterdir())
    copied = Copied()

    class Counting(LocalDownloaderWithCache):  # type: ignore[misc]
        download_file = copied.counting(LocalDownloaderWithCache.download_file)

        async def adownload_bytes(self, remote: str, offset: int, length: int, local: str) -> bytes:
            copied.bytes += length
            return bytes(
                await super().adownload_bytes(remote.removeprefix("local:"), offset, length, local)
            )

    register_downloader("local:", Counting, overwrite=True)
    for share in (0.1, 0.25, 0.5):
        cache = tempfile.mkdtemp()
        dataset = StreamingDataset(
            f"local:{store}", cache_dir=cache, shuffle=True, max_cache_size=int(share * total)
        )
        yield row("shuffle=True", share, copied, total, epochs, dataset)
        shutil.rmtree(cache, ignore_errors=True)


def row(
    name: str, share: float, copied: Copied, total: int, epochs: int, dataset: Any
) -> dict[str, Any]:
    """What each epoch copied."""
    fetched = []
    for _ in range(epochs):
        before, count = copied.bytes, 0
        for _ in dataset:
            count += 1
        fetched.append(round((copied.bytes - before) / total, 3))
    return {"shuffle": name, "cache": share, "fetched": fetched, "items": count}


def main() -> None:
    """Print a line of JSON for each measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", choices=["mosaicml", "litdata"])
    parser.add_argument("--items", type=int, default=40, help="in a shard")
    parser.add_argument("--size", type=int, default=25_000, help="bytes of an item")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument(
        "--algorithms", nargs="+", default=["naive", "py1s", "py1e"], help="shuffles of MosaicML"
    )
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    try:
        library = {"mosaicml": mosaicml, "litdata": litdata}[options.library]
        for one in library(folder, options.items, options.size, options.epochs, options.algorithms):
            print(json.dumps(one), flush=True)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
