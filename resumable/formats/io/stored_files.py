"""Read files as they are stored, one after another, and ask for remote ones before they are needed."""

# What is asked for ahead is never relied on: where it did not come, it is read like anything else, which
# asks again and raises what is wrong.

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
from ...core.weak_sets import members
from .cached_parts import uses_in_order
from .fetching import GRACE, Patience, begin
from .open_files import DataFile
from .pieces import Pieces, Start, StoredPieces
from .remote import RemoteFile, has_cached_parts
from .remote_content import LARGEST_RANGE, Span, is_checked_by_reads, read_spans, request_for

FIRST_RANGE: Final = 1 << 18
"""Bytes of the first request; each is twice the one before, up to `LARGEST_RANGE`."""

MOST_ASKED: Final = 2
"""How many times the bytes that were read in a row are asked for ahead: who reads little asks for little."""

RANGES: Final = 4
"""Ranges that are asked for ahead, unless they would be smaller than `SMALL_RANGE`."""

SMALL_RANGE: Final = 1 << 20
"""Bytes; if a stream may not ask for as many ahead, it asks for nothing, and in the largest ranges for what it needs."""

UNIT: Final = 1 << 10
"""Bytes that count as one item where a cache asks what is needed when."""


@final
class _AskedAhead:
    """Bytes of a file that were asked for.

    Args:
      span: which.
      start: how many bytes of all files are before them.
      gate: lets so many requests be made at once.
    """

    def __init__(self, span: Span, start: int, gate: asyncio.Semaphore) -> None:
        self.start = start
        self.size = span.end - span.start
        self._patience = span.file.system.patience
        self._answers: SimpleQueue[bytes | None] = SimpleQueue()
        self._cancel = begin([request_for(span)], self._patience, self._note, gate)

    @property
    def end(self) -> int:
        """How many bytes of all files are before what follows."""
        return self.start + self.size

    def content(self) -> bytes | None:
        """The bytes, for the first who asks; None if they do not come."""
        try:
            return self._answers.get(timeout=self._patience.timeout + GRACE)
        except Empty:
            return None

    def give_up(self) -> None:
        """Need the bytes no longer."""
        with suppress(RuntimeError):  # the interpreter ends
            self._cancel()

    def _note(self, place: int, content: bytes | None) -> None:
        self._answers.put(content)


@final
class StoredFiles:
    """The bytes of ``files``, of each from some place to its end, file after file.

    Of remote files what comes next is asked for ahead, also of those that are opened later: as much as the
    storage option ``"ahead"`` says, for all of this process together. Files in a cache are fetched ahead by that.

    Args:
      files: as they were found.
      epochs: whether all bytes of the files are read, and again in each epoch, so that a cache may be told.
    """

    def __init__(self, files: Sequence[DataFile | RemoteFile], *, epochs: bool = False) -> None:
        self._files = files
        self._starts = list(accumulate([0, *(file.size for file in files)]))
        remote = (file.system.patience for file in files if isinstance(file, RemoteFile))
        self._patience = next(remote, Patience())
        # Bytes of all files before what is read next.
        self._place = 0
        # Invariant: these are in the order of the files, all end after `_place`, and none after `_end`.
        self._queue = deque[_AskedAhead]()
        self._end = 0
        self._range = FIRST_RANGE
        self._in_a_row = 0  # bytes that were read since some were passed over
        self._process = 0
        self._gate = asyncio.Semaphore()
        if epochs and any(map(has_cached_parts, files)):
            foreseeing.add(self)

    def open(self, number: int, start: int = 0) -> Pieces:
        """The file with this number from byte ``start`` on.

        Raises:
          MalformedItem: if it has changed since it was found.
          OSError: if it cannot be opened.
        """
        file = self._files[number]
        return (
            self.remote(number, start)
            if isinstance(file, RemoteFile)
            else StoredPieces(file, start)
        )

    def remote(self, number: int, start: int = 0) -> RemotePieces:
        """The remote file with this number; like `open`."""
        return RemotePieces(self._remote(number), start, partial(self.read, number))

    def read(self, number: int, start: int) -> bytes:
        """Some bytes of the remote file with this number, at least one, from ``start`` on, which lies within it.

        Raises:
          MalformedItem: if it has changed.
          ReadError: if it cannot be read.
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
        self._place += len(content)
        self._end = max(self._end, self._place)
        self._in_a_row += len(content)
        if self._place == self._starts[-1]:
            _reading.discard(self)
        return content

    def close(self) -> None:
        """Need nothing of what was asked for; may be called again."""
        foreseeing.discard(self)
        _reading.discard(self)
        self._begin_at(self._place)

    @property
    def held(self) -> int:
        """Bytes that were asked for ahead."""
        # Another thread may ask while the one that reads these files changes the queue.
        return sum(asked.size for asked in self._queue.copy())

    @property
    def position(self) -> int:
        """How much is behind the next byte, in units that a cache takes for items."""
        return self._place // UNIT

    @property
    def left(self) -> int:
        """How much is still to come, in the same units."""
        return self._starts[-1] // UNIT - self.position

    def horizon(self, most: int) -> int:
        """In how many of the same units ``most`` parts are, at least 1."""
        cache = next(file.system.cache for file in self._files if has_cached_parts(file))
        assert cache is not None
        return max(most * cache.part_bytes // UNIT, 1)

    def foreseen(self, start: int, stop: int) -> Iterator[PartUses]:
        """When each part of the files in a cache is needed from ``start`` to ``stop``, up to the end of the next epoch."""
        kept = np.flatnonzero([has_cached_parts(file) for file in self._files])
        files = [file for file in self._files if has_cached_parts(file)]
        starts = np.array(self._starts, np.int64)
        for epoch in range(2):
            begins = starts + epoch * starts[-1] - self._place
            # The parts of the other files are not even counted: there may be millions.
            near = (begins[kept + 1] > start * UNIT) & (begins[kept] < stop * UNIT)
            if near.any():
                (places,) = np.nonzero(near)
                uses = uses_in_order([files[place] for place in places], begins[kept[near]], UNIT)
                uses = uses_between(uses, start, stop)
                # All files are in use, also those that are needed later.
                yield uses._replace(files=files, file_of=places[uses.file_of])

    def __del__(self) -> None:
        # An iterator that is dropped in the middle of an epoch ends it.
        if hasattr(self, "_gate"):
            self._begin_at(self._place)

    def _remote(self, number: int) -> RemoteFile:
        file = self._files[number]
        assert isinstance(file, RemoteFile)
        return file

    def _begin_at(self, place: int) -> None:
        """Forget what was asked for and read; ``place`` is read next."""
        while self._queue:
            asked = self._queue.popleft()
            if self._process == os.getpid():  # it is not the child's matter
                asked.give_up()
        self._place = self._end = place
        self._range, self._in_a_row = FIRST_RANGE, 0

    def _go_to(self, place: int) -> None:
        """Let what comes next begin at ``place``."""
        if self._process != os.getpid():  # none of the answers reaches a process that was forked
            self._begin_at(place)
            self._process, self._gate = os.getpid(), asyncio.Semaphore(self._patience.at_once)
        while self._queue and self._queue[0].end <= place:
            self._queue.popleft().give_up()
        is_near = self._place <= place <= self._end + self._range
        if not is_near or (self._queue and place < self._queue[0].start):
            self._begin_at(place)
        if place != self._place:
            self._in_a_row = 0
        self._place, self._end = place, max(self._end, place)

    def _ask_ahead(self) -> None:
        """Ask for more of what follows, as far as that may be."""
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
        """Bytes that these files may ask for ahead while others are read; 0 if that would be too few."""
        share = self._patience.ahead // max(len(members(_reading)), 1)
        return share if share >= SMALL_RANGE else 0

    def _next_span(self) -> Span | None:
        """What follows all that was asked for; None if that is no remote file without a cache."""
        number = bisect_right(self._starts, self._end) - 1
        file = self._files[number] if number < len(self._files) else None
        if not isinstance(file, RemoteFile) or file.is_cached:
            return None
        return self._span(file, self._end - self._starts[number])

    def _span(self, file: RemoteFile, start: int) -> Span:
        """What is read of ``file`` at once from ``start`` on."""
        share, largest = self._share, LARGEST_RANGE
        if share and not file.is_cached:
            largest = min(max(share // RANGES, SMALL_RANGE), largest)
        return Span(file, start, min(start + min(self._range, largest), file.size))

    def _come(self) -> bytes | None:
        """The bytes that were asked for, from the place on; None if there are none."""
        if not self._queue or self._queue[0].start > self._place:
            return None
        asked = self._queue.popleft()
        content = asked.content()
        return None if content is None else content[self._place - asked.start :]


_reading: Final[WeakSet[StoredFiles]] = WeakSet()
"""Those in this process that are being read."""

if hasattr(os, "register_at_fork"):
    # What the parent reads takes nothing of what a child may ask for.
    os.register_at_fork(after_in_child=_reading.clear)


@final
class RemotePieces:
    """A remote file as it is stored, in the ranges in which it is read.

    Args:
      file: to read.
      start: bytes to leave out.
      read: returns some bytes from an offset on, at least one.

    Raises:
      MalformedItem: if it has changed since it was found.
      ReadError: if it cannot be reached.
    """

    def __init__(self, file: RemoteFile, start: int, read: Callable[[int], bytes]) -> None:
        self.size: int | None = file.size
        self._file = file
        self._read = read
        self._position = start  # of what comes after the buffer
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
        """Pass over ``size`` bytes; nothing more is read for that."""
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
