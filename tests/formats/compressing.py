"""Compress data in all the ways that are read, as the libraries of others do it."""

from __future__ import annotations

import bz2
import gzip
import lzma
import struct
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

__all__ = ["COMPRESS", "HAS_LZ4", "HAS_ZSTD", "IN_PARTS", "PART", "bgzf", "seekable_zstd"]

PART = 1000
HAS_LZ4 = find_spec("lz4") is not None
HAS_ZSTD = find_spec("backports") is not None and find_spec("backports.zstd") is not None


def bgzf(data: bytes, size: int = PART) -> bytes:
    """As bgzip: blocks that are members of gzip, each with its length, and an empty one last."""
    parts = [data[start : start + size] for start in range(0, len(data), size)]
    return b"".join(map(_bgzf_block, [*parts, b""]))


def _bgzf_block(data: bytes) -> bytes:
    member = gzip.compress(data, mtime=0)
    extra = struct.pack("<BBHH", 66, 67, 2, len(member) + 8 - 1)
    flags = member[:3] + b"\4" + member[4:10]
    return flags + struct.pack("<H", len(extra)) + extra + member[10:]


def zstd(data: bytes) -> bytes:
    """One frame with a checksum."""
    from backports import zstd

    options = {zstd.CompressionParameter.checksum_flag: True}
    compressed: bytes = zstd.compress(data, options=options)
    return compressed


def seekable_zstd(data: bytes, size: int = PART) -> bytes:
    """The seekable format: frames, and a table of their sizes in a frame to be skipped."""
    frames = [zstd(data[start : start + size]) for start in range(0, len(data), size)]
    sizes = [min(size, len(data) - start) for start in range(0, len(data), size)]
    rows = b"".join(
        struct.pack("<II", len(frame), n) for frame, n in zip(frames, sizes, strict=True)
    )
    table = rows + struct.pack("<IBI", len(frames), 0, 0x8F92EAB1)
    return b"".join(frames) + struct.pack("<II", 0x184D2A5E, len(table)) + table


def in_parts(compress: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    def compress_parts(data: bytes) -> bytes:
        parts = range(0, max(len(data), 1), PART)
        return b"".join(compress(data[start : start + PART]) for start in parts)

    return compress_parts


COMPRESS: dict[str, Callable[[bytes], Any]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".txt": lambda data: data,
}
IN_PARTS: dict[str, Callable[[bytes], Any]] = {
    "m.gz": in_parts(gzip.compress),
    "m.bgz": bgzf,
    "m.bz2": in_parts(bz2.compress),
    "m.xz": in_parts(lzma.compress),
}
if HAS_LZ4:
    import lz4.frame

    COMPRESS[".lz4"] = lambda data: lz4.frame.compress(data, content_checksum=True)
    IN_PARTS["m.lz4"] = in_parts(COMPRESS[".lz4"])
if HAS_ZSTD:
    COMPRESS[".zst"] = zstd
    IN_PARTS["m.zst"] = seekable_zstd
