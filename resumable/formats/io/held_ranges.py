"""Read ranges of remote files, several at once, from bytes that were read ahead if possible."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import attrgetter
from typing import Final, NamedTuple, TypeAlias, final

import numpy as np
import numpy.typing as npt

from ...core.block import NO_INDICES, Indices
from ...file_cache.part_file import Content
from .remote import RemoteFile
from .remote_content import Span, read_spans

NEAR: Final = 1 << 16
"""Largest gap in bytes that takes less time to read than a separate request."""

HELD_BYTES: Final = 1 << 28
"""Most bytes that an iterator holds."""

Flags: TypeAlias = npt.NDArray[np.bool_]


class Ranges(NamedTuple):
    """Ranges of the bytes of a file; both arrays have shape (n,), int64."""

    starts: Indices
    stops: Indices

    @classmethod
    def of(cls, *ranges: tuple[int, int]) -> Ranges:
        """``ranges`` as arrays; each is a start and a stop."""
        starts, stops = np.array(ranges, np.int64).reshape(-1, 2).T
        return cls(starts, stops)

    def pairs(self) -> list[tuple[int, int]]:
        """Each range as a start and a stop."""
        return list(zip(self.starts.tolist(), self.stops.tolist(), strict=True))


@dataclass(eq=False)
class HeldRange:
    """A range of a file that was read ahead, and the items in the range.

    Args:
      span: the range.
      pieces: the bytes, one piece after the other.
      first: the index of the first item.
      last: the index of the last item.
      until: the place of the last use of an item.
    """

    span: Span
    pieces: list[Content]
    first: int = 0
    last: int = 0
    until: int = 0

    def __post_init__(self) -> None:
        lengths = map(len, self.pieces[:-1])
        self._begins = list(accumulate(lengths, initial=self.span.start))

    @property
    def size(self) -> int:
        """Bytes of the range."""
        return self.span.end - self.span.start

    def between(self, start: int, stop: int) -> bytes:
        """The bytes of the file from ``start`` to ``stop``, offsets within the range."""
        place = bisect_right(self._begins, start) - 1
        begin, content = self._begins[place], self.pieces[place]
        found = content[start - begin : stop - begin]
        if len(found) == stop - start:
            return found if isinstance(found, bytes) else bytes(found)
        return b"".join([found, self.between(begin + len(content), stop)])


@final
class HeldRanges:
    """Ranges of remote files that were read ahead, held until their last use; for one iterator.

    Attributes:
      most: bytes that may be held.
    """

    def __init__(self) -> None:
        self.most = HELD_BYTES
        # Invariant: the ranges are in the order of the items, and no two have an item in common.
        # All three fields are replaced, never changed, since another thread may be reading.
        self._held: list[HeldRange] = []
        self._by_file: dict[str, list[HeldRange]] = {}
        # The indices of the first and of the last item of each range.
        self._bounds = NO_INDICES, NO_INDICES

    def read(self, wanted: Sequence[tuple[RemoteFile, Ranges]]) -> list[list[bytes]]:
        """The bytes of ranges of several files.

        Ranges that are not held are read at the same time, neighbours in one request.

        Raises:
          MalformedItem: if a file has changed since the pipeline was built.
          ReadError: if a file cannot be read.
          FileNotFoundError: if a file no longer exists.
        """
        found, lacking = list[list[bytes | None]](), list[list[Span]]()
        for file, ranges in wanted:
            held = self._by_file.get(file.path, [])
            contents = [_between(held, *pair) for pair in ranges.pairs()]
            places = [place for place, content in enumerate(contents) if content is None]
            found.append(contents)
            lacking.append(_joined(file, ranges.starts[places], ranges.stops[places]))
        fetched = iter(read_spans([span for spans in lacking for span in spans]))
        complete: list[list[bytes]] = []
        for (_, ranges), contents, spans in zip(wanted, found, lacking, strict=True):
            read = [HeldRange(span, [next(fetched)]) for span in spans]
            pairs = zip(ranges.pairs(), contents, strict=True)
            complete.append([content or _between(read, *pair) or b"" for pair, content in pairs])
        return complete

    def holds_items(self, indices: Indices) -> Flags:
        """Whether the bytes of each item at ``indices``, shape (n,), are held, of the same shape."""
        firsts, lasts = self._bounds
        if not len(firsts):
            return np.zeros(len(indices), np.bool_)
        places = np.searchsorted(firsts, indices, side="right") - 1
        found: Flags = (places >= 0) & (lasts[places] >= indices)
        return found

    @property
    def free(self) -> int:
        """Bytes that may still be held."""
        return self.most - sum(each.size for each in self._held)

    def hold(self, ranges: Sequence[HeldRange]) -> None:
        """Hold ``ranges`` of items that are not held yet."""
        self._replace([*self._held, *ranges])

    def release(self, place: int) -> None:
        """Drop the ranges that are not used from ``place`` on."""
        if any(each.until < place for each in self._held):
            self._replace([each for each in self._held if each.until >= place])

    def begin_window(self, indices: Indices) -> Flags:
        """Start counting places at the items ``indices``, shape (n,), which come next.

        Returns whether each item is held, of the same shape.
        """
        found = self.holds_items(indices)
        (places,) = np.nonzero(found)
        ranges = np.searchsorted(self._bounds[0], indices[places], side="right") - 1
        last_use = np.full(len(self._held), -1)
        np.maximum.at(last_use, ranges, places)
        for each, place in zip(self._held, last_use.tolist(), strict=True):
            each.until = place
        self.release(0)
        return found

    def _replace(self, held: list[HeldRange]) -> None:
        held.sort(key=_FIRST)
        by_file: dict[str, list[HeldRange]] = {}
        for each in held:
            by_file.setdefault(each.span.file.path, []).append(each)
        for ranges in by_file.values():
            ranges.sort(key=_START)
        firsts, lasts = [each.first for each in held], [each.last for each in held]
        self._bounds = np.array(firsts, np.int64), np.array(lasts, np.int64)
        self._held, self._by_file = held, by_file


_FIRST: Final = attrgetter("first")
_START: Final = attrgetter("span.start")

NOTHING_HELD: Final = HeldRanges()


def _between(held: list[HeldRange], start: int, stop: int) -> bytes | None:
    """The bytes of a file from ``start`` to ``stop``; None unless a ``held`` range has all bytes."""
    place = bisect_right(held, start, key=_START) - 1
    if place < 0 or held[place].span.end < stop:
        return None
    return held[place].between(start, stop)


def _joined(file: RemoteFile, starts: Indices, stops: Indices) -> list[Span]:
    """Spans of ``file`` that contain the ranges, of shape (n,); neighbours share a span."""
    if not len(starts):
        return []
    order = np.argsort(starts, kind="stable")
    first = starts[order]
    reached = np.maximum.accumulate(stops[order])
    gaps = np.flatnonzero(first[1:] > reached[:-1] + NEAR) + 1
    spans = Ranges(first[[0, *gaps]], reached[[*(gaps - 1), -1]])
    return [Span(file, *pair) for pair in spans.pairs()]
