"""How fast other loaders read shuffled shards from a distant store, beside the same loader on local files.

Run as `python -m benchmarks.workloads.scripts.remote_speed_of_others LOADER`, with ``mosaicml``, ``litdata``,
``webdataset`` or ``datasets`` for that package. The data, the work on an item and the store are those of `remote_speed.py`: a
latency of 20 ms for each request, and 100 MB/s for each connection. WebDataset and datasets read them over HTTP. MosaicML Streaming and
LitData have no reader of plain HTTP: their downloader for local folders waits as long as such a connection takes.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import statistics
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks import mosaicml as package
from benchmarks.workloads.scripts.caches_of_others import SHARDS, samples
from benchmarks.workloads.scripts.remote_speed import WORKS, store

LATENCY = 0.02
RATE = 1e8

Make = Callable[[str], Iterable[bytes]]
"""Makes the items of an epoch from the address of a store, or from a folder."""


class Distance:
    """Makes a downloader of local files as slow as a connection to the store."""

    def __init__(self) -> None:
        self.far = False

    def of(self, download: Callable[..., Any]) -> Callable[..., Any]:
        """``download``, which gets the path of the remote file first."""

        def delayed(downloader: Any, remote: str, *rest: Any, **options: Any) -> Any:
            if self.far:
                size = os.path.getsize(remote.removeprefix("local:"))
                time.sleep(LATENCY + size / RATE)
            return download(downloader, remote, *rest, **options)

        return delayed


def mosaicml(folder: Path, data: Iterator[bytes], items: int, size: int) -> tuple[Make, Any]:
    """Its shuffle ``py1s`` with the defaults of its reading ahead."""
    streaming = package.streaming()
    from streaming.base.storage import download

    with streaming.MDSWriter(
        out=str(folder), columns={"data": "bytes"}, size_limit=items * (size + 8) + 4096
    ) as writer:
        for item in data:
            writer.write({"data": item})
    distance = Distance()
    local = download.LocalDownloader
    local._download_file_impl = distance.of(local._download_file_impl)

    def make(place: str) -> Iterator[bytes]:
        distance.far = place != str(folder)
        cache = tempfile.mkdtemp()
        source = {"remote": str(folder), "local": cache} if distance.far else {"local": str(folder)}
        dataset = streaming.StreamingDataset(
            **source, shuffle=True, shuffle_algo="py1s", batch_size=1, num_canonical_nodes=1
        )
        for item in dataset:
            yield item["data"]
        shutil.rmtree(cache, ignore_errors=True)

    return make, None


def litdata(folder: Path, data: Iterator[bytes], items: int, size: int) -> tuple[Make, Any]:
    """Its own shuffle, with the defaults of its reading ahead."""
    from litdata.streaming import Cache, StreamingDataset
    from litdata.streaming.downloader import LocalDownloaderWithCache, register_downloader

    writer = Cache(input_dir=str(folder), chunk_size=items)
    for number, item in enumerate(data):
        writer[number] = item
    writer.done()
    writer.merge()
    distance = Distance()

    class Distant(LocalDownloaderWithCache):  # type: ignore[misc]
        download_file = distance.of(LocalDownloaderWithCache.download_file)

    register_downloader("local:", Distant, overwrite=True)

    def make(place: str) -> Iterator[bytes]:
        distance.far = place != str(folder)
        cache = tempfile.mkdtemp()
        dataset = (
            StreamingDataset(f"local:{folder}", cache_dir=cache, shuffle=True)
            if distance.far
            else StreamingDataset(str(folder), shuffle=True)
        )
        yield from dataset
        shutil.rmtree(cache, ignore_errors=True)

    return make, None


def webdataset(folder: Path, data: Iterator[bytes], items: int, size: int) -> tuple[Make, Any]:
    """Tar shards in another order, and a shuffle in a buffer of 1,000 samples."""
    import webdataset as wds

    for shard in range(SHARDS):
        with tarfile.open(folder / f"{shard:03}.tar", "w") as archive:
            for number in range(items):
                member = tarfile.TarInfo(f"{shard:03}-{number:03}.bin")
                item = next(data)
                member.size = len(item)
                archive.addfile(member, io.BytesIO(item))

    def make(place: str) -> Iterator[bytes]:
        urls = [f"{place}/{shard:03}.tar" for shard in range(SHARDS)]
        dataset = wds.WebDataset(urls, shardshuffle=SHARDS, empty_check=False).shuffle(1000)
        for sample in dataset:
            yield sample["bin"]

    return make, store(folder, LATENCY, RATE)


def datasets(folder: Path, data: Iterator[bytes], items: int, size: int) -> tuple[Make, Any]:
    """Files of JSON lines in another order, and a shuffle in a buffer of 1,000 lines."""
    from datasets import load_dataset

    table = bytes(97 + byte % 26 for byte in range(256))
    for shard in range(SHARDS):
        lines = (b'{"text":"%b"}' % next(data).translate(table) for _ in range(items))
        (folder / f"{shard:03}.jsonl").write_bytes(b"\n".join(lines))

    def make(place: str) -> Iterator[bytes]:
        files = [f"{place}/{shard:03}.jsonl" for shard in range(SHARDS)]
        dataset = load_dataset("json", data_files=files, split="train", streaming=True)
        for row in dataset.shuffle(seed=0, buffer_size=1000):
            yield row["text"].encode()

    return make, store(folder, LATENCY, RATE)


LOADERS = {
    "mosaicml": mosaicml,
    "litdata": litdata,
    "webdataset": webdataset,
    "datasets": datasets,
}


@contextmanager
def far(folder: Path, distant: Any) -> Iterator[str]:
    """The address of the store of a loader, if it has one."""
    if distant is None:
        yield "far"
    else:
        with distant as (address, _):
            yield address


def measure(name: str, folder: Path, options: Any) -> Iterator[dict[str, Any]]:
    """Items a second from the store and from local files that are in memory."""
    make, distant = LOADERS[name](
        folder, samples(options.items, options.size), options.items, options.size
    )
    with far(folder, distant) as address:
        for kind_of_work in ("none", "a pass over the text", "four passes"):
            work = WORKS[kind_of_work]
            found: dict[str, list[float]] = {"remote": [], "local": []}
            for _ in range(options.rounds):
                for kind, place in (("local", str(folder)), ("remote", address)):
                    count, began = 0, time.perf_counter()
                    for item in make(place):
                        work(bytes(item).decode("latin-1"))
                        count += 1
                    assert count == SHARDS * options.items, count
                    found[kind].append(round(count / (time.perf_counter() - began)))
            ratios = sorted(
                round(one / other, 3)
                for one, other in zip(found["remote"], found["local"], strict=True)
            )
            yield {
                "loader": name, "work on an item": kind_of_work, **found,
                "ratio": statistics.median(ratios), "ratios": ratios,
            }  # fmt: skip


def main() -> None:
    """Print a line of JSON for each measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("loader", choices=sorted(LOADERS))
    parser.add_argument("--items", type=int, default=40, help="in a shard")
    parser.add_argument("--size", type=int, default=25_000, help="bytes of an item")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    try:
        for row in measure(options.loader, folder, options):
            print(json.dumps(row), flush=True)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
