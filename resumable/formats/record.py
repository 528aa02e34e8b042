"""What a file format says: where the records of a file end, and what one of them is worth."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np

from ..core.block import Indices
from ..errors import MalformedItem


class FoundRecords(NamedTuple):
    """Consecutive records of a file.

    Attributes:
      ends: shape (records,), int64: the offset in bytes after each record; the next begins there.
      kept_before: for each record that is passed over (a blank line, a header), how many others of
        the file are before it; shape (records passed over,), int64.
    """

    ends: Indices
    kept_before: Indices

    @classmethod
    def joined(cls, parts: Iterable[FoundRecords]) -> FoundRecords:
        """The consecutive ``parts`` of a file as one; nothing if there are none."""
        nothing = np.empty(0, np.int64)
        return cls(*map(np.concatenate, zip(cls(nothing, nothing), *parts, strict=True)))


class ByteReader(Protocol):
    """The bytes of a file in order, as a scan reads them: those on a disk, decompressed or remote.

    Attributes:
      size: of all bytes; None if only the end tells.
    """

    size: int | None

    def read(self, size: int) -> bytes:
        """The next ``size`` bytes; fewer only at the end."""

    def readinto(self, buffer: memoryview) -> int:
        """Fill ``buffer`` with the next bytes; returns how many, fewer than its size only at the end."""

    def skip(self, size: int) -> int:
        """Pass over ``size`` bytes; returns how many there were, fewer only at the end."""


Scan: TypeAlias = Callable[[ByteReader, int], Iterator[FoundRecords]]
"""Finds the records that ``reader`` gives, which stands at the start of one, at this offset.

It hands out what it has found at least once a MiB read, so that a stream waits for no more, and
keeps no more. It never raises for damaged data: from where no further record can be found, it gives
a last one of at most 4 KiB, so that whoever decodes that one sees the damage and raises.
"""


class LocatedRecord(NamedTuple):
    """A record and where it stands.

    Attributes:
      data: its bytes.
      path: the file.
      number: counted from 1.
    """

    data: bytes
    path: str
    number: int

    def malformed(self, reason: str, kind: str = "record") -> MalformedItem:
        """The error that says what is wrong with it; ``kind`` is what its format calls a record."""
        return MalformedItem(f"{self.path}, {kind} {self.number}: {reason}")


class Format(NamedTuple):
    """How the records of a file are found; a function makes items of `LocatedRecord`.

    Attributes:
      name: of the format and of what its scan depends on, as in the names of index caches.
      record: what errors call a record: "line", "sample".
      scan: finds the records.
      stripped: takes from the bytes of a record what only ends it; None if nothing does.
      recognises: whether the first bytes, up to 12, are surely those of a file of the format, even if
        they could be those of compressed content; None if that cannot be told.
    """

    name: str
    record: str
    scan: Scan
    stripped: Callable[[bytes], bytes] | None = None
    recognises: Callable[[bytes], bool] | None = None

    def __repr__(self) -> str:
        return self.name
