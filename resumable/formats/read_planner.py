"""Read remote items ahead of their turn: neighbours by one request, in the order of use."""

# Up to 65,536 of the next items are known. Neighbours that are used soon after each other, as in a
# shuffle of blocks, are read by one request and held: if each batch requested only its own items, a
# block would take as many requests as items. The limit on memory decides which uses are soon enough:
# a run of items is cut where it would be held for too long, down to single items.
#
# A plan assumes that all items of a file have the same length. The source gives the exact bytes of
# a run only when the run is read.
#
# The first requested items are read alone, so that a resume delivers items at once.

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias, final

import numpy as np

from ..core.block import Indices
from ..file_cache.reading import reader_of
from .ahead import Reach
from .data_files import AnyFile
from .io.held_ranges import Flags, HeldRange, HeldRanges, Ranges
from .io.open_files import ReadingAhead
from .io.remote import RemoteFile
from .io.remote_content import Span, read_pieces

SMALL_GAP: Final = 1 << 13
"""Largest gap in bytes between two items that are read by one request."""
LARGEST_RUN: Final = 1 << 23
"""Bytes above which a run is split; each part is read when its items are needed."""

MOST_REQUESTS: Final = 64
MOST_BYTES: Final = 1 << 26
"""Most requests made, and most bytes read, at once."""
GROWTH: Final = 4
"""Factor by which the number of requests grows each time, up to the limit."""

MADE_AT_ONCE: Final = 512
BYTES_MADE_AT_ONCE: Final = 1 << 17
"""Most items, and most bytes, made at once from held ranges, to stay in the processor's cache."""

RangesOf: TypeAlias = Callable[[int, Indices], tuple[Indices, Indices, Indices]]
"""The likely byte ranges of items of a file, known without reading.

Called with the file number and the numbers of the items in the file, shape (n,). Returns for each
range the place of its item among the numbers, the start, and the end.
"""

RangesOfItems: TypeAlias = Callable[[Sequence[tuple[int, Indices]]], Sequence[Ranges]]
"""The exact byte ranges of items, a range for each item.

Called with the number of each file and the numbers of items in the file, shape (n,). May read the
positions of the items from the files.
"""


class FileLayout(NamedTuple):
    """Where items are in several files, as far as is known without reading.

    Attributes:
      files: at least one.
      ends: item numbers at which the files end; all arrays have the shape (files,).
      begins: item numbers at which the files begin.
      are_remote: which files are remote.
      means: approximate bytes of an item of each file.
    """

    files: Sequence[AnyFile]
    ends: Indices
    begins: Indices
    are_remote: Flags
    means: Indices

    @classmethod
    def of(cls, files: Sequence[AnyFile], ends: Indices, begins: Indices) -> FileLayout:
        """The layout of ``files`` with items ``begins`` to ``ends``, both of shape (files,)."""
        sizes = np.array([file.size for file in files], np.int64)
        are_remote = np.array([isinstance(file, RemoteFile) for file in files])
        means = np.maximum(sizes // np.maximum(ends - begins, 1), 1)
        return cls(files, ends, begins, are_remote, means)


@final
class ReadPlanner:
    """Plans when to read which runs of items, and reads the runs; for one iterator.

    Args:
      layout: of the files.
      held: ranges that were read ahead.
      likely_ranges: returns a range for each item of a remote file; used to plan.
      ranges_of: returns the ranges of items of remote files; used to read.
    """

    def __init__(
        self,
        layout: FileLayout,
        held: HeldRanges,
        likely_ranges: RangesOf,
        ranges_of: RangesOfItems,
    ) -> None:
        self.layout = layout
        self.held = held
        self.likely_ranges = likely_ranges
        self.ranges_of = ranges_of
        self.requests = 0  # made the last time

    def plan(self, indices: Indices) -> Reach:
        """A `Reach` for the items at ``indices``, shape (n,), asked for some at a time."""
        return _RunPlan(self, indices)

    def run_parts(self, files: Indices, numbers: Indices) -> Indices:
        """The part of its file where each item begins, shape (n,); -1 unless a cache fetches ahead.

        Args:
          files: file number of each item, shape (n,); the items of a file are adjacent.
          numbers: of the items in their files, shape (n,).
        """
        found = np.full(len(files), -1, np.int64)
        cuts = np.flatnonzero(np.diff(files, prepend=-1, append=-1))
        for start, stop in pairwise(cuts.tolist()):
            place = int(files[start])
            cache = self.layout.files[place].cache
            if cache is not None and cache.read_ahead:
                _, starts, _ = self.likely_ranges(place, numbers[start:stop])
                found[start:stop] = starts // cache.part_bytes
        return found

    def is_fetched_ahead(self, place: int, size: int) -> bool:
        """Whether a cache fetches ``size`` bytes of the file at ``place`` ahead of their use."""
        cache = self.layout.files[place].cache
        return cache is not None and reader_of(cache).fetches_ahead(size)


class _Runs(NamedTuple):
    """Runs of items of one file each, in the order of first use.

    Attributes:
      files: the number of the file of each run; all lists have one entry per run.
      firsts: the number of the first item, within the file.
      lasts: the number of the last item.
      begins: the place at which the run is used first.
      ends: the place at which the run is used last.
      sizes: approximate bytes.
    """

    files: list[int]
    firsts: list[int]
    lasts: list[int]
    begins: list[int]
    ends: list[int]
    sizes: list[int]


@final
class _RunPlan:
    """What to read for items at ``indices``, shape (n,), and when."""

    def __init__(self, planner: ReadPlanner, indices: Indices) -> None:
        self._planner = planner
        self._indices = indices
        self._is_planned = False
        self._are_local = np.zeros(0, np.bool_)  # of the items at all places
        self._runs = _Runs([], [], [], [], [], [])
        self._next = 0  # the first run that was not read

    def __call__(self, rest: Indices, asked: int) -> int:
        """How many items of ``rest``, the tail of the indices, to make; ``asked`` are needed."""
        planner, place = self._planner, len(self._indices) - len(rest)
        if not planner.requests:
            planner.requests = 1
            return asked
        with ReadingAhead():
            if not self._is_planned:
                self._plan(place)
            planner.held.release(place)
            if self._at_hand(place, asked) < min(asked, len(rest)):
                self._read(place, asked)
            mean = int(planner.layout.means.max())
            most = max(min(MADE_AT_ONCE, BYTES_MADE_AT_ONCE // mean) // asked, 1)
            return max(self._at_hand(place, most * asked) // asked, 1) * asked
        return asked

    def _plan(self, place: int) -> None:
        """Plan the runs to read from ``place`` on."""
        layout, indices = self._planner.layout, self._indices
        files = np.searchsorted(layout.ends, indices, side="right")
        self._are_local = ~layout.are_remote[files]
        self._is_planned = True
        is_at_hand = self._planner.held.begin_window(indices) | self._are_local
        order = np.argsort(indices, kind="stable")
        order = order[order >= place]
        lacking = ~is_at_hand[order]
        if lacking.any():
            files = files[order]
            self._runs = self._cut(order, files, indices[order] - layout.begins[files], lacking)

    def _cut(self, places: Indices, files: Indices, numbers: Indices, lacking: Flags) -> _Runs:
        """The runs with the items ``lacking``.

        Args:
          places: at which the items are needed, in the order of the items, shape (n,).
          files: numbers of the items' files, shape (n,).
          numbers: of the items within their files, shape (n,).
          lacking: whether each item is to be read, shape (n,).
        """
        means, most = self._planner.layout.means[files], self._planner.held.most
        parts = self._planner.run_parts(files, numbers)
        gaps = (numbers[1:] - numbers[:-1] - 1) * means[1:]
        apart = (files[1:] != files[:-1]) | (gaps > SMALL_GAP) | ~lacking[1:] | ~lacking[:-1]
        waits = np.abs(np.diff(places))
        soon = int(most // means.min())
        while True:
            cuts = apart | (waits > soon)
            runs = _runs(places, files, numbers, means, parts, cuts, lacking)
            if not soon or _most_held(runs) <= most:
                return runs
            soon //= 2

    def _read(self, place: int, asked: int) -> None:
        """Read the next runs."""
        planner, runs = self._planner, self._runs
        most, read = GROWTH * planner.requests, 0
        chosen: list[int] = []
        for number in range(self._next, len(runs.files)):
            size, is_needed = runs.sizes[number], runs.begins[number] < place + asked
            is_many = len(chosen) >= most or read + size > MOST_BYTES
            if not is_needed and (is_many or planner.is_fetched_ahead(runs.files[number], size)):
                break
            if runs.ends[number] >= place:
                chosen.append(number)
                read += size
        planner.requests = min(max(len(chosen), most), MOST_REQUESTS // GROWTH)
        spans = self._spans(chosen)
        if spans:
            contents = read_pieces(spans)
            self._next = chosen[len(spans) - 1] + 1
            planner.held.hold(
                [
                    HeldRange(span, pieces, *self._items(number), runs.ends[number])
                    for number, span, pieces in zip(chosen, spans, contents, strict=False)
                ]
            )

    def _spans(self, chosen: list[int]) -> list[Span]:
        """The spans of the runs ``chosen``, in order, as many as may be held."""
        files, runs = self._planner.layout.files, self._runs
        by_file: dict[int, list[int]] = {}
        for number in chosen:
            by_file.setdefault(runs.files[number], []).append(number)
        wanted = [
            (place, np.array([[runs.firsts[each], runs.lasts[each]] for each in there]).ravel())
            for place, there in by_file.items()
        ]
        bounds: dict[int, tuple[int, int]] = {}
        for ranges, there in zip(self._planner.ranges_of(wanted), by_file.values(), strict=True):
            starts, stops = ranges.starts[::2].tolist(), ranges.stops[1::2].tolist()
            bounds |= zip(there, zip(starts, stops, strict=True), strict=True)
        spans, left = list[Span](), self._planner.held.free
        for number in chosen:
            start, stop = bounds[number]
            left -= max(stop - start, 0)
            if left < 0:
                break
            spans.append(Span(files[runs.files[number]], start, max(start, stop)))
        return spans

    def _items(self, number: int) -> tuple[int, int]:
        """The indices of the first and of the last item of a run."""
        begin = int(self._planner.layout.begins[self._runs.files[number]])
        return begin + self._runs.firsts[number], begin + self._runs.lasts[number]

    def _at_hand(self, place: int, most: int) -> int:
        """How many items from ``place`` on, up to ``most``, can be made without further reads."""
        end = min(place + most, len(self._indices))
        held = self._planner.held.holds_items(self._indices[place:end])
        (lacking,) = np.nonzero(~(held | self._are_local[place:end]))
        return int(lacking[0]) if len(lacking) else end - place


def _runs(
    places: Indices,
    files: Indices,
    numbers: Indices,
    means: Indices,
    parts: Indices,
    apart: Flags,
    lacking: Flags,
) -> _Runs:
    """The arguments of `_RunPlan._cut` as runs, cut where ``apart``, shape (n - 1,), is true."""
    starts = np.concatenate([[0], np.flatnonzero(apart) + 1])
    run = np.repeat(starts, np.diff([*starts, len(places)]))
    part = np.where(parts < 0, (numbers - numbers[run]) * means // LARGEST_RUN, parts)
    starts = np.flatnonzero(np.diff(run, prepend=-1) | np.diff(part, prepend=-1))
    stops = np.append(starts[1:], len(places))
    begins, ends = np.minimum.reduceat(places, starts), np.maximum.reduceat(places, starts)
    sizes = (numbers[stops - 1] - numbers[starts] + 1) * means[starts]
    order = np.argsort(begins, kind="stable")
    order = order[lacking[starts[order]]]
    columns = files[starts], numbers[starts], numbers[stops - 1], begins, ends, sizes
    return _Runs(*[column[order].tolist() for column in columns])


def _most_held(runs: _Runs) -> int:
    """The most bytes of ``runs`` that must be held at a time."""
    changes = np.zeros(max(runs.ends) + 2, np.int64)
    np.add.at(changes, runs.begins, runs.sizes)
    np.subtract.at(changes, np.array(runs.ends) + 1, runs.sizes)
    return int(np.cumsum(changes).max())
