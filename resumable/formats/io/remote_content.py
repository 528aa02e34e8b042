"""Read remote files: ranges of several at once, or one from its start to its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, final

from ...file_cache.local import reader_of
from ...file_cache.parts import WantedBytes
from ...file_cache.reading import Done
from .fetching import Request, begin, fetch_all
from .pieces import Start
from .remote import RemoteFile, calling

FIRST_RANGE: Final = 1 << 18
LARGEST_RANGE: Final = 1 << 23
"""Bytes of the first request to a file in an epoch, and of the largest. Each is twice the one before."""

RANGES_TO_SCAN: Final = 4
"""Requests of the largest size made at once for a file if nobody waits for its records."""


class Span(NamedTuple):
    """Some bytes of a file, from ``start`` to ``end``, which lie within it."""

    file: RemoteFile
    start: int
    end: int


def read_spans(spans: Sequence[Span], *, checked: bool = True, whole: bool = False) -> list[bytes]:
    """The bytes of ``spans``, from the cache if the files have one, or read at the same time.

    Args:
      spans: of files of one file system.
      checked: whether to ask for each file that is read if it is what it was.
      whole: whether what is next to each span will be wanted soon, so that it is worth a place in a cache.

    Raises:
      MalformedItem: if a file has changed.
      ReadError: if one cannot be read.
      FileNotFoundError: if one is no longer there.
    """
    cached = [span for span in spans if span.file.is_cached]
    if not cached:
        return _fetched(spans, checked=checked)
    cache = cached[0].file.system.cache
    assert cache is not None
    found = reader_of(cache).read(cached, _Uncached(checked), whole=whole)
    if len(cached) == len(spans):
        return found
    from_cache = iter(found)
    directly = iter(_fetched([span for span in spans if not span.file.is_cached], checked=checked))
    return [next(from_cache if span.file.is_cached else directly) for span in spans]


@final
class _Uncached:
    """Reads what is not in a cache."""

    def __init__(self, checked: bool) -> None:
        self._checked = checked

    def read(self, wanted: Sequence[WantedBytes]) -> list[bytes]:
        return _fetched(list(map(_as_span, wanted)), checked=self._checked)

    def begin(self, wanted: Sequence[WantedBytes], done: Done) -> None:
        spans = list(map(_as_span, wanted))
        if spans:
            patience = spans[0].file.system.patience
            begin([_request(*span) for span in spans], patience.timeout, done)


def _as_span(wanted: WantedBytes) -> Span:
    return Span(wanted.file, wanted.start, wanted.end)


def _fetched(spans: Sequence[Span], *, checked: bool) -> list[bytes]:
    """The bytes of ``spans``, without a cache.

    Args:
      spans: of files of one file system.
      checked: whether to ask for each file if it is what it was.

    Raises:
      MalformedItem: if a file has changed.
      ReadError: if one cannot be read.
      FileNotFoundError: if one is no longer there.
    """
    if not spans:
        return []
    files = {span.file.path: span.file for span in spans} if checked else {}
    requests = [file.look() for file in files.values()]
    parts = []
    for file, start, end in spans:
        cuts = range(start, end, LARGEST_RANGE)
        requests += [_request(file, cut, min(cut + LARGEST_RANGE, end)) for cut in cuts]
        parts.append(len(cuts))
    answers = iter(fetch_all(requests, spans[0].file.system.patience))
    for file in files.values():
        if not file.is_unchanged(next(answers)):
            file.check_unchanged()
    return [b"".join([next(answers) for _ in range(count)]) for count in parts]


def _request(file: RemoteFile, start: int, end: int) -> Request:
    opened, _ = file.system.open()
    read = calling(opened, "cat_file", file.key, start=start, end=end)
    # A range may be missing because the size of the file has changed.
    return Request(file.path, partial(_whole, file, start, end, read), file.check_unchanged)


async def _whole(file: RemoteFile, start: int, end: int, read: Callable[[], Any]) -> bytes:
    data: bytes = await read()
    if len(data) == file.size > end - start:
        raise NotImplementedError("the server sends whole files, not ranges")
    if len(data) != end - start:
        raise OSError(f"the body has {len(data)} bytes in place of {end - start}")
    return data


class RemotePieces:
    """A remote file as it is stored, from ``start`` on, in ranges that grow.

    Args:
      file: to read.
      start: bytes to leave out.
      at_once: how many of the largest ranges are asked for at the same time.

    Raises:
      MalformedItem: if it has changed since it was found.
      ReadError: if it cannot be reached.
    """

    def __init__(self, file: RemoteFile, start: int = 0, at_once: int = 1) -> None:
        self.size: int | None = file.size
        self._file = file
        self._position = start  # of what comes after the buffer
        self._buffer = memoryview(b"")
        self._range = FIRST_RANGE
        self._largest = at_once * LARGEST_RANGE
        self._ended = False
        file.check_unchanged()

    def read_some(self, most: int) -> bytes:
        if not self._buffer:
            self._fill()
        piece = bytes(self._buffer[:most])
        self._buffer = self._buffer[most:]
        return piece

    def skip(self, size: int) -> int:
        """Pass over ``size`` bytes; nothing more is read for that."""
        buffered = min(size, len(self._buffer))
        self._buffer = self._buffer[buffered:]
        beyond = min(size - buffered, self._file.size - self._position)
        self._position += beyond
        if beyond > self._range:  # little is read compared with what is passed over
            self._range = FIRST_RANGE
        return buffered + beyond

    def _fill(self) -> None:
        begin, end = self._position, min(self._position + self._range, self._file.size)
        if begin >= end:
            if not self._ended:
                self._file.check_unchanged()
            self._ended = True
            return
        (data,) = read_spans([Span(self._file, begin, end)], checked=False, whole=True)
        self._buffer = memoryview(data)
        self._position = end
        self._range = min(2 * self._range, self._largest)

    def start_before(self, offset: int) -> Start:
        return Start(offset, offset)

    def close(self) -> None:
        self._buffer = memoryview(b"")


class RemoteReader:
    """A remote file from its start, as a scan reads it.

    Attributes:
      size: in bytes.
    """

    size: int | None

    def __init__(self, file: RemoteFile) -> None:
        self.size = file.size
        self._pieces = RemotePieces(file, at_once=RANGES_TO_SCAN)
        self._first = self._pieces.read_some(FIRST_RANGE)

    def peek(self) -> bytes:
        """The first bytes of the file, before it is read."""
        return self._first

    def read(self, size: int) -> bytes:
        """The next ``size`` bytes; fewer only at the end."""
        found = bytearray(size)
        count = self.readinto(memoryview(found))
        return bytes(memoryview(found)[:count])

    def readinto(self, buffer: memoryview) -> int:
        """Fill ``buffer``; returns how many bytes there were, fewer than its size only at the end."""
        count = 0
        while count < len(buffer):
            piece = self._first or self._pieces.read_some(len(buffer) - count)
            if not piece:
                break
            taken = piece[: len(buffer) - count]
            buffer[count : count + len(taken)] = taken
            self._first = piece[len(taken) :]
            count += len(taken)
        return count

    def skip(self, size: int) -> int:
        """Pass over ``size`` bytes; returns how many there were, fewer only at the end."""
        passed = min(size, len(self._first))
        self._first = self._first[passed:]
        return passed + self._pieces.skip(size - passed)
