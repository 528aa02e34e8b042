"""Read files as they are stored, one after another, and request remote files ahead of their use."""

# Requests made ahead may fail. The bytes are then read in the ordinary way, with new attempts,
# which raise any errors.

from __future__ import annotations

import asyncio
import os
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import accumulate
from queue import Empty, SimpleQueue
from typing import Final, final
from weakref import WeakSet

import numpy as np

from ...core.foreseen import PartUses, foreseeing, uses_between
from ...core.home_process import in_forked_children
from ...core.weak_sets import members
from .cached_parts import uses_in_order
from .fetching import GRACE, Patience, begin
from .open_files import DataFile
from .pieces import Pieces, Start, StoredPieces
from .remote import RemoteFile
from .remote_content import LARGEST_RANGE, Span, is_checked_by_reads, read_spans, request_for

FIRST_RANGE: Final = 1 << 18
"""Bytes of the first request; each further request is twice as large, up to `LARGEST_RANGE`."""

MOST_ASKED: Final = 2
"""Read ahead at most this many times the bytes that were read in sequence."""

RANGES: Final = 4
"""Ranges that are requested ahead, unless each would be smaller than `SMALL_RANGE`."""

SMALL_RANGE: Final = 1 << 20
"""Bytes; a stream with a smaller share of read-ahead reads nothing ahead, in the largest ranges."""

UNIT: Final = 1 << 10
"""Bytes per item in the plan of a cache."""


@final
class _AskedAhead:
    """A range of a file that was requested ahead.

    Args:
      span: the range.
      start: bytes of all files before the range.
      gate: limits the requests made at once.
    """

    def __init__(self, span: Span, start: int, gate: asyncio.Semaphore) -> None:
        self.start = start
        self.size = span.end - span.start
        self._patience = span.file.system.patience
        self._answers: SimpleQueue[bytes | None] = SimpleQueue()
        self._cancel = begin([request_for(span)], self._patience, self._note, gate)

    @property
    def end(self) -> int:
        """Bytes of all files up to the end of the range."""
        return self.start + self.size

    def content(self) -> bytes | None:
        """The bytes, for the first caller; None if the request failed or timed out."""
        try:
            return self._answers.get(timeout=self._patience.timeout + GRACE)
        except Empty:
            return None

    def give_up(self) -> None:
        """Cancel the request."""
        with suppress(RuntimeError):  # the interpreter ends
            self._cancel()

    def _note(self, place: int, content: bytes | None) -> None:
        self._answers.put(content)


@final
class StoredFiles:
    """The bytes of ``files``, of each from some place to its end, file after file.

    The next bytes of remote files are requested ahead, across files. The storage option ``"ahead"``
    limits the bytes for all streams of this process together. Files in a cache are fetched ahead by
    the cache.

    Args:
      files: as found when the pipeline was built.
      epochs: whether all bytes of the files are read in each epoch, so that a cache may plan with
        them.
    """

    def __init__(self, files: Sequence[DataFile | RemoteFile], *, epochs: bool = False) -> None:
        self._files = files
        self._starts = list(accumulate([0, *(file.size for file in files)]))
        remote = (file.system.patience for file in files if isinstance(file, RemoteFile))
        self._patience = next(remote, Patience())
        # Bytes of all files before the next byte to read.
        self._offset = 0
        # Invariant: the ranges are in the order of the files, and all end after `_offset`, none
        # after `_end`.
        self._queue = deque[_AskedAhead]()
        self._end = 0
        self._range = FIRST_RANGE
        self._in_a_row = 0  # bytes read since the last gap
        self._process = 0
        self._gate = asyncio.Semaphore()
        if epochs and any(file.cache for file in files):
            foreseeing.add(self)

    def open(self, number: int, start: int = 0) -> Pieces:
        """The file with this number from byte ``start`` on.

        Raises:
          MalformedItem: if the file has changed since the pipeline was built.
          OSError: if the file cannot be opened.
        """
        file = self._files[number]
        if isinstance(file, RemoteFile):
            return self.remote(number, start)
        return StoredPieces(file, start)

    def remote(self, number: int, start: int = 0) -> RemotePieces:
        """The remote file with this number; like `open`."""
        return RemotePieces(self._remote(number), start, partial(self.read, number))

    def read(self, number: int, start: int) -> bytes:
        """At least one byte of the remote file with this number, from the offset ``start`` on.

        Raises:
          MalformedItem: if the file has changed.
          ReadError: if the file cannot be read.
        """
        file, place = self._remote(number), self._starts[number] + start
        _reading.add(self)
        self._go_to(place)
        self._ask_ahead()
        content = self._come()
        if content is None:
            span = self._span(file, start)
            (content,) = read_spans([span], checked=False, whole=True)
            self._range = min(2 * self._range, LARGEST_RANGE)
        self._offset += len(content)
        self._end = max(self._end, self._offset)
        self._in_a_row += len(content)
        if self._offset == self._starts[-1]:
            _reading.discard(self)
        return content

    def close(self) -> None:
        """Cancel all requests; may be called again."""
        foreseeing.discard(self)
        _reading.discard(self)
        self._begin_at(self._offset)

    @property
    def held(self) -> int:
        """Bytes that were requested ahead."""
        # Another thread may call this while the reading thread changes the queue.
        return sum(asked.size for asked in self._queue.copy())

    @property
    def position(self) -> int:
        """Bytes before the next byte, in units of `UNIT`."""
        return self._offset // UNIT

    @property
    def left(self) -> int:
        """Bytes still to come, in units of `UNIT`."""
        return self._starts[-1] // UNIT - self.position

    def horizon(self, most: int) -> int:
        """The units in ``most`` parts, at least 1."""
        cache = next(file.cache for file in self._files if file.cache)
        return max(most * cache.part_bytes // UNIT, 1)

    def foreseen(self, start: int, stop: int) -> Iterator[PartUses]:
        """The uses of cached parts from unit ``start`` to ``stop``, up to the next epoch's end."""
        kept = np.flatnonzero([file.cache is not None for file in self._files])
        files = [file for file in self._files if file.cache]
        starts = np.array(self._starts, np.int64)
        for epoch in range(2):
            begins = starts + epoch * starts[-1] - self._offset
            # Parts of distant files are not even counted: a data set may have millions.
            near = (begins[kept + 1] > start * UNIT) & (begins[kept] < stop * UNIT)
            if near.any():
                (places,) = np.nonzero(near)
                uses = uses_in_order([files[place] for place in places], begins[kept[near]], UNIT)
                uses = uses_between(uses, start, stop)
                # All files are in use, also files that are needed later.
                yield uses._replace(files=files, file_of=places[uses.file_of])

    def __del__(self) -> None:
        # Nobody closes an iterator that is dropped mid-epoch.
        if hasattr(self, "_gate"):
            self._begin_at(self._offset)

    def _remote(self, number: int) -> RemoteFile:
        file = self._files[number]
        assert isinstance(file, RemoteFile)
        return file

    def _begin_at(self, place: int) -> None:
        """Cancel all requests, and start at ``place`` as if nothing had been read."""
        while self._queue:
            asked = self._queue.popleft()
            if self._process == os.getpid():  # requests of a parent process are not cancelled
                asked.give_up()
        self._offset = self._end = place
        self._range, self._in_a_row = FIRST_RANGE, 0

    def _go_to(self, place: int) -> None:
        """Continue at ``place``; requests stay if it is near the position."""
        if self._process != os.getpid():  # no answer reaches a forked process
            self._begin_at(place)
            self._process, self._gate = os.getpid(), asyncio.Semaphore(self._patience.at_once)
        while self._queue and self._queue[0].end <= place:
            self._queue.popleft().give_up()
        is_near = self._offset <= place <= self._end + self._range
        if not is_near or (self._queue and place < self._queue[0].start):
            self._begin_at(place)
        if place != self._offset:
            self._in_a_row = 0
        self._offset, self._end = place, max(self._end, place)

    def _ask_ahead(self) -> None:
        """Request more of the following bytes, up to the limits."""
        patience, most = self._patience, min(self._share, MOST_ASKED * self._in_a_row)
        while len(self._queue) < patience.at_once and (span := self._next_span()):
            size = span.end - span.start
            held = sum(stream.held for stream in members(_reading))
            if self.held + size > most or held + size > patience.ahead:
                return
            asked = _AskedAhead(span, self._end, self._gate)
            self._queue.append(asked)
            self._end = asked.end
            self._range = min(2 * self._range, LARGEST_RANGE)

    @property
    def _share(self) -> int:
        """Bytes that this stream may request ahead next to other streams; 0 if too few."""
        share = self._patience.ahead // max(len(members(_reading)), 1)
        return share if share >= SMALL_RANGE else 0

    def _next_span(self) -> Span | None:
        """The range after all requested bytes; None unless in a remote file without a cache."""
        number = bisect_right(self._starts, self._end) - 1
        file = self._files[number] if number < len(self._files) else None
        if not isinstance(file, RemoteFile) or file.cache:
            return None
        return self._span(file, self._end - self._starts[number])

    def _span(self, file: RemoteFile, start: int) -> Span:
        """The range of ``file`` to read at once from ``start`` on."""
        share, largest = self._share, LARGEST_RANGE
        if share and not file.cache:
            largest = min(max(share // RANGES, SMALL_RANGE), largest)
        return Span(file, start, min(start + min(self._range, largest), file.size))

    def _come(self) -> bytes | None:
        """The requested bytes from the place on; None if none were requested or came."""
        if not self._queue or self._queue[0].start > self._offset:
            return None
        asked = self._queue.popleft()
        content = asked.content()
        return None if content is None else content[self._offset - asked.start :]


_reading: Final[WeakSet[StoredFiles]] = WeakSet()
"""The streams of this process that are being read."""

# Streams of the parent take no share of the child's read-ahead.
in_forked_children(_reading.clear)


@final
class RemotePieces:
    """A remote file as it is stored, read range by range.

    Args:
      file: to read.
      start: bytes to leave out.
      read: returns some bytes from an offset on, at least one.

    Raises:
      MalformedItem: if the file has changed since the pipeline was built.
      ReadError: if the file cannot be reached.
    """

    def __init__(self, file: RemoteFile, start: int, read: Callable[[int], bytes]) -> None:
        self.size: int | None = file.size
        self._file = file
        self._read = read
        self._position = start  # of the first byte after the buffer
        self._buffer = memoryview(b"")
        self._ended = False
        if start >= file.size or not is_checked_by_reads(file):
            file.check_unchanged()

    def read_some(self, most: int) -> bytes:
        if not self._buffer:
            self._fill()
        piece = bytes(self._buffer[:most])
        self._buffer = self._buffer[most:]
        return piece

    def skip(self, size: int) -> int:
        """Pass over up to ``size`` bytes without reading; returns how many."""
        buffered = min(size, len(self._buffer))
        self._buffer = self._buffer[buffered:]
        beyond = min(size - buffered, self._file.size - self._position)
        self._position += beyond
        return buffered + beyond

    def _fill(self) -> None:
        if self._position < self._file.size:
            self._buffer = memoryview(self._read(self._position))
            self._position += len(self._buffer)
        elif not self._ended:
            if not is_checked_by_reads(self._file):
                self._file.check_unchanged()
            self._ended = True

    def start_before(self, offset: int) -> Start:
        return Start(offset, offset)

    def close(self) -> None:
        self._buffer = memoryview(b"")
