"""Open files of records, and read their records by number."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from ..core.block import Indices
from .data_files import AnyFile, location
from .index.names import cache_path, pack_path
from .index.packs import FEWEST_PACKED, packed_indexes
from .index.record_index import LARGEST_PACKED, RecordIndex, index_of
from .io.held_ranges import Ranges
from .io.open_files import DataFile, FileContent, FileData
from .io.remote import RemoteFile
from .record import Format

READ_AHEAD_BYTES: Final = 1 << 16
"""Bytes of records read at once when records are read in order."""


class RecordFile(NamedTuple):
    """A file on a disk and the index of its records, as found when the pipeline was built.

    Attributes:
      path: absolute.
      content: the bytes of the file.
      positions: the index: ends of records, and records passed over.
    """

    path: str
    content: FileContent
    positions: RecordIndex

    @property
    def file(self) -> DataFile:
        """The file as found when the pipeline was built."""
        return self.content.file

    def read(self, records: Indices, gather: object = None) -> list[bytes]:
        """The records with these numbers, counted from 0.

        Args:
          records: shape (n,), int64, at least one.
          gather: an index file is checked once for each such object, or each time for None.

        Raises:
          MalformedItem: if the file has changed since the pipeline was built.
          OSError: if the file cannot be read.
        """
        ends = self.positions.ends(records, gather)
        data = self.content.data()
        starts = np.where(records > 0, ends[records - 1], 0)
        stops = self.trimmed_stops(data, starts, ends[records]).tolist()
        return [data[start:stop] for start, stop in zip(starts.tolist(), stops, strict=True)]

    def trimmed_stops(self, data: FileData, starts: Indices, stops: Indices) -> Indices:
        """The ends of records from ``starts`` to ``stops``, both shape (n,), without terminators."""
        return stops

    def read_few(self, records: list[int], gather: object = None) -> list[bytes]:
        """Like `read`, for a few records, at least one."""
        ends = self.positions.ends(records, gather).item
        data = self.content.data()
        return [data[ends(number - 1) if number else 0 : ends(number)] for number in records]

    def read_page(self, records: Indices) -> list[bytes]:
        """The first of ``records``, shape (n,), ascending, and more within `READ_AHEAD_BYTES` bytes."""
        gather = object()
        ends = self.positions.ends(records, gather)[records]
        count = int(np.searchsorted(ends, ends[0] + READ_AHEAD_BYTES, side="right"))
        return self.read(records[:count], gather)


class RemoteRecords(NamedTuple):
    """A remote file and the index of its records, as found when the pipeline was built.

    Attributes:
      path: the public URL.
      file: to read.
      positions: the index: ends of records, and records passed over.
    """

    path: str
    file: RemoteFile
    positions: RecordIndex

    def ranges(self, numbers: Indices, gather: object = None) -> Ranges:
        """The ranges of the records with ``numbers``, shape (n,), in the file."""
        ends = self.positions.ends(numbers, gather)
        return Ranges(np.where(numbers > 0, ends[numbers - 1], 0), ends[numbers])


AnyRecords: TypeAlias = RecordFile | RemoteRecords


def with_index(
    file: AnyFile,
    positions: RecordIndex,
    local: type[RecordFile] = RecordFile,
) -> AnyRecords:
    """``file`` and the index of its records; a file on a disk as ``local``."""
    if isinstance(file, DataFile):
        return local(file.path, FileContent(file), positions)
    return RemoteRecords(file.path, file, positions)


def open_record_files(
    files: Sequence[AnyFile],
    folder: str | None,
    format: Format,
    local: type[RecordFile] = RecordFile,
) -> tuple[AnyRecords, ...]:
    """Open the indexes of ``files``, kept in ``folder``, or next to the files on a disk.

    Reads the headers of the caches, and every file without a cache as a whole.

    Raises:
      InvalidArgument: if a file is compressed.
      MalformedItem: if a file changes meanwhile.
      OSError: if a file cannot be read.
    """
    on_disk = dict.fromkeys(file for file in files if isinstance(file, DataFile))
    packed = _packed_indexes(on_disk, folder, format)
    opened: list[AnyRecords] = []
    for file in files:
        index = packed.get(file) if isinstance(file, DataFile) else None
        if index is None:
            index = index_of(file, cache_path(location(file), folder, format), format)
        opened.append(with_index(file, index, local))
    return tuple(opened)


def _packed_indexes(
    files: Iterable[DataFile], folder: str | None, format: Format
) -> dict[DataFile, RecordIndex]:
    """The indexes in packs, shared caches of small files of a folder."""
    packed: dict[DataFile, RecordIndex] = {}
    folders: dict[str, list[DataFile]] = {}
    for file in files:
        if file.size <= LARGEST_PACKED:
            folders.setdefault(os.path.dirname(file.path), []).append(file)
    for parent, together in folders.items():
        if len(together) >= FEWEST_PACKED:
            packed |= packed_indexes(
                together,
                pack_path(parent, folder, format),
                lambda file: cache_path(file.path, folder, format),
                format,
            )
    return packed
