"""Index where the lines of a file end, in memory or in a cache on disk."""

# A cache that does not fit its data, or cannot be believed for another reason, is built anew, also
# in the middle of a pass. If it cannot be written, the index stays in memory.

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

import numpy as np

from ..core.block import Indices
from .index_file import IndexFile, write_index
from .index_pages import LOADED_BUDGET, KeptPages
from .line_pack import Row
from .line_scan import FoundLines, scanned
from .open_files import DataFile
from .shelf import Shelf, Shelved

SMALLEST_CACHED: Final = 1 << 16
"""Bytes of data below which scanning costs less than reading an index."""

LARGEST_PACKED: Final = 1 << 22
"""Bytes of a file up to which its index may share a cache with those of other files."""


class LineIndex(ABC):
    """The lines of one file.

    Attributes:
      lines: number of lines.
      blanks: number of blank lines among them.
    """

    lines: int
    blanks: int

    @abstractmethod
    def ends(self, lines: range | list[int] | Indices, gather: object = None) -> Indices:
        """The ends of all lines: the offset in bytes after each one's newline; shape (n,), int64.

        Only the ends of ``lines``, and of the line before each, are right. Use them at once: a
        mapped cache may be cut short later.

        Args:
          lines: at least one, as a range of step 1, a list of a few, or shape (n,), int64.
          gather: a cache is checked once for each such object, or each time for None.

        Raises:
          MalformedItem: if the data have changed since.
          OSError: if they cannot be read.
        """

    @abstractmethod
    def filled_before(self) -> Indices:
        """For each blank line, the number of non-blank lines before it: shape (blanks,), int64.

        Raises:
          MalformedItem: if the data have changed since.
          OSError: if they cannot be read.
        """


class HeldIndex(LineIndex):
    """An index that stays in memory, because its cache cannot be written: 8 bytes a line."""

    def __init__(self, found: FoundLines) -> None:
        self._found = found
        self.lines, self.blanks = map(len, found)

    def ends(self, lines: range | list[int] | Indices, gather: object = None) -> Indices:
        return self._found.ends

    def filled_before(self) -> Indices:
        return self._found.filled_before


class ShortIndex(LineIndex, Shelved[FoundLines]):
    """The index of a small file, which is scanned again when the index is no longer in memory."""

    def __init__(self, data: DataFile) -> None:
        self._data = data
        self.lines, self.blanks = map(len, self._found())

    def ends(self, lines: range | list[int] | Indices, gather: object = None) -> Indices:
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


class Cached(NamedTuple):
    """Where a cache holds the numbers of a file.

    Attributes:
      pages: all numbers of the cache.
      first: the index of the file's first number among them.
    """

    pages: KeptPages
    first: int


class CachedIndex(LineIndex):
    """An index in a cache, which it may share with those of other files.

    Args:
      data: the indexed file.
      row: its numbers of lines and of blank lines.
      cached: where its numbers are.
      mend: called with pages that turned out to be damaged or replaced; returns where the numbers
        are now, or None if they are in no cache.
    """

    def __init__(
        self, data: DataFile, row: Row, cached: Cached, mend: Callable[[KeptPages], Cached | None]
    ) -> None:
        self.lines, self.blanks = row.lines, row.blanks
        self._data = data
        self._cached = cached
        self._mend = mend
        # The index in memory that replaces a damaged cache, if that cannot be written again.
        self._instead: LineIndex | None = None

    def ends(self, lines: range | list[int] | Indices, gather: object = None) -> Indices:
        numbers = self._numbers(lines, gather)
        if numbers is None:
            assert self._instead is not None
            return self._instead.ends(lines)
        first = self._cached.first
        return numbers[first : first + self.lines]

    def filled_before(self) -> Indices:
        # They follow the ends, as if they were the ends of further lines.
        numbers = self._numbers(range(self.lines, self.lines + self.blanks), None)
        if numbers is None:
            assert self._instead is not None
            return self._instead.filled_before()
        first = self._cached.first + self.lines
        return numbers[first : first + self.blanks]

    def found(self) -> FoundLines:
        """All ends and blank lines, for use at once.

        Raises:
          MalformedItem: if the data have changed since.
          OSError: if they cannot be read.
        """
        return FoundLines(self.ends(range(self.lines)), self.filled_before())

    def _numbers(self, lines: range | list[int] | Indices, gather: object) -> Indices | None:
        """All numbers of the cache, right for ``lines``; None if `_instead` replaces the cache."""
        pages, first = self._cached
        ready = pages.ready(gather)
        if ready is not None and (ready.complete or ready.check_lines(lines, first)):
            return ready.array
        tried = False
        while self._instead is None:
            pages, first = self._cached
            with suppress(OSError):
                read = pages.read()
                if read is not None and read.check_lines(lines, first):
                    return read.array
            pages.forget()
            mended = None if tried else self._mend(pages)
            tried = True
            if mended is None:
                self._instead = self._held()
            else:
                self._cached = mended
        return None

    def _held(self) -> LineIndex:
        """The same index in memory; that of a small file counts towards the bound on memory."""
        data = self._data
        index = ShortIndex(data) if data.size <= LARGEST_PACKED else HeldIndex(_all_lines(data))
        if (index.lines, index.blanks) != (self.lines, self.blanks):
            raise data.changed()
        return index


def known_index(data: DataFile, cache: str) -> CachedIndex | None:
    """The index of ``data`` in the file ``cache``, if that is right by its header; else None."""
    file = _found_cache(data, cache)
    if file is None:
        return None

    def write_again(pages: KeptPages) -> Cached | None:
        _try_to_write(cache, data)
        again = _found_cache(data, cache)
        return None if again is None else Cached(KeptPages(again), 0)

    row = Row(0, data.size, data.mtime_ns, file.lines, file.blanks)
    return CachedIndex(data, row, Cached(KeptPages(file), 0), write_again)


def new_index(data: DataFile, cache: str) -> LineIndex:
    """The index of ``data``, which is kept in the file ``cache`` if it can be.

    Raises:
      InvalidArgument: if ``data`` is compressed.
      MalformedItem: if it has changed since it was found.
      OSError: if it cannot be read.
    """
    if data.size < SMALLEST_CACHED:
        return ShortIndex(data)
    _try_to_write(cache, data)
    return known_index(data, cache) or HeldIndex(_all_lines(data))


def _found_cache(data: DataFile, cache: str) -> IndexFile | None:
    with suppress(OSError):
        return IndexFile.found(cache, data)
    return None


def _try_to_write(cache: str, data: DataFile) -> None:
    with suppress(OSError):
        write_index(cache, data)


def _all_lines(data: DataFile) -> FoundLines:
    parts = [FoundLines(EMPTY, EMPTY), *scanned(data)]
    return FoundLines(*map(np.concatenate, zip(*parts, strict=True)))


EMPTY: Final[Indices] = np.empty(0, np.int64)
short_indexes: Shelf[FoundLines] = Shelf(LOADED_BUDGET)
