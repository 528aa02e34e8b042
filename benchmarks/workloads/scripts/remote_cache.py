"""How many bytes a cache of remote files fetches, and how fast files come from a distant store through it.

Run as `python -m benchmarks.workloads.scripts.remote_cache bytes` and `... speed`, in an environment with the extra `remote`
and aiohttp. ``bytes`` goes twice, or more often, through shuffled shards with caches of 10, 25 and 50 % of the data. It
prints the bytes fetched in each epoch divided by the size of the data, and the same for a cache of the same parts and size
that removes what was used longest ago. ``speed`` reads shards in blocks from a store with a latency and a rate for each connection, with
read-ahead, and compares that with local files that were read before.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import shutil
import statistics
import tempfile
import time
import warnings
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import resumable as rs
from benchmarks.fresh import end_with_parent
from resumable.core.process_counts import process_counts
from resumable.file_cache.reading import CacheReader

SHARDS = 200
PART = 1 << 18


def serve(folder: str, latency: float, rate: float, channel: Any) -> None:
    """Serve the files of a folder over HTTP, each answer after ``latency`` seconds, at ``rate`` bytes a second."""
    from aiohttp import web

    end_with_parent(os.getppid())

    async def answer(request: Any) -> Any:
        path = Path(folder, request.path.lstrip("/"))
        size = path.stat().st_size
        headers = {"ETag": f'"{path.name}"', "Accept-Ranges": "bytes"}
        await asyncio.sleep(latency)
        if request.method == "HEAD":
            return web.Response(headers={**headers, "Content-Length": str(size)})
        asked = request.http_range
        start, stop = asked.start or 0, min(asked.stop or size, size)
        with path.open("rb") as file:
            file.seek(start)
            data = file.read(stop - start)
        if rate:
            await asyncio.sleep(len(data) / rate)
        return web.Response(body=data, status=206, headers=headers)

    async def run() -> None:
        app = web.Application()
        app.router.add_route("*", "/{name}", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        channel.send(site._server.sockets[0].getsockname()[1])
        await asyncio.Event().wait()

    asyncio.run(run())


@contextmanager
def store(folder: Path, latency: float = 0.0, rate: float = 0.0) -> Iterator[str]:
    """The address of a store in another process."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    server = context.Process(target=serve, args=(str(folder), latency, rate, theirs), daemon=True)
    server.start()
    try:
        yield f"http://127.0.0.1:{ours.recv()}"
    finally:
        server.kill()
        server.join()


def write_shards(folder: Path, items: int, size: int, shards: int) -> int:
    """Write ``shards`` of ``items`` lines of ``size`` bytes each; returns the bytes of all."""
    generator, total = np.random.default_rng(0), 0
    for shard in range(shards):
        letters = generator.integers(97, 123, (items, size), dtype=np.uint8)
        letters[:, -1] = ord("\n")
        (folder / f"{shard:03}.txt").write_bytes(letters.tobytes())
        total += letters.nbytes
    return total


class LastUse:
    """A cache of whole parts in which the part goes that was used longest ago.

    Attributes:
      fetched: bytes that it had to fetch.
    """

    def __init__(self, room: int) -> None:
        self.fetched = 0
        self._room = room
        self._kept: OrderedDict[Any, int] = OrderedDict()

    def use(self, part: Any, size: int) -> None:
        """Read something of a part."""
        if part in self._kept:
            self._kept.move_to_end(part)
            return
        self.fetched += size
        self._kept[part] = size
        while sum(self._kept.values()) > self._room:
            self._kept.popitem(last=False)


def measure_bytes(
    folder: Path, items: int, size: int, epochs: int, shards: int = SHARDS
) -> Iterator[dict[str, Any]]:
    """The bytes that each epoch fetches, by how the shards are shuffled and by the share that the cache has room for."""
    total = write_shards(folder, items, size, shards)
    names = sorted(path.name for path in folder.glob("*.txt"))
    with store(folder) as address:
        urls = [f"{address}/{name}" for name in names]
        index = tempfile.mkdtemp()
        rs.lines(urls, index_dir=index)
        blocks: dict[str, int | None] = {"global": None, f"block={items}": items}
        for how, block in blocks.items():
            for share in (0.1, 0.25, 0.5):
                place = tempfile.mkdtemp()
                cache = rs.FileCache(place, int(share * total), PART)
                model = LastUse(int(share * total))
                pipeline = rs.lines(urls, index_dir=index, cache=cache).shuffle(0, block=block)
                fetched, by_last_use = [], []
                with (
                    warnings.catch_warnings(),
                    noting(model),
                    iter(pipeline.repeat(epochs)) as iterator,
                ):
                    # Some of these caches are too small, which is what is measured.
                    warnings.filterwarnings("ignore", "an order has .* in use", RuntimeWarning)
                    for _ in range(epochs):
                        before, modelled = process_counts.now()["bytes_read"], model.fetched
                        for _ in range(items * shards):
                            next(iterator)
                        read = process_counts.now()["bytes_read"] - before
                        fetched.append(round(read / total, 3))
                        by_last_use.append(round((model.fetched - modelled) / total, 3))
                shutil.rmtree(place)
                yield {
                    "shuffle": how, "cache": share, "fetched": fetched, "by last use": by_last_use,
                }  # fmt: skip


@contextmanager
def noting(model: LastUse) -> Iterator[None]:
    """Let ``model`` see all that is read through a cache."""
    pieces = CacheReader._pieces

    def noted(self: Any, wanted: Any, reader: Any, whole: bool) -> Any:
        for part, needed in self._cutter.wanted_parts(wanted).items():
            model.use(part, needed.size)
        return pieces(self, wanted, reader, whole)

    CacheReader._pieces = noted  # type: ignore[method-assign]
    try:
        yield
    finally:
        CacheReader._pieces = pieces  # type: ignore[method-assign]


def measure_speed(
    folder: Path, items: int, size: int, rounds: int, shards: int = SHARDS
) -> Iterator[dict[str, Any]]:
    """Items a second from a distant store with read-ahead, and from local files that are in memory."""
    write_shards(folder, items, size, shards)
    paths = sorted(map(str, folder.glob("*.txt")))
    index = tempfile.mkdtemp()
    with store(folder, latency=0.02, rate=1e8) as address:
        urls = [f"{address}/{Path(path).name}" for path in paths]
        rs.lines(urls, index_dir=index)
        rs.lines(paths, index_dir=index)

        def remote() -> Any:
            cache = rs.FileCache(tempfile.mkdtemp(), 1 << 34, read_ahead=1 << 27)
            return rs.lines(urls, index_dir=index, cache=cache)

        for work in (0, 1, 4):
            found: dict[str, list[float]] = {"remote": [], "local": []}
            for _ in range(rounds):
                for name, make in (
                    ("local", lambda: rs.lines(paths, index_dir=index)),
                    ("remote", remote),
                ):
                    pipeline = make().shuffle(0, block=items).map(busy(work)).prefetch(64)
                    count, began = 0, time.perf_counter()
                    for _ in pipeline:
                        count += 1
                    found[name].append(count / (time.perf_counter() - began))
            ratios = [
                one / other for one, other in zip(found["remote"], found["local"], strict=True)
            ]
            yield {
                "work on an item": f"{work} passes", **found, "ratio": statistics.median(ratios),
                "ratios": [round(ratio, 3) for ratio in sorted(ratios)],
            }  # fmt: skip


def busy(passes: int) -> Any:
    """A function that goes over an item so often."""

    def work(item: str) -> int:
        return sum(item.count(letter) for letter in "abcdefgh"[:passes]) + len(item)

    return work


def main() -> None:
    """Print a line of JSON for each measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["bytes", "speed"])
    parser.add_argument("--items", type=int, default=40, help="in a shard")
    parser.add_argument("--size", type=int, default=25_000, help="bytes of an item")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    try:
        if options.what == "bytes":
            rows = measure_bytes(folder, options.items, options.size, options.epochs)
        else:
            rows = measure_speed(folder, options.items, options.size, options.rounds)
        for row in rows:
            print(json.dumps(row), flush=True)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
