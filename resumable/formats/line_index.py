"""Where the lines of a file end: an index built with NumPy and cached on disk."""

# Layout of a cache file, little-endian: HEADER (magic, size and mtime of the data, number of
# lines, number of blank lines, digest), then int64 ends of all lines, then int64 numbers of the
# blank lines. The digest is that of all the rest; it is checked where the numbers are read, while
# of a large index, which is mapped, only the header's numbers and the last end are. The file is
# written beside the data under a temporary name
# and renamed, so ranks that build it at the same time do no harm to each other. A cache that
# does not fit its data is built anew; one that cannot be written is done without.

from __future__ import annotations

import hashlib
import mmap
import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from ..core.block import Indices

CACHE_SUFFIX: Final = ".lines.idx"
SMALLEST_CACHED: Final = 1 << 16
"""Bytes of data below which building an index costs less than reading it from a file."""

LARGEST_READ: Final = 1 << 20
MAGIC: Final = b"RSMLINE1"
HEADER: Final = struct.Struct("<8sQqQQ16s")
CHUNK: Final = 1 << 20
NEWLINE: Final = 10
CARRIAGE_RETURN: Final = 13


class LineIndex(NamedTuple):
    """The lines of one file.

    Attributes:
      ends: shape (lines,), int64: the offset in bytes after each line's newline.
      blank: shape (blanks,), int64: numbers of the lines that hold nothing.
    """

    ends: Indices
    blank: Indices


def line_index(path: Path, folder: Path | None = None) -> LineIndex:
    """The index of ``path``, from its cache if that is up to date.

    Args:
      path: a regular file.
      folder: where its cache file is kept; None means beside the data.

    Raises:
      OSError: if ``path`` cannot be read.
    """
    status = path.stat()
    if status.st_size < SMALLEST_CACHED:
        return _small_index(path)
    cache = _cache_path(path, folder)
    index = _read_cache(cache, status)
    if index is None:
        with suppress(OSError):
            _write_cache(cache, path, status)
        index = _read_cache(cache, status)
    # Blocks of a cache that a power cut left empty are zeros; the last end tells.
    if index is not None and int(index.ends[-1]) != status.st_size:
        index = None
    return index if index is not None else _built(path)


def _cache_path(path: Path, folder: Path | None) -> Path:
    if folder is None:
        return path.with_name(path.name + CACHE_SUFFIX)
    place = hashlib.blake2b(os.fsencode(path.absolute().parent), digest_size=6).hexdigest()
    return folder / f"{path.name}.{place}{CACHE_SUFFIX}"


def _small_index(path: Path) -> LineIndex:
    data = np.frombuffer(path.read_bytes(), np.uint8)
    ends = np.flatnonzero(data == NEWLINE) + 1
    if len(data) and data[-1] != NEWLINE:
        ends = np.append(ends, len(data))
    ends = ends.astype(np.int64)
    return LineIndex(ends, _blank_lines(data, ends, 0, 0))


def _built(path: Path) -> LineIndex:
    parts = list(_scan(path))
    empty = np.empty(0, np.int64)
    ends = np.concatenate([empty, *(ends for ends, _ in parts)])
    return LineIndex(ends, np.concatenate([empty, *(blank for _, blank in parts)]))


def _scan(path: Path) -> Iterator[tuple[Indices, Indices]]:
    """Ends and blank lines of ``path``, a chunk of the file at a time."""
    lines, last_end = 0, 0
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        data = np.frombuffer(mapped, np.uint8)
        try:
            for offset in range(0, len(data), CHUNK):
                chunk = data[offset : offset + CHUNK]
                ends = np.flatnonzero(chunk == NEWLINE) + (offset + 1)
                if offset + CHUNK >= len(data) and data[-1] != NEWLINE:
                    ends = np.append(ends, len(data))
                ends = ends.astype(np.int64)
                yield ends, _blank_lines(data, ends, lines, last_end)
                lines += len(ends)
                last_end = int(ends[-1]) if len(ends) else last_end
        finally:
            chunk = data = None  # type: ignore[assignment]  # a map with views cannot be closed


def _blank_lines(
    data: np.ndarray[tuple[int], np.dtype[np.uint8]], ends: Indices, first: int, last_end: int
) -> Indices:
    """Numbers of the lines among ``ends`` that are empty but for their newline."""
    starts = np.concatenate([np.array([last_end], np.int64), ends[:-1]])[: len(ends)]
    sizes = ends - starts
    blank = (sizes == 1) & (data[ends - 1] == NEWLINE)
    pairs = np.flatnonzero(sizes == 2)
    blank[pairs] = (data[starts[pairs]] == CARRIAGE_RETURN) & (data[ends[pairs] - 1] == NEWLINE)
    return np.flatnonzero(blank).astype(np.int64) + first


def _header(status: os.stat_result, lines: int, blanks: int, digest: bytes) -> bytes:
    return HEADER.pack(MAGIC, status.st_size, status.st_mtime_ns, lines, blanks, digest)


def _read_cache(cache: Path, status: os.stat_result) -> LineIndex | None:
    try:
        with open(cache, "rb") as file:
            header = file.read(HEADER.size)
            size = os.fstat(file.fileno()).st_size
            if len(header) < HEADER.size:
                return None
            lines, blanks, digest = HEADER.unpack(header)[3:]
            if header != _header(status, lines, blanks, digest):
                return None
            if size != HEADER.size + 8 * (lines + blanks):
                return None
            # A map keeps a file descriptor, so only a large index is worth one.
            if size > LARGEST_READ:
                numbers: Indices = np.memmap(file, "<i8", "r", HEADER.size, (lines + blanks,))
            else:
                numbers = np.fromfile(file, "<i8", lines + blanks)
                if hashlib.blake2b(numbers.tobytes(), digest_size=16).digest() != digest:
                    return None
    except OSError:
        return None
    return LineIndex(numbers[:lines], numbers[lines:])


def _write_cache(cache: Path, path: Path, status: os.stat_result) -> None:
    lines = 0
    blank = [np.empty(0, np.int64)]
    temporary = cache.with_name(f".tmp-{os.urandom(8).hex()}{CACHE_SUFFIX}")
    with open(temporary, "xb") as file:
        try:
            file.write(bytes(HEADER.size))
            digest = hashlib.blake2b(digest_size=16)
            for ends, blanks in _scan(path):
                numbers = ends.astype("<i8").tobytes()
                digest.update(numbers)
                file.write(numbers)
                lines += len(ends)
                blank.append(blanks)
            blanks = np.concatenate(blank)
            numbers = blanks.astype("<i8").tobytes()
            digest.update(numbers)
            file.write(numbers)
            file.seek(0)
            file.write(_header(status, lines, len(blanks), digest.digest()))
            file.flush()
            os.fsync(file.fileno())
            file.close()
            os.replace(temporary, cache)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
