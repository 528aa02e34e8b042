"""Read ranges of the files of shards: from a disk, or from several remote files at the same time."""

# The next range to read may depend on earlier bytes, as the place of a record depends on a header.
# So a reader of a shard is a generator: it yields ranges and is sent their bytes. The ranges of all
# waiting readers are requested over the network at once.

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TypeAlias, TypeVar

from ..io.held_ranges import NOTHING_HELD, HeldRanges, Ranges
from ..io.open_files import FileContent
from ..io.remote import RemoteFile

T = TypeVar("T")


Reading: TypeAlias = Generator[Ranges, list[bytes], T]
"""Yields ranges of one file, is sent their bytes, and returns a result."""


def read_at_once(
    readings: Sequence[tuple[FileContent | RemoteFile, Reading[T]]],
    held: HeldRanges = NOTHING_HELD,
) -> list[T]:
    """The result of each of ``readings``, from ranges ``held`` as far as possible.

    Args:
      readings: each with its file.
      held: ranges of remote files that were read ahead.

    Raises:
      MalformedItem: if a file has changed since the pipeline was built.
      ReadError: if a remote file cannot be read.
      OSError: if a file cannot be read.
    """
    results: dict[int, T] = {}
    asked: dict[int, Ranges] = {}

    def advance(place: int, content: list[bytes] | None) -> None:
        """Send ``content`` to a reading, and local bytes until the reading asks for remote bytes."""
        file, reading = readings[place]
        try:
            ranges = next(reading) if content is None else reading.send(content)
            while isinstance(file, FileContent):
                data = file.data()
                ranges = reading.send([data[start:stop] for start, stop in ranges.pairs()])
        except StopIteration as ended:
            results[place] = ended.value
        else:
            asked[place] = ranges

    for place in range(len(readings)):
        advance(place, None)
    while asked:
        waiting, wanted = list(asked), list[tuple[RemoteFile, Ranges]]()
        for place, ranges in asked.items():
            file = readings[place][0]
            assert isinstance(file, RemoteFile)
            wanted.append((file, ranges))
        asked.clear()
        for place, content in zip(waiting, held.read(wanted), strict=True):
            advance(place, content)
    return [results[place] for place in range(len(readings))]
