"""Remote files that stand in memory, the way to them, and iterators that know what they will need."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np

from resumable.core.block import Indices
from resumable.core.foreseen import PartUses, foreseeing
from resumable.file_cache import parts
from resumable.file_cache.cache import FileCache
from resumable.file_cache.fetches import FetchJob
from resumable.file_cache.reading import CacheReader
from resumable.file_cache.reading_ahead import Settled

PART = 1 << 16


@dataclass(frozen=True)
class File:
    """A remote file."""

    path: str
    content: bytes = field(repr=False)

    @property
    def size(self) -> int:
        return len(self.content)

    @cached_property
    def content_name(self) -> str:
        return hashlib.blake2b(self.path.encode() + self.content, digest_size=16).hexdigest()


class Span(parts.Span):
    """Bytes of a file that stands in memory."""

    @property
    def data(self) -> bytes:
        content: bytes = self.file.content
        return content[self.start : self.end]


class Network:
    """The way to the files; it counts.

    Attributes:
      fetched: what was read, in order.
      fails: whether reading raises.
    """

    def __init__(self) -> None:
        self.fetched: list[Span] = []
        self.fails = False

    def read(self, wanted: Sequence[Any]) -> list[bytes]:
        if self.fails and wanted:
            raise ConnectionError("the network is down")
        self.fetched += [Span(*span) for span in wanted]
        return [Span(*span).data for span in wanted]

    def begin(self, jobs: Sequence[FetchJob], settled: Settled) -> None:
        for place, job in enumerate(jobs):
            span = Span(job.file, job.start, job.end)
            settled(place, [] if self.fails else job.write(self.read([span])[0]))

    def collect(self) -> None: ...

    def wait(self, event: Event, seconds: float) -> None:
        event.wait(seconds)

    @property
    def bytes(self) -> int:
        return sum(span.end - span.start for span in self.fetched)


class Order:
    """Reads whole parts of files, in an order that changes from epoch to epoch."""

    def __init__(self, cache: FileCache, files: Sequence[File], epochs: Sequence[Indices]) -> None:
        self.cache, self.files = cache, files
        self._epochs = epochs
        self._ends = np.cumsum([-(-file.size // PART) for file in files])

    def spans(self) -> Iterator[Span]:
        """What it reads; it moves on before each."""
        for epoch in range(len(self._epochs)):
            coming = np.concatenate(self._epochs[epoch : epoch + 2])
            self._iterator = OneEpoch(self, coming, len(self._epochs[epoch]))
            for position, number in enumerate(self._epochs[epoch].tolist()):
                self._iterator.position = position
                yield self.span(number)

    def span(self, number: int) -> Span:
        """The part with this number among those of all files."""
        place = int(np.searchsorted(self._ends, number, side="right"))
        file, first = self.files[place], int(self._ends[place - 1]) if place else 0
        start = (number - first) * PART
        return Span(file, start, min(start + PART, file.size))


class OneEpoch:
    """An iterator that reads the parts ``coming`` one by one."""

    def __init__(self, order: Order, coming: Indices, length: int) -> None:
        self.position = 0
        self._order, self._coming, self._length = order, coming, length
        foreseeing.add(self)

    @property
    def left(self) -> int:
        return self._length - self.position

    def horizon(self, most: int) -> int:
        return most

    def foreseen(self, start: int, stop: int) -> Iterator[PartUses]:
        numbers = self._coming[self.position + start : self.position + stop].tolist()
        spans = [self._order.span(number) for number in numbers]
        file_of = np.array([self._order.files.index(span.file) for span in spans], np.int64)
        parts = np.array([span.start // PART for span in spans], np.int64)
        sizes = np.array([span.end - span.start for span in spans], np.int64)
        at = np.arange(len(numbers))
        yield PartUses(self._order.cache, self._order.files, file_of, parts, sizes, at)


def some_files(*sizes: int) -> list[File]:
    """Files of these sizes, each with another content."""
    return [
        File(f"s3://bucket/{place}", np.random.default_rng(place).bytes(size))
        for place, size in enumerate(sizes)
    ]


def kept_bytes(folder: Path) -> int:
    """What all files of parts and all copies take, also those that are being written."""
    total = 0
    for path in [*folder.rglob("*.part*"), *folder.rglob("*.copy"), *folder.rglob("*.copy.tmp")]:
        with suppress(FileNotFoundError):  # another process has removed it
            total += path.lstat().st_size
    return total


class JoiningReader:
    """A reader of a cache whose pieces are joined."""

    def __init__(self, cache: FileCache) -> None:
        self.reader = CacheReader(cache)
        self.close = self.reader.close

    def read(self, wanted: Any, network: Network, *, whole: bool = False) -> list[bytes]:
        return [b"".join(each) for each in self.reader.read(wanted, network, whole=whole)]


def opened(cache: FileCache) -> JoiningReader:
    """Another reader of the same cache, as another process has one."""
    return JoiningReader(cache)
