"""A shard: a file of records, and its directory with the places of the records."""

# The directory of a plain shard is a table of offsets in its head. The directory of a compressed
# shard is its decompressed content. Both are made when a record is first asked for, and stay in
# memory as long as the caches have room: the tables of shards of 64 MiB take far less than their
# content.

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, Protocol, final

import numpy as np
import numpy.typing as npt

from ...core.block import Indices
from ...errors import MalformedItem
from ..data_files import AnyFile
from ..io.clock_cache import ClockCache, Shelved
from ..io.held_ranges import Ranges
from ..io.open_files import DataFile, FileContent
from .ranges import Reading
from .unpacking import unpacked

TABLES_BUDGET: Final = 1 << 26
CONTENTS_BUDGET: Final = 1 << 28
"""Bytes of tables of offsets, and of decompressed contents, kept by a process."""

OVERHEAD: Final = 500
"""Bytes that the objects around a table take."""

Offsets = npt.NDArray[np.uint32]


class ShardDirectory(ABC):
    """The directory of a shard, known once the head was read.

    Attributes:
      nbytes: memory of the directory in bytes.
      holds_content: whether the directory holds the records themselves.
    """

    nbytes: int
    holds_content = False

    def ranges(self, numbers: Indices) -> Ranges:
        """The bytes of the file to read for records ``numbers``, shape (n,); by default none."""
        return Ranges(np.zeros_like(numbers), np.zeros_like(numbers))

    @abstractmethod
    def reading(self, numbers: Indices) -> Reading[list[Any]]:
        """Reads the records with these ``numbers``, shape (n,), int64: bytes, as a rule.

        Raises:
          ValueError: if the shard is damaged.
        """


class Positions(Protocol):
    """The places of records in the content of a shard."""

    nbytes: int

    def ranges(self, numbers: Indices) -> Ranges:
        """The ranges of the records with these ``numbers``, shape (n,), int64."""


class OffsetTable:
    """Adjacent records.

    Args:
      offsets: starts of the records, and the end of the last; shape (records + 1,), ascending.
    """

    def __init__(self, offsets: Offsets) -> None:
        self._offsets = offsets
        self.nbytes = offsets.nbytes

    def ranges(self, numbers: Indices) -> Ranges:
        starts, stops = self._offsets[numbers], self._offsets[numbers + 1]
        return Ranges(starts.astype(np.int64), stops.astype(np.int64))


class RecordsInFile(ShardDirectory):
    """Records as ranges of a file.

    Args:
      positions: places of the records.
      unpack: makes a record of its bytes; None leaves the bytes unchanged.
    """

    def __init__(
        self, positions: Positions, unpack: Callable[[bytes], bytes] | None = None
    ) -> None:
        self.positions = positions
        self._unpack = unpack
        self.nbytes = positions.nbytes

    def ranges(self, numbers: Indices) -> Ranges:
        return self.positions.ranges(numbers)

    def reading(self, numbers: Indices) -> Reading[list[Any]]:
        found = yield self.positions.ranges(numbers)
        return found if self._unpack is None else list(map(self._unpack, found))


class RecordsInMemory(ShardDirectory):
    """Records as ranges of decompressed content."""

    holds_content = True

    def __init__(self, content: bytes, positions: Positions) -> None:
        self._content = content
        self._positions = positions
        self.nbytes = len(content) + positions.nbytes

    def reading(self, numbers: Indices) -> Reading[list[Any]]:
        yield from ()
        ranges = self._positions.ranges(numbers)
        return [self._content[start:stop] for start, stop in ranges.pairs()]


class ListedShard(NamedTuple):
    """A shard as listed in an index, and the file to read.

    Attributes:
      name: of the shard in the index.
      size: bytes of the content.
      items: number of records.
      file_name: of the file to read.
      file_size: bytes of the file to read; None if not in the index.
      compression: of the whole file; empty without compression.
      in_place: whether the file to read has replaced a compressed file.
    """

    name: str
    size: int
    items: int
    file_name: str
    file_size: int | None
    compression: str = ""
    in_place: bool = False


class DataShard(Shelved[ShardDirectory], ABC):
    """A file of a dataset.

    Args:
      file: as found when the pipeline was built.
      listed: the description of the shard.

    Attributes:
      content: for `read_at_once`.
      items: number of records.
    """

    def __init__(self, file: AnyFile, listed: ListedShard) -> None:
        self.file = file
        self.content = FileContent(file) if isinstance(file, DataFile) else file
        self.path = file.path
        self.listed = listed
        self.items = listed.items

    @abstractmethod
    def _opening(self) -> Reading[ShardDirectory]:
        """Makes the directory.

        Raises:
          ValueError: if the shard is damaged.
        """

    def _decompressed(self) -> Reading[bytes]:
        """The content of a file that is compressed as a whole."""
        (packed,) = yield Ranges.of((0, self.file.size))
        content = unpacked(packed, self.listed.compression, self.listed.size)
        if len(content) != self.listed.size:
            raise ValueError(f"its content has {len(content)} bytes instead of {self.listed.size}")
        return content

    def likely_ranges(self, numbers: Indices) -> Ranges:
        """The ranges of the records ``numbers``, shape (n,), estimated if no table is in memory."""
        directory = self.kept
        if isinstance(directory, RecordsInFile):
            return directory.positions.ranges(numbers)
        size, items = self.file.size, max(self.items, 1)
        starts = numbers * size // items
        return Ranges(starts, np.minimum(starts + size // items + 1, size))

    @final
    def locating(self, numbers: Indices) -> Reading[Ranges]:
        """Reads the ranges of the records ``numbers``, shape (n,); raises errors like `reading`."""
        directory = yield from self._directory()
        return directory.ranges(numbers)

    @final
    def reading(self, numbers: Indices) -> Reading[list[Any]]:
        """Reads the records with these ``numbers``, shape (n,), int64.

        Raises:
          MalformedItem: if the shard is damaged.
          MissingDependency: if the package to read the shard is not installed.
        """
        directory = yield from self._directory()
        with self._as_damaged():
            return (yield from directory.reading(numbers))

    def _directory(self) -> Reading[ShardDirectory]:
        directory = self.kept
        self.used = True
        if directory is None:
            with self._as_damaged():
                directory = yield from self._opening()
            cache = contents if directory.holds_content else tables
            # The directory in use is kept, however large.
            cache.put(self, directory, min(directory.nbytes + OVERHEAD, cache.most))
        return directory

    @contextmanager
    def _as_damaged(self) -> Iterator[None]:
        """Raise errors of decoders for damaged data as `MalformedItem`."""
        try:
            yield
        except MalformedItem:
            raise
        except DAMAGED as error:
            if type(error) not in DAMAGED or (isinstance(error, OSError) and error.errno):
                raise
            raise MalformedItem(f"{self.path}: a damaged shard: {error}") from error


DAMAGED: Final = (ValueError, EOFError, OSError)
"""Exact error classes of decoders for damaged data; a signal handler may raise a derived class."""


def head_size(items: int) -> int:
    """Bytes of the number and the offsets of ``items``."""
    return 4 + 4 * (items + 1)


def offset_table(head: bytes, items: int, kind: str, last: int) -> OffsetTable:
    """The table in a ``head``: the number of records, and their offsets.

    Args:
      head: the first bytes of a shard, up to the end of the offsets or further.
      items: number of records, by the index.
      kind: the format's word for a record.
      last: the offset after the last record.

    Raises:
      ValueError: if the head does not fit the other arguments.
    """
    count = int.from_bytes(head[:4], "little")
    if count != items:
        raise ValueError(f"it has {count} {kind}s, and {items} by the index")
    return OffsetTable(checked_offsets(head, 4, items, len(head), last))


def checked_offsets(head: bytes, place: int, items: int, first: int, last: int) -> Offsets:
    """The offsets of ``items`` records in ``head``, from ``place`` on: shape (items + 1,), uint32.

    Args:
      head: the first bytes of a shard.
      place: start of the offsets in the head.
      items: number of records.
      first: the least offset of the first record.
      last: the offset after the last record.

    Raises:
      ValueError: if the offsets do not ascend, or do not fit ``first`` and ``last``.
    """
    offsets = np.frombuffer(head, "<u4", items + 1, place)
    wrong = np.flatnonzero(offsets[1:] < offsets[:-1])
    if len(wrong):
        raise ValueError(f"record {wrong[0]} ends before it begins")
    if offsets[0] < first:
        raise ValueError(
            f"its records begin at byte {offsets[0]}, within its head of {first} bytes"
        )
    if offsets[-1] != last:
        raise ValueError(f"its records end at byte {offsets[-1]}, and must at {last}")
    return offsets


tables: ClockCache[ShardDirectory] = ClockCache(TABLES_BUDGET)
contents: ClockCache[Any] = ClockCache(CONTENTS_BUDGET)
