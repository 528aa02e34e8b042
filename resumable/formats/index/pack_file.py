"""Keep the record indexes of many small files of a folder in one cache file, a pack."""

# Layout, little-endian:
#
# - HEADER: magic, counts of numbers, files and bytes of names, a digest of the table; and a digest of these
#   fields
# - the numbers of each file in turn, as in the cache of a single file, and the digests of the pages
# - the table: the names, each ended by a zero byte, and for each file the size, time of the last change,
#   counts of records and of records passed over, and a digest of the content as two numbers
#
# Opening reads the header and the table. A pack is never changed in place. A process that adds
# files writes a new pack with the files of the old pack, and renames the new pack over the old
# pack. If two processes add files at once, one pack is lost, and its new files are scanned again
# next time.

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from io import FileIO
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from ...core.block import Indices
from ...core.regular_files import replacing
from ..contents import digest_of_index
from ..data_files import AnyFile
from ..io.open_files import DataFile
from ..record import FoundRecords
from .cache_file import (
    HEADER_DIGEST,
    NumberWriter,
    is_believed,
    open_cache,
    still_found,
)
from .names import SUFFIX
from .pages import NUMBER, KeptPages, digest_of, end_of_digests, page_digests

MAGIC: Final = b"RSMPACK2"
TABLE_DIGEST: Final = 16
HEADER: Final = struct.Struct(f"<8sQQQ{TABLE_DIGEST}s")
BEGIN: Final = HEADER.size + HEADER_DIGEST
COLUMNS: Final = 6
CONTENT: Final = struct.Struct("<qq")


class Row(NamedTuple):
    """The row of a file in a pack.

    Attributes:
      first: the index of the file's first number in the pack.
      size: of the file, in bytes.
      mtime_ns: time of the file's last change.
      records: number of records.
      passed_over: number of records passed over.
      content: a digest of the known content of the file.
    """

    first: int
    size: int
    mtime_ns: int
    records: int
    passed_over: int
    content: bytes


PackEntry: TypeAlias = tuple[DataFile, FoundRecords, bytes]
"""A file for a new pack, its records, and the digest of its known content."""


def digest_of_found(found: FoundRecords, data: AnyFile) -> bytes:
    """A digest of the known content of ``data`` with the records ``found``.

    Raises:
      MalformedItem: if the file has changed since the pipeline was built.
      ReadError: if a remote file cannot be read.
      OSError: if the file cannot be read.
    """
    return digest_of_index(page_digests(np.concatenate(found)), data)


@dataclass(frozen=True)
class PackFile:
    """A pack with a valid header and table.

    Attributes:
      path: of the pack.
      owner: number of the user who owns the pack.
      header: the first bytes of the pack.
      numbers: count of numbers in the pack.
      rows: the row of each file, by file name.
    """

    path: str
    owner: int
    header: bytes
    numbers: int
    rows: Mapping[str, Row]

    @classmethod
    def found(cls, path: str) -> PackFile | None:
        """The pack at ``path``; None if missing or invalid.

        Raises:
          OSError: if the pack cannot be read.
        """
        opened = open_cache(path)
        if opened is None:
            return None
        file, status = opened
        with file:
            header = file.read(BEGIN)
            fields = header[: HEADER.size]
            if len(header) != BEGIN or header[HEADER.size :] != digest_of(fields, HEADER_DIGEST):
                return None
            magic, numbers, files, names, digest = HEADER.unpack(fields)
            size = names + NUMBER * COLUMNS * files
            begin = end_of_digests(BEGIN, numbers)
            if magic != MAGIC or not files or status.st_size != begin + size:
                return None
            file.seek(begin)
            table = file.read(size)
        if digest_of(table, TABLE_DIGEST) != digest:
            return None
        rows = _rows(table, names)
        if sum(row.records + row.passed_over for row in rows.values()) != numbers:
            return None
        return cls(path, status.st_uid, header, numbers, rows)

    def pages(self) -> KeptPages:
        """The numbers in the pack."""
        return KeptPages(self.path, BEGIN, self.numbers, self.open)

    def row(self, data: DataFile) -> Row | None:
        """The row of ``data``; None if missing or outdated, or if the pack is not trusted."""
        row = self.rows.get(os.path.basename(data.path))
        if row is None or row[1:3] != data[1:3] or not is_believed(self.owner, data):
            return None
        return row

    def open(self) -> FileIO | None:
        """The pack, opened; None if it has been replaced.

        Raises:
          OSError: if the pack cannot be opened.
        """
        return still_found(open_cache(self.path), self.header)

    def discard(self) -> None:
        """Delete the damaged pack; the next process to look for it writes it again."""
        with suppress(OSError):
            file = self.open()
            if file is not None:
                file.close()
                os.unlink(self.path)


def write_pack(path: str, files: Iterable[PackEntry]) -> None:
    """Write a pack of the records of some files, at least one, to ``path``.

    Raises:
      InvalidArgument: if a file is compressed.
      MalformedItem: if a file has changed since the pipeline was built.
      OSError: if a file cannot be read, or the pack cannot be written.
    """
    names = bytearray()
    rows: list[tuple[int, ...]] = []
    with replacing(path, SUFFIX) as file:
        file.write(bytes(BEGIN))
        writer = NumberWriter(file)
        for data, found, content in files:
            names += os.fsencode(os.path.basename(data.path)) + b"\0"
            counts = writer.write([found])
            rows.append((data.size, data.mtime_ns, *counts, *CONTENT.unpack(content)))
        numbers = writer.close()
        table = bytes(names) + np.array(rows, "<i8").tobytes()
        file.write(table)
        header = HEADER.pack(MAGIC, numbers, len(rows), len(names), digest_of(table, TABLE_DIGEST))
        file.seek(0)
        file.write(header + digest_of(header, HEADER_DIGEST))


def _rows(table: bytes, names: int) -> dict[str, Row]:
    """The rows by file name; empty if the counts of names and rows differ."""
    columns: Indices = np.frombuffer(table, "<i8", -1, names).reshape(-1, COLUMNS)
    if (columns[:, 2:4] < 0).any() or table.count(b"\0", 0, names) != len(columns):
        return {}
    counts = columns[:, 2] + columns[:, 3]
    firsts = np.cumsum(counts) - counts
    return {
        os.fsdecode(name): Row(first, size, mtime_ns, records, passed_over, CONTENT.pack(*content))
        for name, first, (size, mtime_ns, records, passed_over, *content) in zip(
            table[:names].split(b"\0"), firsts.tolist(), columns.tolist(), strict=False
        )
    }
