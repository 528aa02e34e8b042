"""Find the record batches of an Arrow file, by the headers of its messages alone."""

# Both formats are a row of messages (Arrow columnar format, *Serialization and interprocess
# communication*): a prefix, metadata in a flatbuffer, and a body, which is passed over here. The
# file format has a magic number before the first message and a footer after the last. pyarrow
# reports the number of rows of a batch only after it has read the batch.

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ...core.block import Indices

MAGIC: Final = b"ARROW1"
CONTINUATION: Final = b"\xff" * 4
END, SCHEMA, DICTIONARY, BATCH = -1, 1, 2, 3
"""Kinds of messages; `END` means an end mark, which has no number in the format."""

MOST_PADDING: Final = 64
"""Upper limit, exclusive, on the bytes of padding after the last buffer of a body."""

MOST_MARKS: Final = 64
"""Most places in the metadata of a message that are tried as the start of another message."""

BLOCK: Final = np.dtype([("start", "<i8"), ("metadata", "<i8"), ("body", "<i8")])
"""The place of a message, as listed in the footer."""

OFFSET: Final = np.dtype("<u4")
PAIR: Final = np.dtype(("<i8", 2))
NO_BUFFERS: Final = np.empty((0, 2), np.int64)


class Message(NamedTuple):
    """A message with its prefix.

    Attributes:
      kind: `END`, `SCHEMA`, `DICTIONARY`, `BATCH` or another number.
      start: offset of the first byte.
      body: offset of the body.
      stop: offset after the last byte.
      rows: number of rows of a batch; of a schema, the number of columns.
      buffers: start and length of each buffer of a batch, if asked for; shape (buffers, 2), int64.
    """

    kind: int
    start: int
    body: int
    stop: int
    rows: int
    buffers: Indices


class NotArrow(ValueError):
    """The bytes are no messages; the text has the place and the reason."""


def is_file_format(read: Callable[[int, int], bytes]) -> bool:
    """Whether the bytes from ``read(start, size)`` are in the file format."""
    return read(0, len(MAGIC)) == MAGIC


def messages(
    read: Callable[[int, int], bytes], size: int, *, with_buffers: bool = False
) -> list[Message]:
    """All messages in ``size`` bytes, read by ``read(start, size)``; the first is the schema.

    Raises:
      NotArrow: if the bytes are damaged, or not Arrow.
    """
    start, end = 0, size
    is_file = is_file_format(read)
    if is_file:
        start, end = 8, _start_of_footer(read, size)
    found: list[Message] = []
    while start < end:
        try:
            message = _message(read, start, with_buffers)
        except (struct.error, ValueError) as error:
            raise NotArrow(f"message {len(found)} is damaged: {error}") from None
        if message.stop > end or message.rows < 0:
            raise NotArrow(f"message {len(found)} ends at byte {message.stop}, and there are {end}")
        if message.kind == END:
            if message.stop < end:
                raise NotArrow(f"bytes {message.stop} to {end} follow an end mark")
            break
        if message.kind not in ((DICTIONARY, BATCH) if found else (SCHEMA,)):
            kind = f"message {len(found)} is of the kind {message.kind}"
            raise NotArrow(kind if found else "it begins with no schema")
        found.append(message)
        if message.kind == SCHEMA and not message.rows:
            raise NotArrow("a table must have at least one column, and its schema has none")
        start = message.stop
    if not found:
        raise NotArrow("it begins with no schema")
    if is_file:
        _check_footer(read(end, size - 10 - end), found)
    return found


def _check_footer(data: bytes, found: list[Message]) -> None:
    """Check that the footer ``data`` lists the messages ``found``.

    Raises:
      NotArrow: if the footer lists other messages, so that a message or the footer is damaged.
    """
    try:
        footer = _Table(data, _offset(data, 0))
        listed = {
            kind: footer.vector(kind, BLOCK)["start"].tolist() for kind in (DICTIONARY, BATCH)
        }
    except (struct.error, ValueError) as error:
        raise NotArrow(f"its footer is damaged: {error}") from None
    for kind, starts in listed.items():
        if starts != [message.start for message in found if message.kind == kind]:
            raise NotArrow("its footer lists other record batches or dictionaries than there are")


def _start_of_footer(read: Callable[[int, int], bytes], size: int) -> int:
    tail = read(max(size - 10, 0), 10)
    if len(tail) < 10 or tail[4:] != MAGIC:
        raise NotArrow("it has no footer; was it cut short?")
    start = size - 10 - int(struct.unpack_from("<i", tail)[0])
    if not 8 <= start <= size - 10:
        raise NotArrow("the size of its footer is wrong")
    return start


def _message(read: Callable[[int, int], bytes], start: int, with_buffers: bool) -> Message:
    """The message at ``start``."""
    message, data = _with_metadata(read, start, with_buffers)
    if CONTINUATION in data:
        _check_no_message_in(read, message.body - len(data), data)
    return message


def _check_no_message_in(read: Callable[[int, int], bytes], begin: int, data: bytes) -> None:
    """Refuse metadata ``data`` at ``begin`` that cover another message: their length is damaged."""
    marks, lengths = np.frombuffer(data, "<i4", len(data) // 8 * 2).reshape(-1, 2).T
    (places,) = np.nonzero((marks == -1) & (lengths > 0))
    for place in places[:MOST_MARKS].tolist():
        try:
            found, _ = _with_metadata(read, begin + 8 * place, with_buffers=False)
        except (struct.error, ValueError):  # numbers, or metadata of users, that look like a mark
            continue
        if found.kind in (DICTIONARY, BATCH):
            raise ValueError("another message begins in its metadata")
    if len(places) > MOST_MARKS:
        raise ValueError("other messages may begin in its metadata")


def _with_metadata(
    read: Callable[[int, int], bytes], start: int, with_buffers: bool
) -> tuple[Message, bytes]:
    """The message at ``start``, and its metadata."""
    prefix = read(start, 8)
    # Before version 0.15 there was no mark before the length.
    before = 8 if prefix.startswith(CONTINUATION) else 4
    (length,) = struct.unpack_from("<I", prefix, before - 4)
    body_start = start + before + length
    if not length:
        return Message(END, start, body_start, body_start, 0, NO_BUFFERS), b""
    if length >= 1 << 31:
        raise ValueError(f"metadata of {length} bytes")
    data = read(start + before, length)
    if len(data) < length:
        raise ValueError("its metadata are cut short")
    root = _Table(data, _offset(data, 0))
    kind, body = root.number(1, "<B"), root.number(3, "<q")
    if body < 0:
        raise ValueError(f"a body of {body} bytes")
    rows, buffers = 0, NO_BUFFERS
    if kind == SCHEMA:
        rows = len(root.table(2).vector(1, OFFSET))
    if kind in (DICTIONARY, BATCH):
        batch = root.table(2) if kind == BATCH else root.table(2).table(1)
        rows, buffers = _rows(batch), batch.vector(2, PAIR)
        if body - buffers.sum(axis=1).max(initial=0) >= MOST_PADDING:
            raise ValueError(f"a body of {body} bytes, more than its buffers")
    chosen = np.add(buffers, (body_start, 0)) if with_buffers and kind == BATCH else NO_BUFFERS
    return Message(kind, start, body_start, body_start + body, rows, chosen), data


def _rows(batch: _Table) -> int:
    """The number of rows of a record batch; each column repeats the number."""
    rows, columns = batch.number(0, "<q"), batch.vector(1, PAIR)
    column = columns[0, 0] if len(columns) else "nothing"
    if column != rows:
        raise ValueError(f"{rows} rows, but {column} in the first column")
    return rows


class _Table:
    """A table of a flatbuffer; the head has the offset of each field, by number."""

    def __init__(self, data: bytes, position: int) -> None:
        self._data = data
        self._position = position
        (back,) = struct.unpack_from("<i", data, _within(data, position))
        self._head = _within(data, position - back)
        (self._size,) = struct.unpack_from("<H", data, self._head)

    def number(self, field: int, code: str) -> int:
        """The value of a field; 0 for a missing field."""
        position = self._field(field)
        return int(struct.unpack_from(code, self._data, position)[0]) if position else 0

    def table(self, field: int) -> _Table:
        """The table that a field refers to."""
        position = self._field(field)
        if not position:
            raise ValueError(f"field {field} is missing")
        return _Table(self._data, position + _offset(self._data, position))

    def vector(self, field: int, kind: np.dtype[Any]) -> npt.NDArray[Any]:
        """The structs in the vector of a field, shape (structs, ...); none for a missing field."""
        position = self._field(field)
        if not position:
            return np.empty(0, kind)
        vector = _within(self._data, position + _offset(self._data, position))
        return np.frombuffer(self._data, kind, _offset(self._data, vector), vector + 4)

    def _field(self, field: int) -> int:
        entry = 4 + 2 * field
        if entry + 2 > self._size:
            return 0
        (offset,) = struct.unpack_from("<H", self._data, self._head + entry)
        return _within(self._data, self._position + offset) if offset else 0


def _offset(data: bytes, position: int) -> int:
    return int(struct.unpack_from("<I", data, position)[0])


def _within(data: bytes, position: int) -> int:
    """``position``, checked to be in ``data``: Python counts negative positions from the end."""
    if not 0 <= position < len(data):
        raise ValueError(f"it refers to byte {position} of {len(data)}")
    return position
