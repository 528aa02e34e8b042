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
from .damage import malformed_if_damaged
from .file_access import TableFileAccess
from .group_reads import GroupReads
from .rows import Rows
from .values import check_readable, joined_chunks, stackable

FOOTER_BUDGET: Final = 1 << 26
"""Bytes of decoded footers that a process keeps."""
DECODED_FOOTER: Final = 4
"""A decoded footer takes about so many times the bytes of the encoded one."""
MOST_READERS: Final = 16
"""Row groups that are decoded a part at a time, and wait with an open file for the next part."""

MOST_DECODED: Final = 1 << 40
"""Bytes that a column chunk is thought to take, at the most."""

footers: ClockCache[Any] = ClockCache(FOOTER_BUDGET)

# A reader's key has its process, its file as it was found, its row group and its columns.
Key: TypeAlias = tuple[Any, ...]


class Waiting(dict[Key, "_PartReader"]):
    """The readers of one pipeline that wait for the next part; they and their files end with it.

    A reader is taken out while it is used, by one thread.
    """


# The waiting readers of all pipelines, the longest waiting first. Files do not own readers, since
# what was decoded of a file may outlive the pipeline.
_waiting: OrderedDict[Key, ref[Waiting]] = OrderedDict()


def keep_readers(most: int = MOST_READERS) -> None:
    """Let go of all but the ``most`` readers used last."""
    while len(_waiting) > most:
        key, found = _waiting.popitem(last=False)
        if (waiting := found()) is not None:
            waiting.pop(key, None)


@final
class ParquetFile(Shelved[Any]):
    """A file whose groups are its row groups, or parts of them.

    Args:
      access: to its bytes.
      part: rows of a part; None does not divide row groups.
      waiting: where readers of parts wait, as long as it exists.
      columns: names of those that will be read; None for all.

    Attributes:
      names: of its columns.
      stackable: the columns whose values can be stacked, whichever are in a batch.
      rows: of each group, shape (groups,), int64.
      reads: what is read for each group, if the file is remote.

    Raises:
      MalformedItem: if it is not a Parquet file.
      OSError: if it cannot be read.
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
        if sum(counts) != footer.num_rows:
            raise MalformedItem(
                f"{access.path}, footer: {footer.num_rows} rows, but {sum(counts)} in its row groups"
            )
        parts = [-(-rows // part) if part else 1 for rows in counts]
        # For each group: its row group, and its first row there.
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
        """The file for pyarrow, which will read a row group of it."""
        return self.access.open(self.reads.of_one(row_group) if self.reads else ())

    def _opened(self, file: Any) -> Any:
        """What reads ``file``, with the footer that is known already."""
        import pyarrow.parquet as pq

        # The ranges of all columns of a remote file are asked for together.
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
    """The bytes of each row group once it is decoded, and the column chunks of all in a file of ``size`` bytes.

    Returns:
      the bytes of each row group, about, shape (row groups,); and for each chunk of one of ``columns`` its
      row group, where it begins and where it ends, all of shape (chunks,).
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
            # An offset of 0 says that there is no dictionary.
            start = min(chunk.data_page_offset, chunk.dictionary_page_offset or size)
            end = start + chunk.total_compressed_size
            decoded[number] += min(max(chunk.total_uncompressed_size, 0), MOST_DECODED)
            if 0 <= start < end <= size:  # as it is, unless the footer is damaged
                found.append((number, start, end))
    return decoded, *np.array(found, np.int64).reshape(-1, 3).T


class _PartReader:
    """Decodes the rows of a row group in order.

    Attributes:
      next_row: number of the row that comes next.
    """

    def __init__(
        self, file: Any, parquet: Any, row_group: int, part: int | None, columns: Sequence[str]
    ) -> None:
        self.next_row = 0
        self._file = file  # it stays open as long as this object exists
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
