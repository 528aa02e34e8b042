"""Open thousands of files of lines with few descriptors, and read them by global shuffle.

Run it as ``PYTHONPATH=.:tests python -m campaigns.many_files --files 10000 --lines 100000``; the
suite runs it with fewer.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import resumable as rs
from benchmarks.workloads.many_files import content, opened_and_read, write_linked_files

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
        write_linked_files(Path(folder), options.files, options.lines, options.width)
        found = measured(Path(folder), options.lines, options.width, options.batches)
    print(json.dumps(found))
    return 0 if found["right"] else 1


def measured(folder: Path, lines: int, width: int, batches: int) -> dict[str, Any]:
    """What opening and reading the files takes."""
    paths = sorted(str(path) for path in folder.glob("*.txt"))
    figures, taken = opened_and_read(lambda: rs.lines(paths).shuffle(0).batch(256), batches)
    order = rs.range(len(paths) * lines).shuffle(0).batch(256)
    right = all(
        [content(int(item) % lines, width) for item in numbers] == list(batch)
        for numbers, batch in zip(order, taken, strict=False)
    )
    return {
        "files": len(paths),
        "right": right and len(taken) == batches,
        "seconds to open": round(figures.open, 3),
        "seconds to the first batch": round(figures.first, 3),
        "microseconds a line": round(figures.later / 256 / max(batches - 1, 1) * 1e6, 1),
        "descriptors at open": figures.at_open,
        "descriptors after reading": figures.at_end,
    }


if __name__ == "__main__":
    sys.exit(main())
