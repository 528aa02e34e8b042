"""Records of TFRecord files as bytes: in order, and all of them shuffled."""

# All contestants run in one process, in turns, and only the time that this process computes is
# counted, since that of a disk would be the same for all. The files are in the page cache. Everyone
# verifies all checksums. TensorFlow delivers NumPy's scalars of bytes, one by one, in which way it
# reads a file in one thread. It has no random access, so it is in order only.

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import numpy as np

import resumable as rs
from benchmarks.processor_time import Ways, add_table, race, ratio, scan_seconds
from benchmarks.result import Options, Result, Table, at_least
from benchmarks.timings import shown
from benchmarks.work import SEED

MINUTES: Final = 6

BARE = "a loop by hand"
TENSORFLOW = "tf.data"
IN_ORDER = "resumable"
SHUFFLED = "resumable, shuffled"


def run(options: Options) -> Result:
    """Time all contestants over records of several sizes, and the scan that makes the index."""
    result = Result("tfrecord", (__doc__ or "").splitlines()[0])
    if not find_spec("google_crc32c"):
        result.problems.append("google-crc32c is not installed")
        return result
    sizes = {100: 100} if options.quick else {100: 200_000, 10_000: 20_000, 200_000: 2_000}
    scans = []
    for number, (size, count) in enumerate(sizes.items(), 1):
        paths = _written(options.folder / f"tfrecord-{size}", count, size)
        scan = [
            options.journal.once(
                size, "scan", turn, measure=partial(scan_seconds, rs.tfrecord, paths)
            )
            for turn in range(options.rounds)
        ]
        scans.append((f"{size:,}", shown([1e6 * each / count for each in scan], 2)))
        title = f"{count:,} records of {size:,} bytes"
        seconds = race(_ways(paths), options, count, _look_at, title, until=number / len(sizes))
        add_table(result, title, "record", seconds, IN_ORDER, count)
        if not options.quick:
            theirs = ratio(seconds, TENSORFLOW, IN_ORDER) if TENSORFLOW in seconds else None
            result.claims.append(
                at_least(f"{title}: tf.data's time ÷ resumable's, in order", theirs, 1)
            )
    result.tables.append(Table("Building the index", ("bytes a record", "µs a record"), scans))
    return result


def masked_checksum(data: bytes) -> int:
    """The CRC-32C of ``data``, as these files have it."""
    import google_crc32c

    value: int = google_crc32c.value(data)
    return ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _written(folder: Path, count: int, size: int, files: int = 4) -> list[str]:
    folder.mkdir()
    rng = np.random.default_rng(SEED)
    paths = [str(folder / f"{number}.tfrecord") for number in range(files)]
    for number, path in enumerate(paths):
        with open(path, "wb") as file:
            for _ in range(number * count // files, (number + 1) * count // files):
                content = rng.bytes(size)
                head = struct.pack("<Q", size)
                file.write(head + struct.pack("<I", masked_checksum(head)))
                file.write(content + struct.pack("<I", masked_checksum(content)))
    return paths


def _ways(paths: list[str]) -> Ways:
    pipeline = rs.tfrecord(paths)
    ways: Ways = {BARE: lambda: _by_hand(paths)}
    if find_spec("tensorflow"):
        ways[TENSORFLOW] = lambda: _by_tensorflow(paths)
    return ways | {IN_ORDER: lambda: pipeline, SHUFFLED: lambda: pipeline.shuffle(SEED)}


def _by_hand(paths: list[str]) -> Iterator[bytes]:
    for path in paths:
        with open(path, "rb") as file:
            while head := file.read(12):
                length, checksum = struct.unpack("<QI", head)
                assert checksum == masked_checksum(head[:8])
                content = file.read(length)
                assert struct.unpack("<I", file.read(4))[0] == masked_checksum(content)
                yield content


def _by_tensorflow(paths: list[str]) -> Iterable[bytes]:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    records: Iterable[bytes] = tf.data.TFRecordDataset(paths).as_numpy_iterator()
    return records


def _look_at(record: bytes) -> int:
    return record[-1]
