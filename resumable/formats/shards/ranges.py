"""Read ranges of the files of shards: from a disk, or of several remote ones at the same time."""

# What must be read next may depend on what was read before, as the place of a record on a header. So
# whoever reads a shard is a generator that asks for ranges and is sent their bytes, and the ranges that
# several of them ask for go over the network at once.

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TypeAlias, TypeVar

from ..data_files import AnyFile
from ..io.held_ranges import NOTHING_HELD, HeldRanges, Ranges
from ..io.open_files import DataFile, FileContent
from ..io.remote import RemoteFile

T = TypeVar("T")


Reading: TypeAlias = Generator[Ranges, list[bytes], T]
"""Asks for ranges of one file, is sent their bytes, and returns what it has made of them."""


class RangedFile:
    """A file of a shard, as it was found when a pipeline was built."""

    def __init__(self, file: AnyFile) -> None:
        self.file = file
        self._content = FileContent(file) if isinstance(file, DataFile) else None

    def local(self, ranges: Ranges) -> list[bytes] | None:
        """The bytes of ``ranges``; None if the file is remote.

        Raises:
          MalformedItem: if it has changed since it was found.
          OSError: if it cannot be read.
        """
        if self._content is None:
            return None
        data = self._content.data()
        return [data[start:stop] for start, stop in ranges.pairs()]


def read_at_once(
    readings: Sequence[tuple[RangedFile, Reading[T]]], held: HeldRanges = NOTHING_HELD
) -> list[T]:
    """What each of ``readings`` returns, from what is ``held`` as far as possible.

    Raises:
      MalformedItem: if a file has changed since it was found.
      ReadError: if a remote one cannot be read.
      OSError: if one cannot be read.
    """
    results: dict[int, T] = {}
    asked: dict[int, Ranges] = {}

    def go_on(place: int, content: list[bytes] | None) -> None:
        """Send ``content`` to a reading until it asks for what is remote."""
        file, reading = readings[place]
        try:
            ranges = next(reading) if content is None else reading.send(content)
            while (local := file.local(ranges)) is not None:
                ranges = reading.send(local)
        except StopIteration as ended:
            results[place] = ended.value
        else:
            asked[place] = ranges

    for place in range(len(readings)):
        go_on(place, None)
    while asked:
        waiting = dict(asked)
        asked.clear()
        fetched = held.read(
            [(_remote(readings[place][0]), each) for place, each in waiting.items()]
        )
        for place, content in zip(waiting, fetched, strict=True):
            go_on(place, content)
    return [results[place] for place in range(len(readings))]


def _remote(shard: RangedFile) -> RemoteFile:
    assert not isinstance(shard.file, DataFile)
    return shard.file
