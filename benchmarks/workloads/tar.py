"""Samples of tar shards, an image's bytes and a label each: in order, and all of them shuffled."""

# All contestants run in one process, in turns, and only the time that this process computes is
# counted, since that of a disk would be the same for all. The files are in the page cache. A sample
# is a dict of bytes for everyone; each byte of it is read. WebDataset has no random access, so the
# global shuffle is compared with our own epoch in order.

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np

import resumable as rs
from benchmarks.processor_time import Ways, add_table, race, ratio, scan_seconds
from benchmarks.result import Options, Result, Table, at_least
from benchmarks.timings import shown
from benchmarks.work import SEED

MINUTES: Final = 4

BARE = "tarfile, by hand"
WEBDATASET = "WebDataset"
IN_ORDER = "resumable"
SHUFFLED = "resumable, shuffled"


def run(options: Options) -> Result:
    """Time all contestants over samples of several sizes, and the scan that makes the index."""
    result = Result("tar", (__doc__ or "").splitlines()[0])
    sizes = {2_000: 100} if options.quick else {2_000: 20_000, 20_000: 20_000, 200_000: 4_000}
    scans = []
    for number, (size, count) in enumerate(sizes.items(), 1):
        shards = _written(options.folder / f"tar-{size}", count, size)
        scan = [
            options.journal.once(size, "scan", turn, measure=partial(scan_seconds, rs.tar, shards))
            for turn in range(options.rounds)
        ]
        scans.append((f"{size:,}", shown([1e6 * each / count for each in scan], 1)))
        title = f"{count:,} samples of {size:,} bytes"
        seconds = race(_ways(shards), options, count, _look_at, title, until=number / len(sizes))
        add_table(result, title, "sample", seconds, IN_ORDER, count)
        if not options.quick:
            theirs = ratio(seconds, WEBDATASET, IN_ORDER) if WEBDATASET in seconds else None
            shuffled = ratio(seconds, IN_ORDER, SHUFFLED)
            result.claims += [
                at_least(f"{title}: WebDataset's time ÷ resumable's, in order", theirs, 1.5),
                at_least(f"{title}: our time in order ÷ shuffled", shuffled, 0.5),
            ]
    result.tables.append(Table("Building the index", ("bytes a sample", "µs a sample"), scans))
    return result


def _written(folder: Path, count: int, size: int, shards: int = 4) -> list[str]:
    """Shards as WebDataset writes them, in the order of its members."""
    folder.mkdir()
    rng = np.random.default_rng(SEED)
    paths = [str(folder / f"{shard}.tar") for shard in range(shards)]
    for shard, path in enumerate(paths):
        with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
            for number in range(shard * count // shards, (shard + 1) * count // shards):
                for extension, data in (("cls", b"%d" % (number % 1000)), ("jpg", rng.bytes(size))):
                    member = tarfile.TarInfo(f"{number:08d}.{extension}")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))
    return paths


def _ways(shards: list[str]) -> Ways:
    pipeline = rs.tar(shards)
    ways: Ways = {BARE: lambda: _by_hand(shards)}
    if find_spec("webdataset"):
        ways[WEBDATASET] = lambda: _by_webdataset(shards)
    return ways | {IN_ORDER: lambda: pipeline, SHUFFLED: lambda: pipeline.shuffle(SEED)}


def _by_hand(shards: list[str]) -> Iterator[dict[str, Any]]:
    sample: dict[str, Any] = {}
    for shard in shards:
        with tarfile.open(shard) as tar:
            for member in tar:
                key, _, extension = member.name.partition(".")
                if sample and sample["__key__"] != key:
                    yield sample
                    sample = {}
                file = tar.extractfile(member)
                assert file is not None
                sample |= {"__key__": key, extension: file.read()}
    yield sample


def _by_webdataset(shards: list[str]) -> Iterable[dict[str, Any]]:
    import webdataset

    samples: Iterable[dict[str, Any]] = webdataset.WebDataset(shards, shardshuffle=False)
    return samples


def _look_at(sample: dict[str, Any]) -> int:
    return int(sample["cls"]) + int(sample["jpg"][-1])
