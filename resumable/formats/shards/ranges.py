"""Read ranges of the files of shards: from a disk, or from several remote files at the same time."""

# The next range to read may depend on earlier bytes, as the place of a record depends on a header.
# So a reader of a shard is a generator: it yields ranges and is sent their bytes. The ranges of all
# waiting readers are requested over the network at once.

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TypeAlias, TypeVar

from ..data_files import AnyFile
from ..io.held_ranges import NOTHING_HELD, HeldRanges, Ranges
from ..io.open_files import DataFile, FileContent
from ..io.remote import RemoteFile

T = TypeVar("T")


Reading: TypeAlias = Generator[Ranges, list[bytes], T]
"""Yields ranges of one file, is sent their bytes, and returns a result."""


class RangedFile:
    """The file of a shard, as found when the pipeline was built."""

    def __init__(self, file: AnyFile) -> None:
        self.file = file
        self._content = FileContent(file) if isinstance(file, DataFile) else None

    def local(self, ranges: Ranges) -> list[bytes] | None:
        """The bytes of ``ranges``; None if the file is remote.

        Raises:
          MalformedItem: if the file has changed since the pipeline was built.
          OSError: if the file cannot be read.
        """
        if self._content is None:
            return None
        data = self._content.data()
        return [data[start:stop] for start, stop in ranges.pairs()]


def read_at_once(
    readings: Sequence[tuple[RangedFile, Reading[T]]], held: HeldRanges = NOTHING_HELD
) -> list[T]:
    """The result of each of ``readings``, from ranges ``held`` as far as possible.

    Raises:
      MalformedItem: if a file has changed since the pipeline was built.
      ReadError: if a remote file cannot be read.
      OSError: if a file cannot be read.
    """
    results: dict[int, T] = {}
    asked: dict[int, Ranges] = {}

    def go_on(place: int, content: list[bytes] | None) -> None:
        """Send ``content`` to a reading, and local bytes until the reading asks for remote bytes."""
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
