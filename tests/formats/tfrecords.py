"""Write TFRecord files and `tf.train.Example` messages, without TensorFlow."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import cache
from pathlib import Path

__all__ = ["checksum", "framed", "framed_head", "write_records"]


@cache
def _table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


def checksum(data: bytes) -> int:
    """The masked CRC-32C of ``data``, by its definition."""
    value, table = 0xFFFFFFFF, _table()
    for byte in data:
        value = table[(value ^ byte) & 0xFF] ^ value >> 8
    value ^= 0xFFFFFFFF
    return ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF


def framed_head(length: int) -> bytes:
    """What stands before a content of this length."""
    head = struct.pack("<Q", length)
    return head + struct.pack("<I", checksum(head))


def framed(content: bytes) -> bytes:
    """A record with this content."""
    return framed_head(len(content)) + content + struct.pack("<I", checksum(content))


def write_records(path: Path, contents: Iterable[bytes]) -> Path:
    """Write a file of records; returns its path."""
    with path.open("wb") as file:
        file.writelines(map(framed, contents))
    return path
