"""Find the ends of lines in a file, a chunk at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from ..core.block import Indices
from ..errors import InvalidArgument
from .open_files import DataFile

MAGIC_OF_GZIP: Final = b"\x1f\x8b"
CHUNK: Final = 1 << 20
NEWLINE: Final = 10
CARRIAGE_RETURN: Final = 13


class FoundLines(NamedTuple):
    """Consecutive lines of a file.

    Attributes:
      ends: shape (lines,), int64: the offset in bytes after each line's newline.
      filled_before: for each blank line, how many non-blank lines of the file are before it; shape
        (blank lines,), int64.
    """

    ends: Indices
    filled_before: Indices


def scanned(data: DataFile) -> Iterator[FoundLines]:
    """The lines of ``data``, those of a chunk at a time.

    Raises:
      InvalidArgument: if it is compressed.
      MalformedItem: if it has changed since it was found.
      OSError: if it cannot be read.
    """
    # The file is read, not mapped: it may be cut short meanwhile. The buffer holds the last byte of
    # the previous chunk, then a chunk.
    buffer = bytearray(1 + min(CHUNK, data.size))
    chunk = memoryview(buffer)[1:]
    offset = lines = blanks = last_end = 0
    with data.open() as file:
        while offset < data.size:
            count = file.readinto(chunk[: data.size - offset])
            if not count:
                raise data.changed()
            if not offset and bytes(chunk[:2]) == MAGIC_OF_GZIP:
                raise InvalidArgument(f"paths must name uncompressed files, got {data.path!r}")
            text = np.frombuffer(buffer, np.uint8, 1 + count)
            ends = np.flatnonzero(text[1:] == NEWLINE).astype(np.int64) + (offset + 1)
            if offset + count == data.size and buffer[count] != NEWLINE:
                ends = np.append(ends, data.size)
            blank = _blank(text, ends - offset, last_end - offset)
            filled_before = blank + lines - np.arange(blanks, blanks + len(blank), dtype=np.int64)
            yield FoundLines(ends, filled_before)
            offset += count
            lines += len(ends)
            blanks += len(blank)
            last_end = int(ends[-1]) if len(ends) else last_end
            buffer[0] = buffer[count]
        data.check_unchanged(os.fstat(file.fileno()))


def _blank(text: np.ndarray[tuple[int], np.dtype[np.uint8]], ends: Indices, begin: int) -> Indices:
    """Which lines have nothing but a newline: shape (blank lines,), int64.

    Args:
      text: the byte before a chunk, and the chunk.
      ends: of the lines, counted from the start of the chunk, so ``text[ends]`` are their last
        bytes; shape (lines,), int64.
      begin: where the first line begins, counted in the same way.
    """
    sizes = np.diff(ends, prepend=begin)
    blank = (sizes == 1) & (text[ends] == NEWLINE)
    pairs = np.flatnonzero(sizes == 2)
    last = ends[pairs]
    blank[pairs] = (text[last - 1] == CARRIAGE_RETURN) & (text[last] == NEWLINE)
    return np.flatnonzero(blank).astype(np.int64)
