"""A Parquet file: its footer, and its row groups decoded as a whole or a part at a time."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final, TypeAlias, final
from weakref import ref

import numpy as np

from ...core.block import Indices
from ...errors import MalformedItem
from ..io.clock_cache import ClockCache, Shelved
from .file_access import TableFileAccess, malformed_if_damaged
from .group_reads import GroupReads
from .rows import Rows
from .values import check_readable, joined_chunks, stackable

FOOTER_BUDGET: Final = 1 << 26
"""Bytes of decoded footers that a process keeps."""
DECODED_FOOTER: Final = 4
"""A decoded footer takes about so many times the bytes of the encoded footer."""
MOST_READERS: Final = 16
"""Most row groups that are decoded in parts, and wait with an open file for the next part."""

MOST_DECODED: Final = 1 << 40
"""Upper limit on the estimated bytes of a decoded column chunk."""

footers: ClockCache[Any] = ClockCache(FOOTER_BUDGET)

# The key of a reader: process, file as found, row group and columns.
Key: TypeAlias = tuple[Any, ...]


class Waiting(dict[Key, "_PartReader"]):
    """The readers of one pipeline that wait for the next part; their files close with the pipeline.

    A thread takes a reader out while using it.
    """


# The waiting readers of all pipelines, the longest waiting first. Files do not own readers, since
# decoded rows of a file may outlive the pipeline.
_waiting: OrderedDict[Key, ref[Waiting]] = OrderedDict()


def keep_readers(most: int = MOST_READERS) -> None:
    """Drop all but the ``most`` readers used last."""
    while len(_waiting) > most:
        key, found = _waiting.popitem(last=False)
        if (waiting := found()) is not None:
            waiting.pop(key, None)


@final
class ParquetFile(Shelved[Any]):
    """A file whose groups are its row groups, or parts of them.

    Args:
      access: to the bytes of the file.
      part: rows of a part; None does not divide row groups.
      waiting: the waiting readers of the pipeline, held by a weak reference.
      columns: names of the columns that will be read; None for all.

    Attributes:
      names: of the columns.
      stackable: the columns whose values can be stacked, for any rows in a batch.
      rows: of each group, shape (groups,), int64.
      reads: the bytes to read for each group of a remote file; None for a local file.

    Raises:
      MalformedItem: if the file is not a Parquet file.
      OSError: if the file cannot be read.
    """

    def __init__(
        self,
        access: TableFileAccess,
        part: int | None,
        waiting: Waiting,
        columns: Sequence[str] | None = None,
    ) -> None:
        self.access = access
        self._part = part
        self._waiting = ref(waiting)
        # A later file at this path gets another object.
        self._found = object()
        with malformed_if_damaged(access, "footer"):
            footer = self._footer()
            schema = footer.schema.to_arrow_schema()
            self.names: Sequence[str] = schema.names
            self.stackable = stackable(schema)
            check_readable(schema, columns, empty_structs=False)
            counts = [footer.row_group(number).num_rows for number in range(footer.num_row_groups)]
        if min(counts, default=0) < 0:
            raise MalformedItem(f"{access.path}, footer: a row group of {min(counts)} rows")
        if footer.num_rows not in (sum(counts), 0):  # some writers leave it out; no row is lost
            raise MalformedItem(
                f"{access.path}, footer: {footer.num_rows} rows, but {sum(counts)} in its row groups"
            )
        parts = [-(-rows // part) if part else 1 for rows in counts]
        # For each group: the number of its row group, and the first row within the row group.
        self._row_group = np.repeat(np.arange(len(parts)), parts)
        within = np.arange(len(self._row_group)) - np.repeat(np.cumsum(parts) - parts, parts)
        self._first = within.astype(np.int64) * (part or 0)
        left = np.array(counts, np.int64)[self._row_group] - self._first
        self.rows: Indices = np.minimum(left, part) if part else left
        self.reads: GroupReads | None = None
        if access.is_remote:
            with malformed_if_damaged(access, "footer"):
                self.reads = GroupReads(self._row_group, *_chunks(footer, columns, access.size))

    def read(self, group: int, columns: Sequence[str]) -> Rows:
        """The rows of a group, decoded, with only ``columns``.

        Raises:
          MalformedItem: if the rows cannot be decoded, or the file has changed.
          OSError: if the file cannot be read.
        """
        row_group, first = int(self._row_group[group]), int(self._first[group])
        count = int(self.rows[group])
        where = f"row group {row_group}"
        self.access.check_around_read()
        with malformed_if_damaged(self.access, where):
            if self._part is None:
                with self._open(row_group) as file:
                    table = self._opened(file).read_row_group(
                        row_group, columns=list(columns), use_threads=False
                    )
            else:
                at_end = group + 1 == len(self.rows) or self._first[group + 1] == 0
                table = self._read_part(row_group, first, count, columns, at_end)
            arrays = [joined_chunks(table.column(name)) for name in columns]
        self.access.check_around_read()
        if table.num_rows != count:
            raise MalformedItem(
                f"{self.access.path}, {where}: {table.num_rows} rows instead of {count}"
            )
        return Rows(f"{self.access.path}, {where}", columns, arrays, table.nbytes)

    def _read_part(
        self, row_group: int, first: int, count: int, columns: Sequence[str], at_end: bool
    ) -> Any:
        key = (os.getpid(), self._found, row_group, *columns)
        waiting = self._waiting()
        reader = None if waiting is None else waiting.pop(key, None)
        if reader is None or reader.next_row > first:
            file = self._open(row_group)
            reader = _PartReader(file, self._opened(file), row_group, self._part, columns)
        while reader.next_row < first:
            reader.take(min(self._part or 0, first - reader.next_row))
        table = reader.take(count)
        _waiting.pop(key, None)
        if waiting is not None and not at_end:
            waiting[key] = reader
            _waiting[key] = ref(waiting)
            keep_readers()
        return table

    def _open(self, row_group: int) -> Any:
        """The file for pyarrow, to read a row group."""
        return self.access.open(self.reads.of_one(row_group) if self.reads else ())

    def _opened(self, file: Any) -> Any:
        """A reader of ``file`` by pyarrow, with the known footer."""
        import pyarrow.parquet as pq

        # The ranges of all columns of a remote file are requested together.
        return pq.ParquetFile(
            file,
            metadata=self._footer(),
            pre_buffer=self.access.is_remote,
            page_checksum_verification=True,
        )

    def _footer(self) -> Any:
        footer = self.kept
        if footer is not None:
            self.used = True
            return footer
        import pyarrow.parquet as pq

        self.access.check_around_read()
        with self.access.open() as file:
            footer = pq.read_metadata(file)
        footers.put(self, footer, DECODED_FOOTER * footer.serialized_size)
        return footer


def _chunks(
    footer: Any, columns: Sequence[str] | None, size: int
) -> tuple[Indices, Indices, Indices, Indices]:
    """The decoded bytes of each row group, and the column chunks, in a file of ``size`` bytes.

    Returns:
      the approximate bytes of each decoded row group, shape (row groups,); and for each chunk of
      ``columns`` the row group, the start and the end, all of shape (chunks,).
    """
    paths = [footer.schema.column(place).path for place in range(len(footer.schema))]
    chosen = [
        place
        for place, path in enumerate(paths)
        if columns is None or any(f"{path}.".startswith(f"{name}.") for name in columns)
    ]
    decoded = np.zeros(footer.num_row_groups, np.int64)
    found = []
    for number in range(footer.num_row_groups):
        row_group = footer.row_group(number)
        for place in chosen:
            chunk = row_group.column(place)
            # An offset of 0 means no dictionary.
            start = min(chunk.data_page_offset, chunk.dictionary_page_offset or size)
            end = start + chunk.total_compressed_size
            decoded[number] += min(max(chunk.total_uncompressed_size, 0), MOST_DECODED)
            if 0 <= start < end <= size:  # true unless the footer is damaged
                found.append((number, start, end))
    return decoded, *np.array(found, np.int64).reshape(-1, 3).T


class _PartReader:
    """Decodes the rows of a row group in order.

    Attributes:
      next_row: number of the next row.
    """

    def __init__(
        self, file: Any, parquet: Any, row_group: int, part: int | None, columns: Sequence[str]
    ) -> None:
        self.next_row = 0
        self._file = file  # stays open as long as this object exists
        self._batches = parquet.iter_batches(
            part, row_groups=[row_group], columns=list(columns), use_threads=False
        )
        self._left: list[Any] = []

    def take(self, count: int) -> Any:
        """The next ``count`` rows as a table; fewer only at the end."""
        import pyarrow as pa

        taken, missing = [], count
        while missing:
            batch = self._left.pop() if self._left else next(self._batches, None)
            if batch is None:
                break
            taken.append(batch.slice(0, missing))
            if batch.num_rows > missing:
                self._left.append(batch.slice(missing))
            missing -= taken[-1].num_rows
        self.next_row += count - missing
        if not taken:
            raise pa.ArrowInvalid(f"it ends after {self.next_row} rows")
        return pa.Table.from_batches(taken)
