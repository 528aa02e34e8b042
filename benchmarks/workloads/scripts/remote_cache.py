"""How many bytes a cache of remote files fetches.

Run as `python -m benchmarks.workloads.scripts.remote_cache`, in an environment with the extra `remote` and aiohttp. It goes
twice, or more often, through shuffled shards with caches of 10, 25 and 50 % of the data. It prints the bytes fetched in each
epoch divided by the size of the data, and the same for a cache of the same parts and size that removes what was used longest
ago. How fast files come through a cache, `remote_speed.py` says.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import resumable as rs
from benchmarks.workloads.scripts.remote_speed import SHARDS, store
from resumable.core.process_counts import process_counts
from resumable.file_cache.reading import CacheReader
from resumable.formats.tables.source import decoded

PART = 1 << 18


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


def write_tables(folder: Path, items: int, size: int, shards: int, *, ending: str) -> int:
    """The same as `write_shards` in Parquet or Arrow files, each of four row groups or record batches."""
    import pyarrow as pa
    import pyarrow.feather
    import pyarrow.parquet

    generator, total, rows = np.random.default_rng(0), 0, max(items // 4, 1)
    for shard in range(shards):
        path = folder / f"{shard:03}.{ending}"
        table = pa.table({"data": [generator.bytes(size) for _ in range(items)]})
        if ending == "arrow":
            pa.feather.write_feather(table, path, compression="uncompressed", chunksize=rows)
        else:
            pa.parquet.write_table(table, path, row_group_size=rows, use_dictionary=False)
        total += path.stat().st_size
    # What takes more memory than groups are kept in is read again in each epoch.
    decoded.most = total // 8
    return total


FORMATS: dict[str, tuple[Callable[[Path, int, int, int], int], Callable[..., Any]]] = {
    "txt": (write_shards, rs.lines),
    "parquet": (partial(write_tables, ending="parquet"), rs.parquet),
    "arrow": (partial(write_tables, ending="arrow"), rs.arrow),
}


def measure_bytes(
    folder: Path, items: int, size: int, epochs: int, shards: int = SHARDS, format: str = "txt"
) -> Iterator[dict[str, Any]]:
    """The bytes that each epoch fetches, by how the shards are shuffled and by the share that the cache has room for."""
    write, make = FORMATS[format]
    total = write(folder, items, size, shards)
    names = sorted(path.name for path in folder.glob(f"*.{format}"))
    with store(folder) as (address, _):
        urls = [f"{address}/{name}" for name in names]
        options = {"index_dir": tempfile.mkdtemp()} if format == "txt" else {}
        make(urls, **options)
        blocks: dict[str, int | None] = {f"block={items}": items}
        if format == "txt":  # tables would be decoded for each row
            blocks = {"global": None, **blocks}
        for how, block in blocks.items():
            for share in (0.1, 0.25, 0.5):
                place = tempfile.mkdtemp()
                cache = rs.FileCache(place, int(share * total), PART)
                model = LastUse(int(share * total))
                pipeline = make(urls, **options, cache=cache).shuffle(0, block=block)
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
    read = CacheReader.read

    def noted(self: Any, wanted: Any, reader: Any, *, whole: bool = False) -> Any:
        for part, needed in self._cutter.wanted_parts(wanted).items():
            model.use(part, needed.size)
        return read(self, wanted, reader, whole=whole)

    CacheReader.read = noted  # type: ignore[method-assign]
    try:
        yield
    finally:
        CacheReader.read = read  # type: ignore[method-assign]


def main() -> None:
    """Print a line of JSON for each measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=40, help="in a shard")
    parser.add_argument("--size", type=int, default=25_000, help="bytes of an item")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--shards", type=int, default=SHARDS)
    parser.add_argument("--format", choices=FORMATS, default="txt")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        arguments = options.items, options.size, options.epochs, options.shards, options.format
        for row in measure_bytes(Path(folder), *arguments):
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
