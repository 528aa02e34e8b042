"""Read the numbers of index files, and check each page before its first use."""

# A short file of numbers is read into memory as a whole, up to a budget of bytes. A longer file is
# mapped, so memory does not grow with the data. In both cases the numbers are one array. The whole
# array is handed out once the needed pages have been checked.

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from io import FileIO
from typing import Final, NamedTuple

import numpy as np

from ...core.block import Indices
from ..io.clock_cache import ClockCache, Shelved
from ..io.maps import MOST_MAPS, map_file

NUMBER: Final = 8
PAGE: Final = 512
"""Numbers covered by one digest: 4 KiB, checked in five microseconds."""

PAGE_DIGEST: Final = 8
LARGEST_LOADED: Final = 1 << 16
"""Bytes of numbers up to which a file is read into memory; a larger file is mapped."""

LOADED_BUDGET: Final = 1 << 27


def digest_of(content: bytes | memoryview, size: int) -> bytes:
    """A digest of ``content``, of ``size`` bytes."""
    return hashlib.blake2b(content, digest_size=size).digest()


def page_digests(numbers: Indices) -> list[bytes]:
    """A digest of each page of ``numbers``, shape (n,), int64."""
    data = numbers.astype("<i8", copy=False).tobytes()
    size = NUMBER * PAGE
    return [digest_of(data[at : at + size], PAGE_DIGEST) for at in range(0, len(data), size)]


def end_of_digests(begin: int, numbers: int) -> int:
    """The offset after the digests in a file with ``numbers`` from the offset ``begin`` on."""
    return begin + NUMBER * numbers + PAGE_DIGEST * -(-numbers // PAGE)


class FileIdentity(NamedTuple):
    """The identity of a mapped file: path, numbers of device and inode, and size."""

    path: str
    device: int
    inode: int
    size: int

    def is_whole(self) -> bool:
        """Whether the file exists and is no shorter: reading beyond the end kills the process."""
        try:
            now = os.stat(self.path)
        except OSError:  # the size of a removed file is not known
            return False
        return now.st_ino == self.inode and now.st_dev == self.device and now.st_size >= self.size


class Pages:
    """The numbers of a file, page by page.

    Attributes:
      array: all numbers, shape (numbers,), int64; only checked pages are known to be right.
      complete: whether all pages are checked.
      place: the mapped file; None if `array` is in memory.
    """

    __slots__ = ("_checked", "_digests", "array", "complete", "place")

    def __init__(
        self, array: Indices, digests: memoryview, place: FileIdentity | None = None
    ) -> None:
        self.array = array
        self.complete = False
        self.place = place
        self._digests = digests
        self._checked = bytearray(-(-len(array) // PAGE))

    def check_records(self, records: range | list[int] | Indices, first: int) -> bool:
        """Whether the ends of ``records``, and of the record before each, are right.

        Args:
          records: at least one, as a range of step 1, a short list, or shape (n,), int64.
          first: index of record 0's end in `array`.
        """
        if isinstance(records, range):
            start = first + max(records.start - 1, 0)
            return self._check(range(start // PAGE, (first + records.stop - 1) // PAGE + 1))
        if isinstance(records, list):
            pages = {
                number // PAGE
                for record in records
                for number in (first + record, first + record - 1 if record else first)
            }
            return self._check(pages)
        ends, before = (first + records) // PAGE, (first + np.maximum(records - 1, 0)) // PAGE
        checked = np.frombuffer(self._checked, np.bool_)
        if checked[ends].all() and checked[before].all():
            return True
        return self._check(np.unique([ends, before]).tolist())

    def _check(self, wanted: Iterable[int]) -> bool:
        checked = self._checked
        missing = [page for page in wanted if not checked[page]]
        for page in missing:
            content = self.array[PAGE * page : PAGE * (page + 1)].data
            digest = self._digests[PAGE_DIGEST * page : PAGE_DIGEST * (page + 1)]
            if digest_of(content, PAGE_DIGEST) != digest:
                return False
            checked[page] = True
        if missing:
            self.complete = checked.find(0) < 0
        return True


class KeptPages(Shelved[Pages]):
    """The pages of an index file, kept as long as a cache has room.

    The file has numbers (int64, little-endian), followed by the digests of the pages of numbers.

    Args:
      path: of the file.
      begin: offset of the numbers.
      numbers: count of the numbers.
      open_file: returns the file, opened; None if another file has replaced the file that was
        found; raises `OSError` if the file cannot be opened.
    """

    def __init__(
        self, path: str, begin: int, numbers: int, open_file: Callable[[], FileIO | None]
    ) -> None:
        self._path = path
        self._begin = begin
        self._numbers = numbers
        self._open_file = open_file
        self._mapped = NUMBER * numbers > LARGEST_LOADED
        self._looked: object = None

    def ready(self, gather: object) -> Pages | None:
        """The pages, if kept and safe to read; else None.

        Args:
          gather: a mapped file is checked once for each such object, or each time for None.
        """
        pages = self.kept
        if pages is None:
            return None
        if pages.place is not None and (gather is None or self._looked is not gather):
            if not pages.place.is_whole():
                return None
            self._looked = gather
        self.used = True
        return pages

    def read(self) -> Pages | None:
        """Open the file and keep the pages; None if another file has replaced the file.

        Raises:
          OSError: if the file cannot be read.
        """
        opened = self._open_file()
        if opened is None:
            return None
        with opened:
            return self._map(opened) if self._mapped else self._load(opened)

    def forget(self) -> None:
        """Drop the pages, so that the next `read` opens the file again."""
        (mapped_pages if self._mapped else loaded_pages).drop(self)

    def _load(self, opened: FileIO) -> Pages | None:
        opened.seek(self._begin)
        size = NUMBER * self._numbers
        content = opened.read()
        if len(content) < end_of_digests(0, self._numbers):
            return None
        numbers: Indices = np.frombuffer(content, "<i8", self._numbers)
        pages = Pages(numbers, memoryview(content)[size:])
        loaded_pages.put(self, pages, size)
        return pages

    def _map(self, opened: FileIO) -> Pages | None:
        size = end_of_digests(self._begin, self._numbers)
        mapped = map_file(opened, size)
        if mapped is None:
            return None
        status = os.fstat(opened.fileno())
        content = np.frombuffer(mapped, np.uint8)
        content.flags.writeable = False
        end = self._begin + NUMBER * self._numbers
        numbers: Indices = content[self._begin : end].view("<i8")
        place = FileIdentity(self._path, status.st_dev, status.st_ino, size)
        pages = Pages(numbers, content[end:].data, place)
        mapped_pages.put(self, pages)
        return pages


loaded_pages: ClockCache[Pages] = ClockCache(LOADED_BUDGET)
mapped_pages: ClockCache[Pages] = ClockCache(MOST_MAPS)
