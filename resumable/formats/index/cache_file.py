"""Write the cache file of a record index, and open it if its header is right."""

# Layout, little-endian:
#
# - HEADER: magic, size and version of the data, counts of records and of records passed over, a digest of
#   the content; and a digest of these fields
# - the numbers, int64: the ends of all records, and for each record passed over, the count of earlier kept
#   records
# - a digest of each page of the numbers; the last page may be short
#
# The name of the file includes the format of the records. Opening reads only the header. A page is
# compared with its digest before the first use, to notice damage such as a file left half empty by
# a power cut. The content depends on the data alone, so a process may write the file again while
# other processes read.

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from io import FileIO
from typing import BinaryIO, Final, NamedTuple

import numpy as np

from ...core.block import NO_INDICES, Indices
from ...core.regular_files import NO_FOLLOW, READ, open_regular, replacing
from ..contents import DIGEST, digest_of_index
from ..data_files import AnyFile
from ..record import Format, FoundRecords
from .names import SUFFIX
from .pages import PAGE, PAGE_DIGEST, KeptPages, digest_of, end_of_digests
from .scanning import scanned

MAGIC: Final = b"RSMLINE3"
HEADER: Final = struct.Struct(f"<8sQqQQ{DIGEST}s")
HEADER_DIGEST: Final = 16
NUMBERS: Final = HEADER.size + HEADER_DIGEST
"""Offset of the numbers, a multiple of their size."""


class IndexFile(NamedTuple):
    """A cache file with a valid header.

    Attributes:
      path: of the cache file.
      data: the indexed file.
      records: number of records in ``data``.
      passed_over: number of records passed over.
      content: a digest of the known content of ``data``.
      header: the first bytes of the cache file.
    """

    path: str
    data: AnyFile
    records: int
    passed_over: int
    content: bytes
    header: bytes

    @property
    def numbers(self) -> int:
        """Count of numbers in the cache file."""
        return self.records + self.passed_over

    @property
    def size(self) -> int:
        """Size of the cache file, in bytes."""
        return end_of_digests(NUMBERS, self.numbers)

    def pages(self) -> KeptPages:
        """The numbers in the cache file."""
        return KeptPages(self.path, NUMBERS, self.numbers, self.open)

    @classmethod
    def found(cls, path: str, data: AnyFile) -> IndexFile | None:
        """The cache of ``data`` at ``path``; None if missing, invalid or not trusted.

        Raises:
          OSError: if the cache cannot be opened.
        """
        opened = _open(path, data)
        if opened is None:
            return None
        file, status = opened
        with file:
            header = file.read(NUMBERS)
        if len(header) != NUMBERS:
            return None
        records, passed_over, content = HEADER.unpack_from(header)[3:]
        index = cls(path, data, records, passed_over, content, header)
        # An indexed file has bytes, and so at least one record.
        right = records > 0 and header == header_of(data, records, passed_over, content)
        return index if right and status.st_size == index.size else None

    def open(self) -> FileIO | None:
        """The cache file, opened; None if it has been replaced.

        Raises:
          OSError: if the file cannot be opened.
        """
        return still_found(_open(self.path, self.data), self.header, self.size)


def header_of(data: AnyFile, records: int, passed_over: int, content: bytes) -> bytes:
    """The first bytes of the cache of ``data``."""
    fields = HEADER.pack(MAGIC, data.size, data.version, records, passed_over, content)
    return fields + digest_of(fields, HEADER_DIGEST)


def write_index(path: str, data: AnyFile, format: Format) -> None:
    """Write the cache of ``data`` to ``path``.

    Raises:
      InvalidArgument: if ``data`` is compressed.
      MalformedItem: if ``data`` has changed since it was found.
      OSError: if ``data`` cannot be read, or the cache cannot be written.
    """
    with replacing(path, SUFFIX) as file:
        file.write(bytes(NUMBERS))
        writer = NumberWriter(file)
        counts = writer.write(scanned(data, format))
        writer.close()
        file.seek(0)
        file.write(header_of(data, *counts, digest_of_index(writer.digests, data)))


class NumberWriter:
    """Write the numbers of one index or more, then the digests of their pages.

    Attributes:
      digests: of the pages written so far.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.digests: list[bytes] = []
        self._file = file
        self._written = 0
        self._rest = NO_INDICES

    def write(self, parts: Iterable[FoundRecords]) -> tuple[int, int]:
        """Write the numbers of a file; returns the counts of records and of records passed over."""
        records = 0
        kept_before = [NO_INDICES]
        for found in parts:
            records += len(found.ends)
            kept_before.append(found.kept_before)
            self._write(found.ends)
        self._write(np.concatenate(kept_before))
        return records, sum(map(len, kept_before))

    def close(self) -> int:
        """Write the last page and the digests; returns the count of numbers."""
        if len(self._rest):
            self._write_page(self._rest)
        self._file.writelines(self.digests)
        return self._written

    def _write(self, numbers: Indices) -> None:
        numbers = np.concatenate([self._rest, numbers])
        whole = len(numbers) - len(numbers) % PAGE
        for begin in range(0, whole, PAGE):
            self._write_page(numbers[begin : begin + PAGE])
        self._rest = numbers[whole:]

    def _write_page(self, numbers: Indices) -> None:
        page = numbers.astype("<i8", copy=False).tobytes()
        self.digests.append(digest_of(page, PAGE_DIGEST))
        self._file.write(page)
        self._written += len(numbers)


def open_cache(path: str) -> tuple[FileIO, os.stat_result] | None:
    """The cache at ``path``, opened; None if no regular file exists.

    Raises:
      OSError: if the file cannot be opened.
    """
    try:
        return open_regular(path, READ | NO_FOLLOW)
    except FileNotFoundError:
        return None


def still_found(
    opened: tuple[FileIO, os.stat_result] | None, header: bytes, size: int | None = None
) -> FileIO | None:
    """The ``opened`` cache; closed and None unless it has this ``header`` and ``size``."""
    if opened is None:
        return None
    file, status = opened
    try:
        if file.read(len(header)) == header and size in (None, status.st_size):
            return file
    except BaseException:
        file.close()
        raise
    file.close()
    return None


def is_believed(owner: int, data: AnyFile) -> bool:
    """Whether a cache of the user ``owner`` is trusted: this user, or the owner of the data."""
    return owner in (_user(), data.owner)


def _open(path: str, data: AnyFile) -> tuple[FileIO, os.stat_result] | None:
    """The cache at ``path``, opened; None if missing, or if its owner is not trusted."""
    opened = open_cache(path)
    if opened is None or is_believed(opened[1].st_uid, data):
        return opened
    opened[0].close()
    return None


def _user() -> int:
    return os.geteuid() if hasattr(os, "geteuid") else 0
