"""What the tests of every format know of `files`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from formats.records_of_formats import files_in, numbered_lines
from support.format_facts import BehindUrl, FormatFacts, OneSize, Pipelines
from support.samples import read_lines

import resumable as rs


def read_whole(paths: Any, **options: Any) -> rs.Pipeline[Any]:
    return rs.files(paths, read=True, **options)


def written(folder: Path, data: bytes) -> rs.Pipeline[Any]:
    for path in files_in(folder, ".bin"):
        path.write_bytes(data)
    return rs.files(folder / "*.bin", read=True)


def pipelines(folder: Path) -> Pipelines:
    """Over what the facts of `lines` write."""
    return {
        "files": lambda: (
            rs.files([folder / "text.txt", folder / "t*.txt"]).map(os.path.basename).repeat(2)
        ),
        "files read": lambda: rs.files(folder / "*.txt", read=True).shuffle(2).repeat(3),
        "partition of files": lambda: rs.files(folder / "t*.txt").partition(
            2, lambda part: part.flat_map(read_lines).enumerate()
        ),
    }


FACTS = FormatFacts(
    damaged=dict,  # every content is right
    one_size={
        "files": OneSize(numbered_lines, read_whole),
        "paths": OneSize(numbered_lines, rs.files),
    },
    removed={"files": written},
    pipelines=pipelines,
    behind_urls={"bytes": BehindUrl(lambda: b"content", read_whole, has_index=False)},
)
