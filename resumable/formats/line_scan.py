"""Find the ends of lines, a chunk at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from ..core.block import NO_INDICES, Indices
from .record import ByteReader, FoundRecords

CHUNK: Final = 1 << 20
NEWLINE: Final = 10
CARRIAGE_RETURN: Final = 13
Bytes: TypeAlias = npt.NDArray[np.uint8]


def scan_lines(reader: ByteReader, offset: int) -> Iterator[FoundRecords]:
    """The lines from ``reader``; blank lines are passed over."""
    left = CHUNK if reader.size is None else reader.size - offset
    # The buffer holds the last byte of the previous chunk, then a chunk.
    buffer = bytearray(1 + max(min(CHUNK, left), 1))
    chunk = memoryview(buffer)[1:]
    last_end, lines, blanks = offset, 0, 0
    while count := reader.readinto(chunk):
        text = np.frombuffer(buffer, np.uint8, 1 + count)
        ends = np.flatnonzero(text[1:] == NEWLINE).astype(np.int64) + (offset + 1)
        blank = blank_lines(text, ends - offset, last_end - offset)
        kept_before = blank + lines - np.arange(blanks, blanks + len(blank), dtype=np.int64)
        yield FoundRecords(ends, kept_before)
        offset += count
        lines += len(ends)
        blanks += len(blank)
        last_end = int(ends[-1]) if len(ends) else last_end
        buffer[0] = buffer[count]
    if last_end < offset:  # the last line ends with the file, and is not blank
        yield FoundRecords(np.array([offset], np.int64), NO_INDICES)


def blank_lines(text: Bytes, ends: Indices, begin: int) -> Indices:
    """The numbers of lines with only a newline: shape (blank lines,), int64.

    Args:
      text: the byte before a chunk, and the chunk.
      ends: of the lines, counted from the start of the chunk, so ``text[ends]`` are their last
        bytes; shape (lines,), int64.
      begin: start of the first line, counted in the same way.
    """
    sizes = np.diff(ends, prepend=begin)
    blank = (sizes == 1) & (text[ends] == NEWLINE)
    pairs = np.flatnonzero(sizes == 2)
    last = ends[pairs]
    blank[pairs] = (text[last - 1] == CARRIAGE_RETURN) & (text[last] == NEWLINE)
    return np.flatnonzero(blank).astype(np.int64)
