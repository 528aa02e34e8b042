"""Read the lines of a file without their newlines, many at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.block import Indices
from .io.open_files import FileData
from .line_scan import CARRIAGE_RETURN, NEWLINE
from .record_file import RecordFile


class LineFile(RecordFile):
    """A file of lines, read without the newlines."""

    __slots__ = ()

    def read(self, records: Indices, gather: object = None) -> list[bytes]:
        if records[-1] - records[0] == len(records) - 1 and (np.diff(records) == 1).all():
            found = self._read_run(range(int(records[0]), int(records[-1]) + 1), gather)
            if found is not None:
                return found
        return super().read(records, gather)

    def trimmed_stops(self, data: FileData, starts: Indices, stops: Indices) -> Indices:
        # The comparison also loads the ends of all lines into the processor's cache, many at a time.
        text = np.frombuffer(data, np.uint8)
        has_newline = text[stops - 1] == NEWLINE
        bare: Indices = stops - has_newline
        bare -= has_newline & (bare > starts) & (text[bare - 1] == CARRIAGE_RETURN)
        return bare

    def read_few(self, records: list[int], gather: object = None) -> list[bytes]:
        return list(map(stripped, super().read_few(records, gather)))

    def _read_run(self, lines: range, gather: object) -> list[bytes] | None:
        """Like `read`, for consecutive lines; None if newlines are elsewhere."""
        first = lines.start
        ends = self.positions.ends(lines, gather)
        begin = int(ends[first - 1]) if first else 0
        found: list[bytes] | None = _split(self.content.data(), begin, ends[first : lines.stop])
        return found

    def read_text(self, lines: range, encoding: str) -> list[str] | None:
        """Consecutive lines, at least one, decoded together; None if newlines are elsewhere.

        Raises:
          UnicodeDecodeError: if a line cannot be decoded.
          MalformedItem: if the file has changed since the pipeline was built.
          OSError: if the file cannot be read.
        """
        ends = self.positions.ends(lines)
        begin = int(ends[lines.start - 1]) if lines.start else 0
        ends = ends[lines.start : lines.stop]
        found: list[str] | None = _split(self.content.data(), begin, ends, encoding)
        return found


def stripped(line: bytes) -> bytes:
    """``line`` without the newline."""
    if line.endswith(b"\n"):
        return line[:-2] if line.endswith(b"\r\n") else line[:-1]
    return line


def _split(data: FileData, begin: int, ends: Indices, encoding: str | None = None) -> Any:
    """Consecutive lines from ``begin`` on, stripped; None if newlines are elsewhere.

    The lines are bytes, or strings with an ``encoding``.
    """
    text = data[begin : int(ends[-1])]
    decoded: Any = text if encoding is None else text.decode(encoding)
    newline, carriage_return = (b"\n", b"\r") if encoding is None else ("\n", "\r")
    found = decoded.split(newline)
    if not found[-1]:
        found.pop()
    # The newlines must be exactly at `ends`.
    if len(found) != len(ends):
        return None
    if (np.frombuffer(text, np.uint8)[ends[:-1] - (begin + 1)] != NEWLINE).any():
        return None
    if b"\r" in text:
        last = found[-1]
        found = [line[:-1] if line.endswith(carriage_return) else line for line in found]
        if not text.endswith(b"\n"):
            found[-1] = last
    return found
