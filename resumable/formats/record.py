"""Describe a file format: how its records are found, and how one of them is handed on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np

from ..core.block import Indices
from ..errors import MalformedItem


class FoundRecords(NamedTuple):
    """Consecutive records of a file.

    Attributes:
      ends: shape (records,), int64: the offset in bytes after each record, where the next begins.
      kept_before: shape (records passed over,), int64: for each record that is passed over (a blank
        line, a header), how many kept records of the file come before it.
    """

    ends: Indices
    kept_before: Indices

    @classmethod
    def joined(cls, parts: Iterable[FoundRecords]) -> FoundRecords:
        """The consecutive ``parts`` of a file as one; without parts, no records."""
        nothing = np.empty(0, np.int64)
        return cls(*map(np.concatenate, zip(cls(nothing, nothing), *parts, strict=True)))


class ByteReader(Protocol):
    """Reads the content of a file in order, for a scan: from a disk, decompressed or remote.

    Attributes:
      size: of the content in bytes; None if it is known only at the end.
    """

    size: int | None

    def read(self, size: int) -> bytes:
        """The next ``size`` bytes; fewer only at the end."""

    def readinto(self, buffer: memoryview) -> int:
        """Fill ``buffer`` with the next bytes; returns how many, fewer than its size only at the end."""

    def skip(self, size: int) -> int:
        """Pass over ``size`` bytes; returns how many there were, fewer only at the end."""


Scan: TypeAlias = Callable[[ByteReader, int], Iterator[FoundRecords]]
"""Finds records: called with a reader at the start of a record, and the offset of that record.

It yields what it has found at least once per MiB read, so a stream neither waits for more nor keeps
more. Damaged data raise nothing here: where no further record can be found, the scan yields one
last record of at most 4 KiB, and decoding that record raises.
"""


class LocatedRecord(NamedTuple):
    """A record and its place.

    Attributes:
      data: the bytes of the record.
      path: of its file.
      number: of the record in the file, from 1.
    """

    data: bytes
    path: str
    number: int

    def malformed(self, reason: str, kind: str = "record") -> MalformedItem:
        """The error for this record; ``kind`` is what its format calls a record."""
        return MalformedItem(f"{self.path}, {kind} {self.number}: {reason}")


class Format(NamedTuple):
    """How the records of a file are found. Making items of `LocatedRecord` is left to a function.

    Attributes:
      name: of the format and the settings of its scan; the names of index caches contain it.
      record: what errors call a record: "line", "sample".
      scan: finds the records.
      stripped: removes the terminator from the bytes of a record; None if records have none.
      recognises: whether a file's first bytes, up to 12, prove this format, even if compressed
        content could begin with them too; None if no bytes prove it.
    """

    name: str
    record: str
    scan: Scan
    stripped: Callable[[bytes], bytes] | None = None
    recognises: Callable[[bytes], bool] | None = None

    def __repr__(self) -> str:
        return self.name
