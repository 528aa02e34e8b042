"""Index where the records of a file end, in memory or in a cache on disk."""

# A cache that does not fit its data, or is not trusted for another reason, is built again, also
# mid-epoch. If the cache cannot be written, the index stays in memory.

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

import numpy as np

from ...core.block import Indices
from ..data_files import AnyFile
from ..io.clock_cache import ClockCache, Shelved
from ..io.remote import RemoteFile
from ..record import Format, FoundRecords
from .cache_file import IndexFile, write_index
from .pack_file import Row, digest_of_found
from .pages import LOADED_BUDGET, KeptPages
from .scanning import scanned

SMALLEST_CACHED: Final = 1 << 16
"""Bytes of data on a disk below which scanning costs less than reading an index."""

LARGEST_PACKED: Final = 1 << 22
"""Most bytes of a file whose index may share a cache with other indexes."""


class RecordIndex(ABC):
    """The records of one file.

    Attributes:
      records: number of records.
      passed_over: number of records passed over.
      content: a digest of the known content of the file, the same for every kind of index.
    """

    records: int
    passed_over: int
    content: bytes

    @abstractmethod
    def ends(self, records: range | list[int] | Indices, gather: object = None) -> Indices:
        """The ends of all records: the offset in bytes after each one; shape (n,), int64.

        Only the ends of ``records``, and of the record before each, are valid. Use the ends at
        once: a mapped cache may be cut short later.

        Args:
          records: at least one, as a range of step 1, a short list, or shape (n,), int64.
          gather: a cache is checked once for each such object, or each time for None.

        Raises:
          MalformedItem: if the data have changed since the pipeline was built.
          OSError: if the data cannot be read.
        """

    @abstractmethod
    def kept_before(self) -> Indices:
        """Earlier kept records, for each record passed over: shape (passed_over,), int64.

        Raises:
          MalformedItem: if the data have changed since the pipeline was built.
          OSError: if the data cannot be read.
        """

    def among_all(self, kept: Indices) -> Indices:
        """Numbers among all records, for numbers among the kept records.

        Both have shape (n,), int64.

        Raises:
          MalformedItem: if the data have changed since the pipeline was built.
          OSError: if the data cannot be read.
        """
        if not self.passed_over:
            return kept
        return kept + np.searchsorted(self.kept_before(), kept, side="right")

    def among_kept(self, numbers: Indices) -> Indices:
        """Numbers among the kept records, for ``numbers`` among all records.

        Records passed over have no such number, so the result, shape (m,), may be shorter than the
        argument, shape (n,).
        """
        if not self.passed_over:
            return numbers
        passed_over = self.kept_before() + np.arange(self.passed_over)
        before = np.searchsorted(passed_over, numbers)
        kept = ~np.isin(numbers, passed_over)
        return numbers[kept] - before[kept]


class HeldIndex(RecordIndex):
    """An index that stays in memory, 8 bytes a record, because its cache cannot be written."""

    def __init__(self, data: AnyFile, found: FoundRecords) -> None:
        self._found = found
        self.records, self.passed_over = map(len, found)
        self.content = digest_of_found(found, data)

    def ends(self, records: range | list[int] | Indices, gather: object = None) -> Indices:
        return self._found.ends

    def kept_before(self) -> Indices:
        return self._found.kept_before


class ShortIndex(RecordIndex, Shelved[FoundRecords]):
    """The index of a small file; the file is scanned again when the index is no longer in memory."""

    def __init__(self, data: AnyFile, format: Format) -> None:
        self._data = data
        self._format = format
        found = self._found()
        self.records, self.passed_over = map(len, found)
        self.content = digest_of_found(found, data)

    def ends(self, records: range | list[int] | Indices, gather: object = None) -> Indices:
        return self._found().ends

    def kept_before(self) -> Indices:
        return self._found().kept_before

    def _found(self) -> FoundRecords:
        found = self.kept
        if found is None:
            found = _all_records(self._data, self._format)
            short_indexes.put(self, found, found.ends.nbytes + found.kept_before.nbytes)
        self.used = True
        return found


class Cached(NamedTuple):
    """The place of a file's numbers in a cache.

    Attributes:
      pages: all numbers of the cache.
      first: the index of the file's first number in the cache.
    """

    pages: KeptPages
    first: int


class CachedIndex(RecordIndex):
    """An index in a cache, which may be shared with the indexes of other files.

    Args:
      data: the indexed file.
      format: of the records.
      row: the counts of records and of records passed over.
      cached: the place of the numbers.
      mend: called with pages that turned out to be damaged or replaced; returns the new place of
        the numbers, or None if they are in no cache.
    """

    def __init__(
        self,
        data: AnyFile,
        format: Format,
        row: Row,
        cached: Cached,
        mend: Callable[[KeptPages], Cached | None],
    ) -> None:
        self.records, self.passed_over, self.content = row.records, row.passed_over, row.content
        self._data = data
        self._format = format
        self._cached = cached
        self._mend = mend
        # The index in memory that replaces a damaged cache that cannot be written again.
        self._instead: RecordIndex | None = None

    def ends(self, records: range | list[int] | Indices, gather: object = None) -> Indices:
        numbers = self._numbers(records, gather)
        if numbers is None:
            assert self._instead is not None
            return self._instead.ends(records)
        first = self._cached.first
        return numbers[first : first + self.records]

    def kept_before(self) -> Indices:
        # These numbers follow the ends, like the ends of further records.
        numbers = self._numbers(range(self.records, self.records + self.passed_over), None)
        if numbers is None:
            assert self._instead is not None
            return self._instead.kept_before()
        first = self._cached.first + self.records
        return numbers[first : first + self.passed_over]

    def found(self) -> FoundRecords:
        """All ends and records passed over, for use at once.

        Raises:
          MalformedItem: if the data have changed since the pipeline was built.
          OSError: if the data cannot be read.
        """
        return FoundRecords(self.ends(range(self.records)), self.kept_before())

    def _numbers(self, records: range | list[int] | Indices, gather: object) -> Indices | None:
        """All numbers of the cache, valid for ``records``; None if `_instead` replaces the cache."""
        pages, first = self._cached
        ready = pages.ready(gather)
        if ready is not None and (ready.complete or ready.check_records(records, first)):
            return ready.array
        tried = False
        while self._instead is None:
            pages, first = self._cached
            with suppress(OSError):
                read = pages.read()
                if read is not None and read.check_records(records, first):
                    return read.array
            pages.forget()
            mended = None if tried else self._mend(pages)
            tried = True
            if mended is None:
                self._instead = self._held()
            else:
                self._cached = mended
        return None

    def _held(self) -> RecordIndex:
        """The index in memory. For a small file, the index counts towards the bound on memory."""
        data, format = self._data, self._format
        index: RecordIndex
        if data.size <= LARGEST_PACKED:
            index = ShortIndex(data, format)
        else:
            index = HeldIndex(data, _all_records(data, format))
        if (index.records, index.passed_over) != (self.records, self.passed_over):
            raise data.changed()
        return index


def known_index(data: AnyFile, cache: str, format: Format) -> CachedIndex | None:
    """The index of ``data`` in the file ``cache``; None unless the header of the cache is valid."""
    file = _found_cache(data, cache)
    if file is None:
        return None

    def write_again(pages: KeptPages) -> Cached | None:
        _try_to_write(cache, data, format)
        again = _found_cache(data, cache)
        return None if again is None else Cached(again.pages(), 0)

    row = Row(0, data.size, data.version, file.records, file.passed_over, file.content)
    return CachedIndex(data, format, row, Cached(file.pages(), 0), write_again)


def index_of(data: AnyFile, cache: str, format: Format) -> RecordIndex:
    """The index of ``data``, kept in the file ``cache`` if possible.

    Raises:
      InvalidArgument: if ``data`` is compressed.
      MalformedItem: if ``data`` has changed since the pipeline was built.
      OSError: if ``data`` cannot be read.
    """
    if data.size < (1 if isinstance(data, RemoteFile) else SMALLEST_CACHED):
        return ShortIndex(data, format)
    known = known_index(data, cache, format)
    if known is None:
        _try_to_write(cache, data, format)
        known = known_index(data, cache, format)
    return known or HeldIndex(data, _all_records(data, format))


def _found_cache(data: AnyFile, cache: str) -> IndexFile | None:
    with suppress(OSError):
        return IndexFile.found(cache, data)
    return None


def _try_to_write(cache: str, data: AnyFile, format: Format) -> None:
    with suppress(OSError):
        write_index(cache, data, format)


def _all_records(data: AnyFile, format: Format) -> FoundRecords:
    return FoundRecords.joined(scanned(data, format))


short_indexes: ClockCache[FoundRecords] = ClockCache(LOADED_BUDGET)
