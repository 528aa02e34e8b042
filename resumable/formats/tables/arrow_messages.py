"""Find the record batches of an Arrow file, by the headers of its messages alone."""

# Both formats are a row of messages (Arrow columnar format, *Serialization and interprocess
# communication*): a prefix, metadata in a flatbuffer, and a body, which is passed over here. The file
# format has a magic number before the first and a footer behind the last. pyarrow tells the number
# of rows of a batch only after it has read the batch.

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from ...core.block import Indices

MAGIC: Final = b"ARROW1"
CONTINUATION: Final = 0xFFFFFFFF
SCHEMA, DICTIONARY, BATCH = 1, 2, 3
"""Kinds of messages; tensors, which are no rows, have others."""

NO_BUFFERS: Final = np.empty((0, 2), np.int64)


class Message(NamedTuple):
    """A message with its prefix.

    Attributes:
      kind: `SCHEMA`, `DICTIONARY`, `BATCH` or another number.
      start: its first byte.
      stop: after its last byte.
      rows: of a batch.
      buffers: of a batch, where each begins, and how long it is, if that was asked for; shape (buffers, 2), int64.
    """

    kind: int
    start: int
    stop: int
    rows: int
    buffers: Indices


class NotArrow(ValueError):
    """The bytes are no messages; says where and why."""


def is_file_format(read: Callable[[int, int], bytes]) -> bool:
    """Whether bytes, which ``read(start, size)`` gives, are in the file format."""
    return read(0, len(MAGIC)) == MAGIC


def messages(
    read: Callable[[int, int], bytes], size: int, *, with_buffers: bool = False
) -> list[Message]:
    """All messages in ``size`` bytes, which ``read(start, size)`` gives; the first is the schema.

    Raises:
      NotArrow: if they are damaged, or something else.
    """
    start, end = 0, size
    if is_file_format(read):
        start, end = 8, _start_of_footer(read, size)
    found: list[Message] = []
    while start < end:
        try:
            message = _message(read, start, with_buffers)
        except (struct.error, ValueError) as error:
            raise NotArrow(f"message {len(found)} is damaged: {error}") from None
        if message is None:
            break
        if message.stop > end or message.rows < 0:
            raise NotArrow(f"message {len(found)} ends at byte {message.stop}, and there are {end}")
        found.append(message)
        start = message.stop
    if not found or found[0].kind != SCHEMA:
        raise NotArrow("it begins with no schema")
    return found


def _start_of_footer(read: Callable[[int, int], bytes], size: int) -> int:
    tail = read(max(size - 10, 0), 10)
    if len(tail) < 10 or tail[4:] != MAGIC:
        raise NotArrow("it has no footer; was it cut short?")
    start = size - 10 - int(struct.unpack_from("<i", tail)[0])
    if not 8 <= start <= size - 10:
        raise NotArrow("the size of its footer is wrong")
    return start


def _message(read: Callable[[int, int], bytes], start: int, with_buffers: bool) -> Message | None:
    """The message at ``start``; None if it says that there are no more."""
    prefix = read(start, 8)
    first, second = struct.unpack("<II", prefix)
    # Before version 0.15 there was no mark before the length.
    before, length = (8, second) if first == CONTINUATION else (4, first)
    if not length:
        return None
    if length >= 1 << 31:
        raise ValueError(f"metadata of {length} bytes")
    data = read(start + before, length)
    if len(data) < length:
        raise ValueError("its metadata are cut short")
    root = _Table(data, _offset(data, 0))
    kind, body = root.number(1, "<B"), root.number(3, "<q")
    if body < 0:
        raise ValueError(f"a body of {body} bytes")
    begin, rows, buffers = start + before + length, 0, NO_BUFFERS
    if kind == BATCH:
        batch = root.table(2)
        rows = _rows(batch)
        if with_buffers:
            buffers = np.add(batch.pairs(2), (begin, 0))
    return Message(kind, start, begin + body, rows, buffers)


def _rows(batch: _Table) -> int:
    """How many rows a record batch has, which each of its columns says again."""
    rows, column = batch.number(0, "<q"), batch.first(1, "<q")
    if column not in (None, rows):
        raise ValueError(f"{rows} rows, but {column} in the first column")
    return rows


class _Table:
    """A table of a flatbuffer. Its head says where each field is, by number."""

    def __init__(self, data: bytes, position: int) -> None:
        self._data = data
        self._position = position
        (back,) = struct.unpack_from("<i", data, _within(data, position))
        self._head = _within(data, position - back)
        (self._size,) = struct.unpack_from("<H", data, self._head)

    def number(self, field: int, code: str) -> int:
        """The value of a field; 0 if it is left out."""
        position = self._field(field)
        return int(struct.unpack_from(code, self._data, position)[0]) if position else 0

    def table(self, field: int) -> _Table:
        """The table that a field refers to."""
        position = self._field(field)
        if not position:
            raise ValueError(f"field {field} is missing")
        return _Table(self._data, position + _offset(self._data, position))

    def first(self, field: int, code: str) -> int | None:
        """The value at the start of the vector that a field refers to; None if that is empty."""
        position = self._field(field)
        if not position:
            return None
        vector = _within(self._data, position + _offset(self._data, position))
        if not _offset(self._data, vector):
            return None
        return int(struct.unpack_from(code, self._data, vector + 4)[0])

    def pairs(self, field: int) -> Indices:
        """The vector of pairs of int64 that a field refers to, shape (pairs, 2)."""
        position = self._field(field)
        if not position:
            return NO_BUFFERS
        vector = _within(self._data, position + _offset(self._data, position))
        count = 2 * _offset(self._data, vector)
        return np.frombuffer(self._data, "<i8", count, vector + 4).reshape(-1, 2)

    def _field(self, field: int) -> int:
        entry = 4 + 2 * field
        if entry + 2 > self._size:
            return 0
        (offset,) = struct.unpack_from("<H", self._data, self._head + entry)
        return _within(self._data, self._position + offset) if offset else 0


def _offset(data: bytes, position: int) -> int:
    return int(struct.unpack_from("<I", data, position)[0])


def _within(data: bytes, position: int) -> int:
    """``position``, if it lies in ``data``: Python takes negative ones for positions before the end."""
    if not 0 <= position < len(data):
        raise ValueError(f"it refers to byte {position} of {len(data)}")
    return position
