"""Read runs of neighbouring remote records at once, and keep them until they are used."""

# Which items come next is known for up to 65,536 of them. Where neighbours of an item are used soon
# after it, as in a shuffle of blocks, they are read with it by one request, and kept: if each batch asked
# for its own items alone, a block would take as many requests as items. Runs are read in the order in
# which they are needed. How soon is soon enough follows from the memory: a run is cut where it would have
# to be kept for longer, down to single items.
#
# The first items that are asked for are read alone, so that a resume gets them at once.

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from operator import attrgetter
from typing import Final, NamedTuple, TypeAlias, final

import numpy as np
import numpy.typing as npt

from ..core.block import Indices
from ..file_cache.part_file import Content
from .io.open_files import ReadingAhead
from .io.remote_content import Span, is_fetched_ahead, read_pieces
from .record_file import AnyRecords
from .remote_records import RemoteRecords, read_remote

SMALL_GAP: Final = 1 << 13
"""Bytes between two records that are read with them."""
LARGEST_PIECE: Final = 1 << 23
"""Bytes above which a run is read by several requests, each when it is needed."""

MOST_REQUESTS: Final = 64
MOST_BYTES: Final = 1 << 26
"""Most requests made, and bytes read, at once."""
GROWTH: Final = 4
"""Each time, so many times as many requests as before are made, up to that limit."""

KEPT_BYTES: Final = 1 << 28
"""Bytes of records that an iterator keeps."""

MADE_AT_ONCE: Final = 512
BYTES_MADE_AT_ONCE: Final = 1 << 17
"""Most items, and bytes of them, that are made at once of what is kept; so many stay near the processor."""

Flags: TypeAlias = npt.NDArray[np.bool_]
Locate: TypeAlias = Callable[[Indices], tuple[Indices, Indices]]


@dataclass(eq=False)
class _ReadRecords:
    """Records that were read.

    Attributes:
      pieces: their bytes, one piece after the other.
      begins: where each piece begins in their file.
      first: the key of the first of them.
      last: the key of the last.
      until: the place at which one of them is used last.
    """

    pieces: list[Content]
    begins: list[int]
    first: int
    last: int
    until: int

    @property
    def size(self) -> int:
        """In bytes."""
        return sum(map(len, self.pieces))

    def cut_out(self, start: int, stop: int) -> bytes:
        """What is in the file from ``start`` to ``stop``."""
        place = bisect_right(self.begins, start) - 1
        begin, content = self.begins[place], self.pieces[place]
        found = content[start - begin : stop - begin]
        if len(found) == stop - start:
            return found if isinstance(found, bytes) else bytes(found)
        return b"".join([found, self.cut_out(begin + len(content), stop)])


class RecordLayout(NamedTuple):
    """Where the records of several files are among all of them.

    Attributes:
      files: of which some are remote.
      first_keys: for each file the number of its first record among those of all files, which is the
        key of that record; shape (files,), int64.
      remote_keys: the same by the URL of each remote file.
      are_remote: which files are remote, shape (files,).
      means: bytes of a record of each file, about; shape (files,), int64.
    """

    files: Sequence[AnyRecords]
    first_keys: Indices
    remote_keys: dict[str, int]
    are_remote: Flags
    means: Indices

    @classmethod
    def of(cls, files: Sequence[AnyRecords]) -> RecordLayout:
        """The layout of ``files``, at least one."""
        counts = [file.positions.records for file in files]
        first_keys = np.cumsum([0, *counts[:-1]], dtype=np.int64)
        are_remote = [isinstance(file, RemoteRecords) for file in files]
        remote_keys = {
            file.path: key
            for file, key, remote in zip(files, first_keys.tolist(), are_remote, strict=True)
            if remote
        }
        sizes = np.array([file.size for file in files], np.int64)
        means = np.maximum(sizes // np.maximum(counts, 1), 1)
        return cls(files, first_keys, remote_keys, np.array(are_remote), means)

    def cached_parts(self, files: Indices, numbers: Indices) -> Indices:
        """In which part of its file each record begins if a cache fetches the parts ahead, and else -1.

        Args:
          files: of the records, those of each file together, shape (n,).
          numbers: of the records there, shape (n,).
        """
        found, gather = np.full(len(files), -1, np.int64), object()
        cuts = np.flatnonzero(np.diff(files, prepend=-1, append=-1))
        for start, stop in pairwise(cuts.tolist()):
            records = self.files[files[start]]
            cache = records.file.cache if isinstance(records, RemoteRecords) else None
            if isinstance(records, RemoteRecords) and cache is not None and cache.read_ahead:
                found[start:stop] = (
                    records.bounds(numbers[start:stop], gather)[0] // cache.part_bytes
                )
        return found


@final
class KeptRuns:
    """Records of remote files, of which whole runs are read at once and kept; for one iterator.

    Args:
      layout: of the files.
      locate: returns for indices of items, shape (n,), the numbers of their files, and their numbers among
        all records of these; both of shape (n,).
    """

    def __init__(self, layout: RecordLayout, locate: Locate) -> None:
        self.layout = layout
        self.locate = locate
        # Invariant: sorted by their first keys, and no two have a record in common.
        self._kept: list[_ReadRecords] = []
        self._firsts: list[int] = []
        self._bytes = 0
        self.requests = 0  # how many were made the last time

    def planned(self, indices: Indices) -> Callable[[Indices, int], int]:
        """What `ReadAheadItems` asks how many items to make at once, for items at ``indices``, shape (n,)."""
        return _RunPlan(self, indices)

    def read(
        self, wanted: Sequence[tuple[RemoteRecords, Indices]], gather: object = None
    ) -> list[list[bytes]]:
        """What `read_remote` returns, from what is kept as far as possible; raises what that raises.

        Args:
          wanted: files, and the numbers of records in each, shape (n,), int64, at least one.
          gather: as for `read_remote`.
        """
        found: list[list[bytes]] = []
        missing: list[tuple[RemoteRecords, Indices]] = []
        places: list[tuple[int, list[int]]] = []
        for records, numbers in wanted:
            first = self.layout.remote_keys[records.path]
            kept = [self.with_record(first + number) for number in numbers.tolist()]
            found.append(_cut_out(records, numbers, kept, gather))
            lacking = [place for place, one in enumerate(kept) if one is None]
            if lacking:
                places.append((len(found) - 1, lacking))
                missing.append((records, numbers[lacking]))
        read_now = read_remote(missing, gather) if missing else []
        for (part, lacking), read in zip(places, read_now, strict=True):
            for place, data in zip(lacking, read, strict=True):
                found[part][place] = data
        return found

    def with_record(self, key: int) -> _ReadRecords | None:
        """What is kept that has the record with this key."""
        place = bisect_right(self._firsts, key) - 1
        if place < 0 or self._kept[place].last < key:
            return None
        return self._kept[place]

    def are_kept(self, keys: Indices) -> Flags:
        """Which of the records with ``keys``, shape (n,), are kept, of the same shape."""
        kept = list(self._kept)  # another thread may ask
        if not kept:
            return np.zeros(len(keys), np.bool_)
        places = np.searchsorted([one.first for one in kept], keys, side="right") - 1
        lasts = np.array([one.last for one in kept], np.int64)
        found: Flags = (places >= 0) & (lasts[places] >= keys)
        return found

    @property
    def free(self) -> int:
        """Bytes that may be kept further."""
        return KEPT_BYTES - self._bytes

    def keep(self, kept: list[_ReadRecords]) -> None:
        """Keep ``kept``, of which no record is kept."""
        self._kept += kept
        self._kept_changed()

    def release(self, place: int) -> None:
        """Drop what is not used from ``place`` on."""
        if any(one.until < place for one in self._kept):
            self._kept = [one for one in self._kept if one.until >= place]
            self._kept_changed()

    def move_to(self, keys: list[int]) -> list[bool]:
        """Count places anew: the records with ``keys`` come next. Returns which of them are kept."""
        for one in self._kept:
            one.until = -1
        found = list(map(self.with_record, keys))
        for place, kept in enumerate(found):
            if kept is not None:
                kept.until = place
        self.release(0)
        return [kept is not None for kept in found]

    def _kept_changed(self) -> None:
        self._kept.sort(key=attrgetter("first"))
        self._firsts = [one.first for one in self._kept]
        self._bytes = sum(one.size for one in self._kept)


class _RunParts(NamedTuple):
    """Parts of files to read, each by a request or a few, in the order in which they are needed.

    Attributes:
      files: the number of the file of each; all arrays have the shape (pieces,).
      firsts: the number of the first record.
      lasts: the number of the last record.
      begins: the place at which it is used first.
      ends: the place at which it is used last.
      sizes: bytes, about.
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

    def __init__(self, ahead: KeptRuns, indices: Indices) -> None:
        self._ahead = ahead
        self._indices = indices
        self._keys: list[int] | None = None  # of the record at each place, -1 if it is not remote
        self._pieces = _RunParts([], [], [], [], [], [])
        self._next = 0  # the first piece that was not read

    def __call__(self, rest: Indices, asked: int) -> int:
        """How many of the items at ``rest``, the last of the indices, to make; ``asked`` are needed."""
        ahead, place = self._ahead, len(self._indices) - len(rest)
        if not ahead.requests:
            ahead.requests = 1
            return asked
        with ReadingAhead():
            if self._keys is None:
                self._plan(place)
            assert self._keys is not None
            ahead.release(place)
            if not all(map(self._is_at_hand, range(place, min(place + asked, len(self._keys))))):
                self._read(place, asked)
            return self._at_hand(place, asked)
        return asked

    def _plan(self, place: int) -> None:
        """Say what is to be read from ``place`` on."""
        ahead = self._ahead
        files, numbers = ahead.locate(self._indices)
        keys = numbers + ahead.layout.first_keys[files]
        keys[~ahead.layout.are_remote[files]] = -1
        self._keys = keys.tolist()
        are_kept = np.array(ahead.move_to(self._keys))
        order = np.lexsort((np.arange(len(keys)), keys))
        order = order[order >= place]
        lacking = ((keys >= 0) & ~are_kept)[order]
        if lacking.any():
            self._pieces = self._cut(order, files[order], numbers[order], lacking)

    def _cut(self, places: Indices, files: Indices, numbers: Indices, lacking: Flags) -> _RunParts:
        """The pieces that have the records ``lacking``.

        Args:
          places: at which records are needed, in the order of the records.
          files: in which they are.
          numbers: of them there.
          lacking: which of them are to be read. All have the shape (n,).
        """
        layout = self._ahead.layout
        means = layout.means[files]
        parts = layout.cached_parts(files, numbers)
        gaps = (numbers[1:] - numbers[:-1] - 1) * means[1:]
        apart = (files[1:] != files[:-1]) | (gaps > SMALL_GAP) | ~lacking[1:] | ~lacking[:-1]
        waits = np.abs(np.diff(places))
        soon = int(KEPT_BYTES // means.min())
        while True:
            cuts = apart | (waits > soon)
            pieces = _pieces(places, files, numbers, means, parts, cuts, lacking)
            if not soon or _most_kept(pieces) <= KEPT_BYTES:
                return pieces
            soon //= 2

    def _read(self, place: int, asked: int) -> None:
        """Read the pieces that are needed next."""
        ahead, pieces = self._ahead, self._pieces
        most, read = GROWTH * ahead.requests, 0
        chosen: list[int] = []
        for number in range(self._next, len(pieces.files)):
            size, is_needed = pieces.sizes[number], pieces.begins[number] < place + asked
            is_many = len(chosen) >= most or read + size > MOST_BYTES
            if not is_needed and (is_many or self._is_fetched_ahead(number)):
                break
            if pieces.ends[number] >= place:
                chosen.append(number)
                read += size
        ahead.requests = min(max(len(chosen), most), MOST_REQUESTS // GROWTH)
        spans = self._spans(chosen)
        if spans:
            contents = read_pieces(spans)
            self._next = chosen[len(spans) - 1] + 1
            ahead.keep(list(map(self._kept_of, chosen, spans, contents)))

    def _is_fetched_ahead(self, number: int) -> bool:
        """Whether a cache fetches a piece before it is needed."""
        records = self._ahead.layout.files[self._pieces.files[number]]
        return isinstance(records, RemoteRecords) and is_fetched_ahead(
            records.file, self._pieces.sizes[number]
        )

    def _spans(self, chosen: list[int]) -> list[Span]:
        """The bytes of the first of the pieces ``chosen``, as many as may be kept."""
        files, pieces, gather = self._ahead.layout.files, self._pieces, object()
        spans, left = list[Span](), self._ahead.free
        for number in chosen:
            records = files[pieces.files[number]]
            assert isinstance(records, RemoteRecords)
            both = np.array([pieces.firsts[number], pieces.lasts[number]], np.int64)
            starts, stops = records.bounds(both, gather)
            span = Span(records.file, int(starts[0]), int(stops[1]))
            left -= span.end - span.start
            if left < 0:
                break
            spans.append(span)
        return spans

    def _kept_of(self, number: int, span: Span, content: list[Content]) -> _ReadRecords:
        pieces = self._pieces
        begins = list(accumulate(map(len, content[:-1]), initial=span.start))
        key = int(self._ahead.layout.first_keys[pieces.files[number]])
        first, last = key + pieces.firsts[number], key + pieces.lasts[number]
        return _ReadRecords(content, begins, first, last, pieces.ends[number])

    def _is_at_hand(self, place: int) -> bool:
        assert self._keys is not None
        key = self._keys[place]
        return key < 0 or self._ahead.with_record(key) is not None

    def _at_hand(self, place: int, asked: int) -> int:
        """How many items from ``place`` on can be made of what is kept, in multiples of ``asked``."""
        mean = int(self._ahead.layout.means.max())
        most = max(min(MADE_AT_ONCE, BYTES_MADE_AT_ONCE // mean) // asked, 1) * asked
        end = min(place + most, len(self._indices))
        count = next((at for at in range(place, end) if not self._is_at_hand(at)), end) - place
        return max(count // asked, 1) * asked


def _pieces(
    places: Indices,
    files: Indices,
    numbers: Indices,
    means: Indices,
    parts: Indices,
    apart: Flags,
    lacking: Flags,
) -> _RunParts:
    """The arguments of `_RunPlan._cut` as pieces, cut where ``apart`` says so, shape (n - 1,)."""
    starts = np.concatenate([[0], np.flatnonzero(apart) + 1])
    run = np.repeat(starts, np.diff([*starts, len(places)]))
    part = np.where(parts < 0, (numbers - numbers[run]) * means // LARGEST_PIECE, parts)
    starts = np.flatnonzero(np.diff(run, prepend=-1) | np.diff(part, prepend=-1))
    stops = np.append(starts[1:], len(places))
    begins, ends = np.minimum.reduceat(places, starts), np.maximum.reduceat(places, starts)
    sizes = (numbers[stops - 1] - numbers[starts] + 1) * means[starts]
    order = np.argsort(begins, kind="stable")
    order = order[lacking[starts[order]]]
    columns = files[starts], numbers[starts], numbers[stops - 1], begins, ends, sizes
    return _RunParts(*[column[order].tolist() for column in columns])


def _most_kept(pieces: _RunParts) -> int:
    """How many bytes of ``pieces`` must be kept at a time."""
    changes = np.zeros(max(pieces.ends) + 2, np.int64)
    np.add.at(changes, pieces.begins, pieces.sizes)
    np.subtract.at(changes, np.array(pieces.ends) + 1, pieces.sizes)
    return int(np.cumsum(changes).max())


def _cut_out(
    records: RemoteRecords, numbers: Indices, kept: list[_ReadRecords | None], gather: object
) -> list[bytes]:
    """The records ``numbers``, as far as they are ``kept``; those that are not are empty."""
    starts, stops = records.bounds(numbers, gather)
    found = [
        b"" if one is None else one.cut_out(start, stop)
        for one, start, stop in zip(kept, starts.tolist(), stops.tolist(), strict=True)
    ]
    return records.trimmed(found)
