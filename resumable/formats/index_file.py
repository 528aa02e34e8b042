"""The cache file of a line index: what it holds, and reading only what is known to be right."""

# Layout, little-endian: HEADER (magic, size and mtime of the data, number of lines, of blank
# lines), a digest of that, the numbers (int64: ends of all lines; for each blank line, how many
# lines before it are not), and a digest of each page of them, the last of which may be short.
#
# The header is all that opening reads. A page is compared with its digest before its first use, so
# a file that a power cut left half empty, or that lost a bit since, is noticed wherever it is read.
# What is written follows from the data alone: another process that writes the same file anew
# does no harm to those who read it.

from __future__ import annotations

import hashlib
import os
import struct
from contextlib import suppress
from io import FileIO
from typing import BinaryIO, Final, NamedTuple

import numpy as np

from ..core.block import Indices
from ..core.regular_files import NO_FOLLOW, READ
from .line_scan import scanned
from .open_files import DataFile, open_regular

CACHE_SUFFIX: Final = ".lines.idx"
MAGIC: Final = b"RSMLINE2"
HEADER: Final = struct.Struct("<8sQqQQ")
HEADER_DIGEST: Final = 16
NUMBERS: Final = HEADER.size + HEADER_DIGEST
"""Where the numbers begin, a multiple of their size."""

NUMBER: Final = 8
PAGE: Final = 512
"""Numbers that one digest covers: 4 KiB, which take five microseconds to check."""

PAGE_DIGEST: Final = 8
EMPTY: Final[Indices] = np.empty(0, np.int64)


class IndexFile(NamedTuple):
    """A cache file with a header that is right.

    Attributes:
      path: where it is.
      data: the file whose lines it knows.
      lines: how many there are.
      blanks: how many of them hold nothing.
      header: what it begins with.
    """

    path: str
    data: DataFile
    lines: int
    blanks: int
    header: bytes

    @property
    def numbers(self) -> int:
        """How many numbers it holds."""
        return self.lines + self.blanks

    @property
    def digests(self) -> int:
        """Where the digests of pages begin."""
        return NUMBERS + NUMBER * self.numbers

    @property
    def size(self) -> int:
        """In bytes."""
        return self.digests + PAGE_DIGEST * -(-self.numbers // PAGE)

    @classmethod
    def found(cls, path: str, data: DataFile) -> IndexFile | None:
        """The cache of ``data`` at ``path``, if one is there that can be believed.

        Raises:
          OSError: if it cannot be opened.
        """
        opened = _open(path, data)
        if opened is None:
            return None
        file, status = opened
        with file:
            header = file.read(NUMBERS)
        if len(header) != NUMBERS:
            return None
        lines, blanks = HEADER.unpack_from(header)[3:]
        index = cls(path, data, lines, blanks, header)
        # A file whose index is kept has bytes, and so a line.
        right = lines > 0 and header == header_of(data, lines, blanks)
        return index if right and status.st_size == index.size else None

    def open(self) -> FileIO | None:
        """The file, if it is the same as it was when it was found.

        Raises:
          OSError: if it cannot be opened.
        """
        opened = _open(self.path, self.data)
        if opened is None:
            return None
        file, status = opened
        try:
            if file.read(NUMBERS) == self.header and status.st_size == self.size:
                return file
        except BaseException:
            file.close()
            raise
        file.close()
        return None


def header_of(data: DataFile, lines: int, blanks: int) -> bytes:
    """What the cache of ``data`` begins with."""
    fields = HEADER.pack(MAGIC, data.size, data.mtime_ns, lines, blanks)
    return fields + digest_of(fields, HEADER_DIGEST)


def write_index(path: str, data: DataFile) -> None:
    """Write the cache of ``data`` to ``path``, under a temporary name first.

    Raises:
      MalformedItem: if ``data`` has changed since.
      OSError: if it cannot be read, or the cache not be written.
    """
    folder = os.path.dirname(path)
    temporary = os.path.join(folder, f".tmp-{os.urandom(8).hex()}{CACHE_SUFFIX}")
    try:
        with open(temporary, "xb") as file:
            file.write(bytes(NUMBERS))
            counts = _write_numbers(file, data)
            file.seek(0)
            file.write(header_of(data, *counts))
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _write_numbers(file: BinaryIO, data: DataFile) -> tuple[int, int]:
    """Write the numbers and their digests; returns how many lines and blank lines there are."""
    lines = 0
    parts = [EMPTY]
    digests: list[bytes] = []
    rest = EMPTY
    for found in scanned(data):
        lines += len(found.ends)
        parts.append(found.filled_before)
        rest = _write_pages(file, np.concatenate([rest, found.ends]), digests)
    filled_before = np.concatenate(parts)
    rest = _write_pages(file, np.concatenate([rest, filled_before]), digests)
    if len(rest):
        _write_page(file, rest, digests)
    file.writelines(digests)
    return lines, len(filled_before)


def _write_pages(file: BinaryIO, numbers: Indices, digests: list[bytes]) -> Indices:
    """Write the whole pages of ``numbers``; returns the rest."""
    whole = len(numbers) - len(numbers) % PAGE
    for begin in range(0, whole, PAGE):
        _write_page(file, numbers[begin : begin + PAGE], digests)
    return numbers[whole:]


def _write_page(file: BinaryIO, numbers: Indices, digests: list[bytes]) -> None:
    page = numbers.astype("<i8", copy=False).tobytes()
    digests.append(digest_of(page, PAGE_DIGEST))
    file.write(page)


def _open(path: str, data: DataFile) -> tuple[FileIO, os.stat_result] | None:
    """The cache at ``path``; None if there is none of this user or the owner of the data."""
    try:
        opened = open_regular(path, READ | NO_FOLLOW)
    except FileNotFoundError:
        return None
    if opened is None:
        return None
    file, status = opened
    if status.st_uid in (_user(), data.owner):
        return opened
    file.close()
    return None


def _user() -> int:
    return os.geteuid() if hasattr(os, "geteuid") else 0


def digest_of(content: bytes | memoryview, size: int) -> bytes:
    """``size`` bytes that tell ``content`` from what it may turn into."""
    return hashlib.blake2b(content, digest_size=size).digest()
