"""An Arrow file of either format, read one record batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any, Final, final

import numpy as np

from ...core.block import Indices
from ..io.open_files import DataFile, FileContent
from ..io.remote import RemoteFile
from .arrow_messages import BATCH, DICTIONARY, MAGIC, Message, is_file_format, messages
from .file_access import ByteRanges, TableFileAccess, malformed_if_damaged
from .group_reads import GroupReads
from .rows import Rows
from .values import check_readable, stackable

MOST_DICTIONARIES: Final = 1 << 16
"""Most pairs of a batch and a dictionary for which the reads of dictionaries are planned ahead."""

KEPT_OF_A_COLUMN: Final = 512
"""Approximate bytes for the objects of a column with values in a mapped file."""


@final
class ArrowFile:
    """A file whose groups are its record batches.

    A local file is mapped, and values stay in the map until they are asked for.

    Args:
      access: to the bytes of the file.
      columns: names of the columns that will be read; None for all.

    Attributes:
      names: of the columns.
      stackable: the columns whose values can be stacked, for any rows in a batch.
      rows: of each record batch, shape (groups,), int64.
      reads: the bytes to read for each record batch of a remote file; None for a local file.

    Raises:
      MalformedItem: if the file is not an Arrow file.
      OSError: if the file cannot be read.
    """

    def __init__(self, access: TableFileAccess, columns: Sequence[str] | None = None) -> None:
        self.access = access
        self._content = FileContent(access.file) if isinstance(access.file, DataFile) else None
        with malformed_if_damaged(access, "headers"), _Source(self) as read:
            found = messages(read, access.size, with_buffers=columns is not None)
            self._is_file = is_file_format(read)
            self._schema_message = found[0]
            schema = _reader([_part(read, found[0])]).schema
            if self._is_file:
                _check_schema_of_footer(read, found, access.size)
            self.names: Sequence[str] = schema.names
            self.stackable = stackable(schema)
            check_readable(schema, columns, empty_structs=True)
        self._batches = [message for message in found if message.kind == BATCH]
        self._dictionaries = [message for message in found if message.kind == DICTIONARY]
        self.rows: Indices = np.array([message.rows for message in self._batches], np.int64)
        self.reads: GroupReads | None = None
        if isinstance(access.file, RemoteFile):
            chosen = None if columns is None or not self._is_file else _buffers_of(schema, columns)
            self.reads = self._reads(found, chosen)
            return
        # Empty batches give no row, so damage would never show.
        for group in np.flatnonzero(self.rows == 0).tolist():
            with malformed_if_damaged(access, f"record batch {group}"):
                self._batch(group, [*range(len(self.names))])

    def _reads(self, found: list[Message], chosen: list[bool] | None) -> GroupReads:
        """The bytes to read for each batch: the buffers ``chosen``, or all for None."""
        schema_or_footer = self._schema_message.start, self._schema_message.stop
        if self._is_file:
            schema_or_footer = found[-1].stop, self.access.size
        few = len(self._batches) * len(self._dictionaries) <= MOST_DICTIONARIES
        ranges: list[tuple[int, int, int]] = []
        for number, batch in enumerate(self._batches):
            needed = [schema_or_footer, *_ranges_of(batch, chosen)]
            if few:
                needed += [(each.start, each.stop) for each in self._needed_with(batch)]
            ranges += [(number, *each) for each in needed]
        numbers, starts, ends = np.array(ranges, np.int64).reshape(-1, 3).T
        decoded = np.array([message.stop - message.start for message in self._batches], np.int64)
        return GroupReads(np.arange(len(self._batches)), decoded, numbers, starts, ends)

    def _needed_with(self, batch: Message) -> list[Message]:
        """The dictionaries to read with a batch: all of a file, only earlier ones of a stream."""
        return [each for each in self._dictionaries if self._is_file or each.start < batch.start]

    def read(self, group: int, columns: Sequence[str]) -> Rows:
        """The rows of a group, decoded, with only ``columns``.

        Raises:
          MalformedItem: if the rows cannot be decoded, or the file has changed.
          OSError: if the file cannot be read.
        """
        arrays, map_begin = self._arrays(group, columns)
        held = KEPT_OF_A_COLUMN * len(columns) + _bytes_outside(arrays, map_begin, self.access.size)
        return Rows(f"{self.access.path}, record batch {group}", columns, arrays, held)

    def arrays(self, group: int, columns: Sequence[str]) -> list[Any]:
        """The columns of a record batch as arrays of pyarrow, checked.

        Raises:
          MalformedItem: if a column is damaged, or the file has changed.
          OSError: if the file cannot be read.
        """
        return self._arrays(group, columns)[0]

    def _arrays(self, group: int, columns: Sequence[str]) -> tuple[list[Any], int]:
        """The ``columns``, and the address of the map of the file; 0 without a map."""
        message = self._batches[group]
        self.access.check_around_read()
        with malformed_if_damaged(self.access, f"record batch {group}"):
            fields = [self.names.index(name) for name in columns]
            batch, map_begin = self._batch(group, fields)
            arrays = [batch.column(batch.schema.get_field_index(name)) for name in columns]
            for array in arrays:
                _check(array, message.rows)
        if self.access.is_remote:
            self.access.check_around_read()
        return arrays, map_begin

    def _batch(self, group: int, fields: list[int]) -> tuple[Any, int]:
        """A record batch with only ``fields``, and the address of the map; 0 without a map."""
        import pyarrow as pa

        options = pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False)
        ranges = self.reads.of_one(group) if self.reads else ()
        if self._is_file and self.access.is_remote:  # only the ranges of the fields are read
            with self.access.open(ranges) as file:
                return pa.ipc.open_file(file, options=options).get_batch(group), 0
        message = self._batches[group]
        dictionaries = self._needed_with(message)
        with _Source(self, ranges) as read:
            parts = [_part(read, each) for each in (self._schema_message, *dictionaries, message)]
            return _reader(parts, options).read_next_batch(), read.map_begin


class _Source:
    """Reads ranges of a file, from its map or over a network.

    Attributes:
      map_begin: address of the map; 0 without a map.
    """

    map_begin = 0

    def __init__(self, file: ArrowFile, ranges: ByteRanges = ()) -> None:
        import pyarrow as pa

        self._opened: Any = None
        self._map: Any = None
        if file._content is None:
            self._opened = file.access.open(ranges)
        else:
            self._map = pa.py_buffer(file._content.data())
            self.map_begin = self._map.address
        self._wrapped: Callable[[bytes], Any] = pa.py_buffer

    def __enter__(self) -> _Source:
        return self

    def __exit__(self, *error: object) -> None:
        if self._opened is not None:
            self._opened.close()

    def __call__(self, start: int, size: int) -> bytes:
        if self._map is not None:
            data: bytes = self.buffer(start, size).to_pybytes()
            return data
        self._opened.seek(start)
        read: bytes = self._opened.read(size)
        return read

    def buffer(self, start: int, size: int) -> Any:
        """A range as an Arrow buffer, without a copy if the file is mapped."""
        if self._map is None:
            return self._wrapped(self(start, size))
        start = min(start, self._map.size)
        return self._map.slice(start, min(size, self._map.size - start))


def _check_schema_of_footer(read: _Source, found: list[Message], size: int) -> None:
    """Check that the footer has the schema of the first message: pyarrow reads a whole file by the footer's.

    Raises:
      ValueError: if the schemas differ, in the order of bytes too.
    """
    import pyarrow as pa

    options = pa.ipc.IpcReadOptions(ensure_native_endian=False)
    start = found[-1].stop
    # A file of no message but with this footer.
    footer = pa.py_buffer(MAGIC + bytes(2) + read(start, size - start))
    listed = pa.ipc.open_file(footer, options=options).schema
    if not listed.equals(_reader([_part(read, found[0])], options).schema):
        raise ValueError("its footer has another schema than its first message")


def _ranges_of(batch: Message, chosen: list[bool] | None) -> list[tuple[int, int]]:
    """The metadata and ``chosen`` buffers of ``batch``; the whole batch if not known."""
    buffers = batch.buffers.tolist()
    body = min((start for start, _ in buffers), default=batch.start)
    is_known = chosen is not None and len(chosen) == len(buffers)
    if chosen is None or not is_known or not batch.start < body < batch.stop:
        return [(batch.start, batch.stop)]
    found = [(start, start + length) for start, length in compress(buffers, chosen)]
    # Damaged files may have other ranges.
    return [(batch.start, body), *(each for each in found if each[0] < each[1] <= batch.stop)]


def _buffers_of(schema: Any, columns: Sequence[str]) -> list[bool]:
    """For each buffer of a batch, whether the buffer belongs to one of ``columns``."""
    return [field.name in columns for field in schema for _ in range(_buffers(field.type))]


def _buffers(kind: Any) -> int:
    """The number of buffers of a column in a file; wrong for some types."""
    import pyarrow as pa

    if isinstance(kind, pa.BaseExtensionType):
        return _buffers(kind.storage_type)
    if pa.types.is_null(kind):
        return 0
    own: int = kind.num_buffers
    return own + sum(_buffers(kind.field(place).type) for place in range(kind.num_fields))


def _part(source: _Source, message: Message) -> Any:
    return source.buffer(message.start, message.stop - message.start)


def _reader(parts: list[Any], options: Any = None) -> Any:
    import pyarrow as pa

    return pa.ipc.open_stream(pa.PythonFile(_JoinedBuffers(parts), mode="r"), options=options)


class _JoinedBuffers:
    """Buffers one after another, as a file from which pyarrow takes slices.

    Args:
      parts: messages; a read stops at the end of a message.
    """

    closed = False

    def __init__(self, parts: list[Any]) -> None:
        self._parts = [part for part in reversed(parts) if part.size]

    def read_buffer(self, size: int) -> Any:
        """Up to ``size`` bytes; none at the end."""
        import pyarrow as pa

        if not self._parts:
            return pa.py_buffer(b"")
        part = self._parts.pop()
        if part.size > size:
            self._parts.append(part.slice(size))
        return part.slice(0, size)

    def read(self, size: int) -> bytes:
        """The result of `read_buffer` as bytes."""
        data: bytes = self.read_buffer(size).to_pybytes()
        return data

    def close(self) -> None:
        """Nothing is open."""


def _check(array: Any, rows: int) -> None:
    """Check that ``array`` has ``rows`` rows, and all offsets and indices lie within the array.

    Text is checked when it is read.

    Raises:
      ValueError: if a check fails.
    """
    import pyarrow as pa

    if len(array) != rows:
        raise ValueError(f"{len(array)} rows instead of {rows}")
    kind = array.type
    if pa.types.is_string(kind):
        array = array.view(pa.binary())
    elif pa.types.is_large_string(kind):
        array = array.view(pa.large_binary())
    array.validate(full=True)


def _bytes_outside(arrays: list[Any], begin: int, size: int) -> int:
    """Bytes of buffers of ``arrays`` outside the map of ``size`` bytes from ``begin`` on."""
    return sum(
        buffer.size
        for array in arrays
        for buffer in array.buffers()
        if buffer is not None and not begin <= buffer.address < begin + size
    )
