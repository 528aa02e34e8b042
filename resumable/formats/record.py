"""The description of a file format, and the records found in files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from io import BytesIO
from itertools import repeat
from typing import Final, NamedTuple, Protocol, TypeAlias, cast

import numpy as np

from ..core.block import NO_INDICES, Indices
from ..errors import MalformedItem

BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class FoundRecords(NamedTuple):
    """Consecutive records of a file.

    Attributes:
      ends: shape (records,), int64: the offset in bytes after each record; the next record begins
        there.
      kept_before: shape (records passed over,), int64: for each record that is passed over, such as
        a blank line or a header, the count of earlier kept records in the file.
    """

    ends: Indices
    kept_before: Indices

    @classmethod
    def joined(cls, parts: Iterable[FoundRecords]) -> FoundRecords:
        """All records of ``parts``, consecutive in a file; no records without parts."""
        nothing = cls(NO_INDICES, NO_INDICES)
        return cls(*map(np.concatenate, zip(nothing, *parts, strict=True)))


class ByteReader(Protocol):
    """Reads the content of a file in order, for a scan. The file may be local, compressed or remote.

    Attributes:
      size: bytes of the content; None if known only at the end.
    """

    size: int | None

    def read(self, size: int) -> bytes:
        """The next ``size`` bytes; fewer only at the end."""

    def readinto(self, buffer: memoryview) -> int:
        """Fill ``buffer`` with the next bytes; returns the count, below its size only at the end."""

    def skip(self, size: int) -> int:
        """Pass over ``size`` bytes; returns the count of bytes, smaller only at the end."""


class MemoryReader(BytesIO):
    """Bytes in memory as a `ByteReader`.

    Attributes:
      size: number of bytes.
    """

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.size: int | None = len(data)

    def skip(self, size: int) -> int:
        return len(self.read(size))


Scan: TypeAlias = Callable[[ByteReader, int], Iterator[FoundRecords]]
"""Finds records; called with a reader at the start of a record, and the offset of the record.

A scan yields the records found so far at least once per MiB read, so a stream waits for a MiB at
most and keeps a MiB at most. Damaged data raise no error: where no further record can be found, the
scan yields a last record of at most 4 KiB, and the function that decodes this record raises.
"""


class LocatedRecord(NamedTuple):
    """A record, with its file and number.

    Attributes:
      data: the bytes of the record.
      path: of the file.
      number: of the record in the file, from 1.
    """

    data: bytes
    path: str
    number: int

    def malformed(self, reason: str, kind: str = "record") -> MalformedItem:
        """The error for this record, counted from 0; ``kind`` is the format's word for a record."""
        return MalformedItem(f"{self.path}, {kind} {self.number - 1}: {reason}")


def located(
    data: Iterable[bytes], paths: Iterable[str], numbers: Iterable[int]
) -> list[LocatedRecord]:
    """Many records, made at once in half of the time of single records."""
    made = map(tuple.__new__, repeat(LocatedRecord), zip(data, paths, numbers, strict=False))
    return cast("list[LocatedRecord]", list(made))


class Format(NamedTuple):
    """How the records of a file are found. A function then makes an item of each `LocatedRecord`.

    Attributes:
      name: of the format, with the settings of the scan; part of the names of index caches.
      record: the word for a record in errors: "line", "sample".
      scan: finds the records.
      stripped: removes the terminator from the bytes of a record; None if records have none.
      recognises: whether up to 12 first bytes of a file prove this format, although compressed
        content could begin with them too; None if no bytes prove it.
      first: the number of the first record in errors: 0, or 1 for lines, as editors count them.
    """

    name: str
    record: str
    scan: Scan
    stripped: Callable[[bytes], bytes] | None = None
    recognises: Callable[[bytes], bool] | None = None
    first: int = 0

    def __repr__(self) -> str:
        return self.name
