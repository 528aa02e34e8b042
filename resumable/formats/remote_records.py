"""Read records of remote files by number, and others ahead where that takes few requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias, final

import numpy as np

from ..core.block import Indices
from .index.record_index import RecordIndex
from .io.remote import RemoteFile
from .io.remote_content import Span, read_spans

NEAR: Final = 1 << 16
"""Bytes between two records that take less time than a request of their own."""

MOST_REQUESTS: Final = 64
MOST_BYTES_AHEAD: Final = 1 << 26
"""Most requests made, and bytes read, to read records ahead of their turn."""

GROWTH: Final = 4
LARGEST_RUN: Final = 1 << 16
"""Each time, this many times as many records as before may be read ahead, up to a limit."""


class RemoteRecords(NamedTuple):
    """A remote file and the index of its records, as found when the pipeline was built.

    Attributes:
      path: its URL.
      size: in bytes.
      file: to read.
      positions: the index: where records end, and which are passed over.
    """

    path: str
    size: int
    file: RemoteFile
    positions: RecordIndex

    def bounds(self, numbers: Indices, gather: object = None) -> tuple[Indices, Indices]:
        """Where the records with ``numbers``, shape (n,), begin and end in the file."""
        ends = self.positions.ends(numbers, gather)
        return np.where(numbers > 0, ends[numbers - 1], 0), ends[numbers]

    def trimmed(self, found: list[bytes]) -> list[bytes]:
        """The records ``found`` as they are handed out."""
        return found


def read_remote(
    wanted: Sequence[tuple[RemoteRecords, Indices]], gather: object = None
) -> list[list[bytes]]:
    """Records of several files, read at the same time; neighbours in one request.

    Args:
      wanted: files, and the numbers of records in each, shape (n,), int64, at least one.
      gather: an index file is checked once for each such object, or each time for None.

    Returns:
      for each of ``wanted`` its records.

    Raises:
      MalformedItem: if a file has changed since the pipeline was built.
      ReadError: if one cannot be read.
      FileNotFoundError: if one is no longer there.
    """
    cuts = [_cut(records, numbers, gather) for records, numbers in wanted]
    contents = iter(read_spans([span for cut in cuts for span in cut.spans]))
    return [
        records.trimmed(cut.of([next(contents) for _ in cut.spans]))
        for (records, _), cut in zip(wanted, cuts, strict=True)
    ]


ReadRemote: TypeAlias = Callable[
    [Sequence[tuple[RemoteRecords, Indices]], object], list[list[bytes]]
]
"""A function such as `read_remote`."""


class Cut(NamedTuple):
    """Ranges of a file as parts of what is read.

    Attributes:
      spans: to read.
      parts: for each range which span it is in, and where it begins and ends there.
    """

    spans: list[Span]
    parts: list[tuple[int, int, int]]

    def of(self, contents: list[bytes]) -> list[bytes]:
        """The ranges in the ``contents`` of the spans."""
        return [contents[number][start:stop] for number, start, stop in self.parts]


def _cut(records: RemoteRecords, numbers: Indices, gather: object) -> Cut:
    return cut_ranges(records.file, *records.bounds(numbers, gather))


def cut_ranges(file: RemoteFile, starts: Indices, stops: Indices) -> Cut:
    """The ranges of ``file`` from ``starts`` to ``stops``, both of shape (n,); neighbours are read as one."""
    if not len(starts):
        return Cut([], [])
    order = np.argsort(starts, kind="stable")
    first = starts[order]
    reached = np.maximum.accumulate(stops[order])
    gaps = np.flatnonzero(first[1:] > reached[:-1] + NEAR) + 1
    begins, ends = first[[0, *gaps]], reached[[*(gaps - 1), -1]]
    spans = [
        Span(file, begin, end) for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
    ]
    inside = np.searchsorted(begins, starts, side="right") - 1
    parts = zip(
        inside.tolist(),
        (starts - begins[inside]).tolist(),
        (stops - begins[inside]).tolist(),
        strict=True,
    )
    return Cut(spans, list(parts))


@final
class FewRequests:
    """How many items to read at once: as many as few requests bring, and more each time.

    Args:
      ends: item numbers at which the files end, shape (files,), int64.
      mean: bytes of an item, about.
    """

    def __init__(self, ends: Indices, mean: int) -> None:
        self._ends = ends
        self._mean = mean
        self._most = 0

    def __call__(self, indices: Indices, asked: int) -> int:
        """How many of the items at ``indices``, shape (n,), to read; ``asked`` are needed."""
        most = min(self._most, MOST_BYTES_AHEAD // self._mean, len(indices))
        self._most = min(GROWTH * max(self._most, asked), LARGEST_RUN)
        # A multiple of ``asked``, so that a caller who takes as many each time finds them all.
        count = asked * max(most // asked, 1)
        while count > asked and not self._are_few(indices[:count]):
            count = asked * (count // asked // 2)
        return count

    def _are_few(self, indices: Indices) -> bool:
        numbers = np.sort(indices)
        steps = np.diff(numbers)
        far = steps[steps > NEAR // self._mean + 1]
        files = np.unique(np.searchsorted(self._ends, numbers, side="right"))
        read = int(numbers[-1] - numbers[0] + 1 - (far - 1).sum())
        return len(far) + len(files) <= MOST_REQUESTS and read * self._mean <= MOST_BYTES_AHEAD
