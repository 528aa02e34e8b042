"""ArrayRecord files that the real package writes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

OPTIONS = ("group_size:1", "group_size:4", "group_size:4,uncompressed", "group_size:3,brotli:2")
"""Of the writer: how many records it compresses together, and how."""


def records(begin: int, end: int) -> list[bytes]:
    """Records of many lengths that differ; number 0 is empty."""
    return [b"%d " % number * (number % 5 + 1) if number else b"" for number in range(begin, end)]


def write(path: Path, found: Iterable[bytes], options: str = OPTIONS[0]) -> Path:
    from array_record.python.array_record_module import ArrayRecordWriter

    writer = ArrayRecordWriter(str(path), options)
    for record in found:
        writer.write(record)
    writer.close()
    return path
