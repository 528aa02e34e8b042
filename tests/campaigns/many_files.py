"""Open thousands of files of lines with few descriptors, and read them by global shuffle.

Run it as ``PYTHONPATH=.:tests python -m campaigns.many_files --files 10000 --lines 100000``; the
suite runs it with fewer.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import resumable as rs
from resumable.formats.index_file import CACHE_SUFFIX

DESCRIPTORS = 256


def main(arguments: Sequence[str] | None = None) -> int:
    """Print figures as JSON; the status says whether all lines were right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--lines", type=int, default=100_000, help="of each file")
    parser.add_argument("--width", type=int, default=99, help="of a line, in bytes")
    parser.add_argument("--batches", type=int, default=20, help="of 256 lines")
    options = parser.parse_args(arguments)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, most))
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder), options.files, options.lines, options.width)
        found = measured(Path(folder), options.lines, options.width, options.batches)
    print(json.dumps(found))
    return 0 if found["right"] else 1


def content(line: int, width: int) -> str:
    """What stands in a line."""
    return f"{line:0{width}}"[-width:]


def write_files(folder: Path, files: int, lines: int, width: int) -> None:
    """The same lines under many names, each of which has a cache of its index."""
    first = folder / "00000.txt"
    first.write_text("".join(f"{content(line, width)}\n" for line in range(lines)))
    rs.lines(first)
    cache = first.with_name(first.name + CACHE_SUFFIX)
    for number in range(1, files):
        name = f"{number:05}.txt"
        os.link(first, folder / name)
        os.link(cache, folder / (name + CACHE_SUFFIX))


def measured(folder: Path, lines: int, width: int, batches: int) -> dict[str, Any]:
    """What opening and reading the files takes."""
    paths = sorted(str(path) for path in folder.glob("*.txt"))
    before = descriptors()
    began = time.perf_counter()
    pipeline = rs.lines(paths)
    opened = time.perf_counter()
    at_open = descriptors() - before
    shuffled = pipeline.shuffle(0).batch(256)
    order = rs.range(len(paths) * lines).shuffle(0).batch(256)
    with iter(shuffled) as found:
        taken = [next(found)]
        first = time.perf_counter()
        taken += [next(found) for _ in range(1, batches)]
        ended = time.perf_counter()
    right = all(
        [content(int(item) % lines, width) for item in numbers] == list(batch)
        for numbers, batch in zip(order, taken, strict=False)
    )
    return {
        "files": len(paths),
        "right": right,
        "seconds to open": round(opened - began, 3),
        "seconds to the first batch": round(first - opened, 3),
        "microseconds a line": round((ended - first) / 256 / max(batches - 1, 1) * 1e6, 1),
        "descriptors at open": at_open,
        "descriptors after reading": descriptors() - before,
    }


def descriptors() -> int:
    """How many this process has."""
    return len(os.listdir("/proc/self/fd"))


if __name__ == "__main__":
    sys.exit(main())
