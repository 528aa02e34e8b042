"""Find files of lines, and read their lines by number."""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..core.block import Indices
from ..errors import InvalidArgument, InvalidType, shorten
from .index_file import CACHE_SUFFIX
from .line_index import LARGEST_PACKED, SMALLEST_CACHED, LineIndex, known_index, new_index
from .line_pack import PACK_NAME
from .open_files import DataFile, FileContent, FileData, open_regular
from .packed_indexes import FEWEST_PACKED, packed_indexes

Bytes: TypeAlias = npt.NDArray[np.uint8]
Paths: TypeAlias = "str | os.PathLike[str] | Iterable[str | os.PathLike[str]]"

NEWLINE, RETURN = b"\n\r"
FEW_LINES: Final = 8
"""Below so many lines of one file, array operations cost more than they save."""

AHEAD: Final = 1 << 16
"""Bytes of lines that are read at once when lines are asked for in order."""


class LineFile(NamedTuple):
    """A file and the index of its lines, as found when the pipeline was built.

    Attributes:
      path: absolute.
      size: in bytes.
      content: its bytes.
      positions: the index: where lines end, and which are blank.
    """

    path: str
    size: int
    content: FileContent
    positions: LineIndex

    def unskipped(self, lines: Indices) -> Indices:
        """Numbers among all lines, for ``lines``, numbers among those that are not blank.

        Both have shape (n,), int64.

        Raises:
          MalformedItem: if the file has changed since.
          OSError: if it cannot be read.
        """
        if not self.positions.blanks:
            return lines
        return lines + np.searchsorted(self.positions.filled_before(), lines, side="right")

    def read(self, lines: Indices, gather: object = None) -> list[bytes]:
        """The lines with these numbers, counted from 0, without their newlines.

        Args:
          lines: shape (n,), int64, at least one.
          gather: an index file is checked once for each such object, or each time for None.

        Raises:
          MalformedItem: if the file has changed since.
          OSError: if it cannot be read.
        """
        first, last = int(lines[0]), int(lines[-1])
        if last - first == len(lines) - 1 and (np.diff(lines) == 1).all():
            found = self._read_run(range(first, last + 1), gather)
            if found is not None:
                return found
        ends = self.positions.ends(lines, gather)
        data = self.content.data()
        starts = np.where(lines > 0, ends[lines - 1], 0)
        stops = _stripped_stops(np.frombuffer(data, np.uint8), starts, ends[lines])
        return [
            data[start:stop] for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)
        ]

    def read_few(self, lines: list[int], gather: object = None) -> list[bytes]:
        """The same as `read`, for a few lines, at least one."""
        ends = self.positions.ends(lines, gather).item
        data = self.content.data()
        found = []
        for line in lines:
            cut = data[ends(line - 1) if line else 0 : ends(line)]
            if cut.endswith(b"\n"):
                cut = cut[:-2] if cut.endswith(b"\r\n") else cut[:-1]
            found.append(cut)
        return found

    def _read_run(self, lines: range, gather: object) -> list[bytes] | None:
        """The same as `read`, for consecutive lines; None if newlines are elsewhere."""
        first = lines.start
        ends = self.positions.ends(lines, gather)
        begin = int(ends[first - 1]) if first else 0
        found: list[bytes] | None = _split(self.content.data(), begin, ends[first : lines.stop])
        return found

    def read_text(self, lines: range, encoding: str) -> list[str] | None:
        """Consecutive lines, at least one, decoded together; None if newlines are elsewhere.

        Raises:
          UnicodeDecodeError: if they cannot be decoded.
          MalformedItem: if the file has changed since.
          OSError: if it cannot be read.
        """
        ends = self.positions.ends(lines)
        begin = int(ends[lines.start - 1]) if lines.start else 0
        ends = ends[lines.start : lines.stop]
        found: list[str] | None = _split(self.content.data(), begin, ends, encoding)
        return found

    def read_page(self, lines: Indices) -> list[bytes]:
        """The first of ``lines``, shape (n,), ascending, and those of the next `AHEAD` bytes."""
        gather = object()
        ends = self.positions.ends(lines, gather)[lines]
        count = int(np.searchsorted(ends, ends[0] + AHEAD, side="right"))
        return self.read(lines[:count], gather)


def found_files(paths: Paths) -> list[str]:
    """The files that ``paths`` name; the matches of a pattern are sorted.

    Raises:
      InvalidArgument: if a pattern matches nothing, or there is no path.
      InvalidType: if ``paths`` are not paths.
    """
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    elif hasattr(paths, "read"):
        raise InvalidType(f"paths must be paths, got the open file {shorten(paths)}; pass its path")
    elif not isinstance(paths, Iterable) or isinstance(paths, (bytes, bytearray)):
        raise InvalidType(f"paths must be a path, a pattern or several, got {shorten(paths)}")
    found: list[str] = []
    patterns = list(paths)
    for path in patterns:
        if not isinstance(path, (str, os.PathLike)):
            raise InvalidType(f"paths must hold paths, got {shorten(path)}")
        text = os.path.expanduser(os.fspath(path))
        if os.path.lexists(text) or not glob.has_magic(text):
            found.append(text)
            continue
        # The caches of line indexes are not data, whatever the pattern.
        matches = sorted(
            match
            for match in glob.glob(text, recursive=True)
            if os.path.isfile(match) and not match.endswith(CACHE_SUFFIX)
        )
        if not matches:
            raise InvalidArgument(f"paths must match at least one file, got {text!r}")
        found.extend(matches)
    if not found:
        raise InvalidArgument(f"paths must name at least one file, got {patterns!r}")
    return found


def open_line_files(paths: Sequence[str], folder: str | None) -> tuple[LineFile, ...]:
    """Open files and their indexes, which are kept in ``folder`` or beside the files.

    Reads the headers of the caches, and as a whole the files that no cache knows.

    Raises:
      InvalidArgument: if one is not a regular, uncompressed file.
      MalformedItem: if one changes meanwhile.
      OSError: if one cannot be read.
    """
    files = [_found_file(path) for path in paths]
    packed: dict[DataFile, LineIndex] = {}
    folders: dict[str, list[DataFile]] = {}
    for file in dict.fromkeys(files):
        if file.size <= LARGEST_PACKED:
            folders.setdefault(os.path.dirname(file.path), []).append(file)
    for parent, together in folders.items():
        if len(together) >= FEWEST_PACKED:
            packed |= packed_indexes(
                together, _pack_path(parent, folder), lambda file: _cache_path(file.path, folder)
            )
    return tuple(
        LineFile(
            file.path, file.size, FileContent(file), packed.get(file) or _own_index(file, folder)
        )
        for file in files
    )


def _found_file(path: str) -> DataFile:
    try:
        opened = open_regular(path)
    except OSError:
        if not os.path.lexists(path) or os.path.isfile(path):
            raise
        opened = None
    if opened is None:
        raise InvalidArgument(f"paths must name regular files, got {path!r}")
    file, status = opened
    file.close()
    return DataFile.found(path, status)


def _own_index(file: DataFile, folder: str | None) -> LineIndex:
    cache = _cache_path(file.path, folder)
    known = known_index(file, cache) if file.size >= SMALLEST_CACHED else None
    return known or new_index(file, cache)


def _cache_path(path: str, folder: str | None) -> str:
    if folder is None:
        return path + CACHE_SUFFIX
    parent, name = os.path.split(path)
    return os.path.join(folder, f"{name}.{_short_name(parent)}{CACHE_SUFFIX}")


def _pack_path(parent: str, folder: str | None) -> str:
    if folder is None:
        return os.path.join(parent, PACK_NAME)
    return os.path.join(folder, f".folder.{_short_name(parent)}{CACHE_SUFFIX}")


def _short_name(parent: str) -> str:
    return hashlib.blake2b(os.fsencode(parent), digest_size=6).hexdigest()


def _stripped_stops(text: Bytes, starts: Indices, stops: Indices) -> Indices:
    """Where lines end without their newlines, which may be one byte or two."""
    # This also brings the ends of all lines into the processor's cache, many at a time.
    has_newline = text[stops - 1] == NEWLINE
    bare: Indices = stops - has_newline
    has_return = has_newline & (bare > starts) & (text[bare - 1] == RETURN)
    bare -= has_return
    return bare


def _split(data: FileData, begin: int, ends: Indices, encoding: str | None = None) -> Any:
    """Consecutive lines from ``begin`` on, stripped; None if newlines are elsewhere.

    Bytes, or strings if there is an ``encoding``.
    """
    text = data[begin : int(ends[-1])]
    decoded: Any = text if encoding is None else text.decode(encoding)
    newline, carriage_return = (b"\n", b"\r") if encoding is None else ("\n", "\r")
    found = decoded.split(newline)
    if not found[-1]:
        found.pop()
    # There must be as many newlines as `ends`, each at its place.
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
