"""The numbers of index files: each page is compared with its digest before its first use."""

# Pages of small indexes are copied into memory one by one, up to a budget of bytes; larger files
# are mapped. Either way an index is one array, which is handed out as it is once what is needed of
# it is known to be right.

from __future__ import annotations

import mmap
from io import FileIO
from typing import Final

import numpy as np

from ..core.block import Indices
from .index_file import NUMBER, NUMBERS, PAGE, PAGE_DIGEST, IndexFile, digest_of
from .open_files import map_file
from .shelf import Shelf, Shelved

LARGEST_LOADED: Final = 1 << 20
"""Bytes of numbers up to which pages are copied into memory; of more, the file is mapped."""

LOADED_BUDGET: Final = 1 << 27
MOST_MAPS: Final = 64


class Pages:
    """The numbers of an index file, page by page.

    Attributes:
      array: all of them, shape (lines + blanks,), int64; only checked pages are right.
      complete: whether all of it is right.
      mapped: the file, if `array` lies in it, and not in memory; None otherwise.
    """

    __slots__ = ("_checked", "_digests", "_size", "array", "complete", "mapped")

    def __init__(
        self, file: IndexFile, array: Indices, digests: memoryview, mapped: mmap.mmap | None = None
    ) -> None:
        self.array = array
        self.complete = False
        self.mapped = mapped
        self._size = file.size
        self._digests = digests
        self._checked = bytearray(-(-len(array) // PAGE))

    def is_whole(self) -> bool:
        """Whether the file has not become shorter: reading the map beyond its end would kill."""
        return self.mapped is None or self.mapped.size() >= self._size

    def has(self, number: int) -> bool:
        """Whether this number and the one before are right."""
        checked = self._checked
        return bool(checked[number // PAGE] and checked[(number - 1 if number else 0) // PAGE])

    def has_all(self, first: int, stop: int) -> bool:
        """Whether the pages from ``first`` to ``stop`` are right."""
        return self._checked.find(0, first, stop) < 0

    def unchecked(self, pages: list[int]) -> list[int]:
        """Those of ``pages`` that nobody has checked."""
        return [page for page in pages if not self._checked[page]]

    def check(self, pages: list[int], file: FileIO | None) -> bool:
        """Whether these pages are right; reads them from ``file`` where they are not mapped."""
        for page in pages:
            begin, stop = PAGE * page, min(PAGE * (page + 1), len(self.array))
            numbers = self.array[begin:stop]
            content: bytes | memoryview = numbers.data
            if file is not None and self.mapped is None:
                file.seek(NUMBERS + NUMBER * begin)
                content = file.read(numbers.nbytes)
            digest = self._digests[PAGE_DIGEST * page : PAGE_DIGEST * (page + 1)]
            if digest_of(content, PAGE_DIGEST) != digest:
                return False
            if self.mapped is None:  # another thread may have done it already: the same numbers
                numbers[:] = np.frombuffer(content, "<i8")
            self._checked[page] = True
        self.complete = self.has_all(0, len(self._checked))
        return True


class KeptPages(Shelved[Pages]):
    """The pages of an index file, as long as a shelf has room for them."""

    def __init__(self, file: IndexFile) -> None:
        self._file = file
        self._large = NUMBER * file.numbers > LARGEST_LOADED

    def numbers(self, wanted: list[int]) -> Indices | None:
        """All numbers, of which the pages ``wanted`` are right; None if some cannot be had.

        Raises:
          OSError: if the file cannot be read.
        """
        pages = self.kept
        if pages is not None and pages.is_whole():
            self.used = True
            wanted = pages.unchecked(wanted)
            if not wanted or pages.mapped is not None:
                return pages.array if pages.check(wanted, None) else None
        else:
            pages = None
        opened = self._file.open()
        if opened is None:
            return None
        with opened:
            if pages is None:
                pages = self._map(opened) if self._large else self._load(opened)
            return pages.array if pages is not None and pages.check(wanted, opened) else None

    def forget(self) -> None:
        """Read all anew when it is asked for again."""
        (mapped_pages if self._large else loaded_pages).drop(self)

    def _load(self, opened: FileIO) -> Pages:
        opened.seek(self._file.digests)
        digests = opened.read()
        # Memory is taken where a page is copied to.
        numbers = np.empty(self._file.numbers, np.int64)
        pages = Pages(self._file, numbers, memoryview(digests))
        loaded_pages.put(self, pages, numbers.nbytes)
        return pages

    def _map(self, opened: FileIO) -> Pages | None:
        mapped = map_file(opened, self._file.size)
        if mapped is None:
            return None
        numbers: Indices = np.frombuffer(mapped, "<i8", self._file.numbers, NUMBERS)
        pages = Pages(self._file, numbers, memoryview(mapped)[self._file.digests :], mapped)
        mapped_pages.put(self, pages)
        return pages


loaded_pages: Shelf[Pages] = Shelf(LOADED_BUDGET)
mapped_pages: Shelf[Pages] = Shelf(MOST_MAPS)
