"""Where the lines of a file end: an index built with NumPy and cached on disk."""

# A cache that does not fit its data, or cannot be believed for another reason, is built anew, also
# in the middle of a pass; one that cannot be written is done without.

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Final

import numpy as np

from ..core.block import Indices
from .index_file import PAGE, IndexFile, write_index
from .index_pages import LOADED_BUDGET, KeptPages
from .line_scan import FoundLines, scanned
from .open_files import DataFile
from .shelf import Shelf, Shelved

SMALLEST_CACHED: Final = 1 << 16
"""Bytes of data below which building an index costs less than reading it from a file."""


class LineIndex(ABC):
    """The lines of one file.

    Attributes:
      lines: how many there are.
      blanks: how many of them hold nothing.
    """

    lines: int
    blanks: int

    @abstractmethod
    def ends(self, lines: Indices) -> Indices:
        """The ends of all lines: the offset in bytes after each one's newline; shape (n,), int64.

        Only the ends of ``lines``, and of the line before each, are right.

        Raises:
          MalformedItem: if the data have changed since.
          OSError: if they cannot be read.
        """

    @abstractmethod
    def filled_before(self) -> Indices:
        """For each blank line, how many lines that are not blank stand before it; int64.

        Raises:
          MalformedItem: if the data have changed since.
          OSError: if they cannot be read.
        """

    def bounds(self, line: int) -> tuple[int, int]:
        """Where this line begins, and where it ends; as `ends`, of one."""
        ends = self.ends(np.array([line], np.int64))
        return ends.item(line - 1) if line else 0, ends.item(line)


class HeldIndex(LineIndex):
    """An index in memory, of data beside which no cache can be kept: 8 bytes a line."""

    def __init__(self, found: FoundLines) -> None:
        self._found = found
        self.lines, self.blanks = map(len, found)

    def ends(self, lines: Indices) -> Indices:
        return self._found.ends

    def filled_before(self) -> Indices:
        return self._found.filled_before


class ShortIndex(LineIndex, Shelved[FoundLines]):
    """The index of a small file, which is found anew when it is no longer in memory."""

    def __init__(self, data: DataFile) -> None:
        self._data = data
        self.lines, self.blanks = map(len, self._found())

    def ends(self, lines: Indices) -> Indices:
        return self._found().ends

    def filled_before(self) -> Indices:
        return self._found().filled_before

    def _found(self) -> FoundLines:
        found = self.kept
        if found is None:
            found = _all_lines(self._data)
            short_indexes.put(self, found, found.ends.nbytes + found.filled_before.nbytes)
        self.used = True
        return found


class CachedIndex(LineIndex):
    """The index of a large file, in its cache."""

    def __init__(self, file: IndexFile) -> None:
        self._file = file
        self._pages = KeptPages(file)
        self.lines, self.blanks = file.lines, file.blanks
        # What takes the place of a cache that is damaged and cannot be replaced.
        self._held: Indices | None = None

    def ends(self, lines: Indices) -> Indices:
        pages = self._pages.kept
        if pages is not None and pages.complete and (pages.mapped is None or pages.is_whole()):
            self._pages.used = True
            return pages.array
        wanted = np.concatenate([lines, np.maximum(lines - 1, 0)])
        return self._numbers(np.unique(wanted // PAGE).tolist())

    def bounds(self, line: int) -> tuple[int, int]:
        pages = self._pages.kept
        before = line - 1 if line else 0
        if (
            pages is not None
            and (pages.complete or pages.has(line))
            and (pages.mapped is None or pages.is_whole())
        ):
            self._pages.used = True
            ends = pages.array
        else:
            ends = self._numbers(sorted({before // PAGE, line // PAGE}))
        return ends.item(before) if line else 0, ends.item(line)

    def filled_before(self) -> Indices:
        first, stop = self.lines // PAGE, -(-self._file.numbers // PAGE)
        pages = self._pages.kept
        if pages is not None and pages.has_all(first, stop) and pages.is_whole():
            self._pages.used = True
            return pages.array[self.lines :]
        return self._numbers(list(range(first, stop)))[self.lines :]

    def _numbers(self, wanted: list[int]) -> Indices:
        """All numbers of the cache, of which the pages ``wanted`` are right."""
        if self._held is None:
            for mend in (self._write_again, self._hold):
                with suppress(OSError):
                    numbers = self._pages.numbers(wanted)
                    if numbers is not None:
                        return numbers
                self._pages.forget()
                mend()
        assert self._held is not None
        return self._held

    def _write_again(self) -> None:
        with suppress(OSError):
            write_index(self._file.path, self._file.data)

    def _hold(self) -> None:
        found = _all_lines(self._file.data)
        if (len(found.ends), len(found.filled_before)) != (self.lines, self.blanks):
            raise self._file.data.changed()
        self._held = np.concatenate(found)


def known_index(data: DataFile, cache: str) -> LineIndex | None:
    """The index of ``data`` in the file ``cache``, if that is up to date; reads its header."""
    with suppress(OSError):
        file = IndexFile.found(cache, data)
        if file is not None:
            return CachedIndex(file)
    return None


def new_index(data: DataFile, cache: str) -> LineIndex:
    """The index of ``data``, which is kept in the file ``cache`` if it can be.

    Raises:
      MalformedItem: if ``data`` has changed since it was found.
      OSError: if it cannot be read.
    """
    if data.size < SMALLEST_CACHED:
        return ShortIndex(data)
    with suppress(OSError):
        write_index(cache, data)
    return known_index(data, cache) or HeldIndex(_all_lines(data))


def _all_lines(data: DataFile) -> FoundLines:
    parts = [FoundLines(EMPTY, EMPTY), *scanned(data)]
    return FoundLines(*map(np.concatenate, zip(*parts, strict=True)))


EMPTY: Final[Indices] = np.empty(0, np.int64)
short_indexes: Shelf[FoundLines] = Shelf(LOADED_BUDGET)
