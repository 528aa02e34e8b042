"""Join claimed parts that are neighbours into one request, and write the fetched bytes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import accumulate
from typing import Any, Final, NamedTuple

from .claim import Claim
from .part_file import ForeignFile, Identity, PartName, finish_part
from .parts import CachedFile, Span

LARGEST_REQUEST: Final = 1 << 23
"""Most bytes of neighbouring parts in one request."""


class Fetch(NamedTuple):
    """A claimed part."""

    part: PartName
    file: CachedFile
    claim: Claim


class NeighbouringParts(NamedTuple):
    """Neighbouring parts of a file.

    Attributes:
      wanted: the bytes of all parts.
      fetches: the parts, in order.
    """

    wanted: Span
    fetches: list[Fetch]

    @property
    def job(self) -> FetchJob:
        """The job of fetching the parts, for another process."""
        claims = [fetch.claim for fetch in self.fetches]
        paths, sizes = [claim.path for claim in claims], [claim.size for claim in claims]
        return FetchJob(*self.wanted, paths, sizes)


class FetchJob(NamedTuple):
    """Bytes of a file, and the parts to write them to, claimed by the asking process.

    Attributes:
      file: a remote file.
      start: the first byte to fetch.
      end: the end of the bytes to fetch.
      paths: the files of the parts, in order.
      sizes: the number of bytes of each part.
    """

    file: Any
    start: int
    end: int
    paths: list[str]
    sizes: list[int]

    def split(self, content: bytes) -> list[bytes | memoryview]:
        """The contents of the parts."""
        if len(self.sizes) == 1:
            return [content]
        view = memoryview(content)
        return [
            view[end - size : end]
            for end, size in zip(accumulate(self.sizes), self.sizes, strict=True)
        ]

    def write(self, content: bytes) -> list[Identity]:
        """Write the parts in order until an error; returns the identities of the written parts."""
        written: list[Identity] = []
        # A reader of the other parts fetches them, and gets the error.
        with suppress(OSError, ForeignFile):
            for path, part in zip(self.paths, self.split(content), strict=True):
                written.append(finish_part(path, part))
        return written


def runs_of(fetches: Sequence[Fetch], part_bytes: int) -> list[NeighbouringParts]:
    """Requests for ``fetches``, in order; neighbouring parts share a request."""
    runs: list[NeighbouringParts] = []
    for fetch in fetches:
        start = fetch.part.number * part_bytes
        end = start + fetch.claim.size
        if runs:
            last, together = runs[-1]
            same = together[-1].part.content == fetch.part.content and last.end == start
            if same and end - last.start <= LARGEST_REQUEST:
                runs[-1] = NeighbouringParts(last._replace(end=end), [*together, fetch])
                continue
        runs.append(NeighbouringParts(Span(fetch.file, start, end), [fetch]))
    return runs
