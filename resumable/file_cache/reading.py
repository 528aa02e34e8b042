"""Read remote files through a cache."""

# A part that is not there is fetched whole if much of it is wanted now, or if there is room for it
# anyway; else just the wanted bytes are read, and nothing is kept. So whatever the order, no more is
# fetched than without a cache once it is full.

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from threading import Event
from typing import Final, NamedTuple, Protocol, TypeAlias, final

from ..core.process_counts import process_counts
from ..errors import ReadError
from .cache import FileCache
from .claim import Claim
from .contents import note_file
from .eviction import Eviction
from .foresight import Foresight
from .part_file import PartName
from .part_store import DiskFailure, PartStore, Refusal, on_disk
from .parts import ByteRange, CachedFile, PartCutter, Piece, WantedBytes, WantedPart

LARGEST_REQUEST: Final = 1 << 23
"""Bytes of neighbouring parts that are asked for at once."""

PAUSE: Final = 0.005
WAIT: Final = 30.0
"""Seconds between two looks at a part that another process fetches, and until it is fetched here too."""

FULL_FOR: Final = 5.0
"""Seconds for which a cache that had no room is taken to have none."""


Done: TypeAlias = Callable[[int, "bytes | None"], None]


class UncachedReader(Protocol):
    """The way to the remote files."""

    def read(self, wanted: Sequence[WantedBytes]) -> list[bytes]:
        """``wanted`` bytes of files, read at the same time; raises what reading raises."""

    def begin(self, wanted: Sequence[WantedBytes], done: Done) -> None:
        """Begin to read.

        In another thread ``done`` is called with the place of each of ``wanted``, and its bytes, or None if
        they could not be read.
        """


class _Fetch(NamedTuple):
    """A part that was claimed, to be fetched."""

    part: PartName
    file: CachedFile
    claim: Claim


@final
class CacheReader:
    """Reads through ``cache`` in this process."""

    def __init__(self, cache: FileCache) -> None:
        self._cache = cache
        self._cutter = PartCutter(cache.part_bytes)
        self._store = PartStore(cache.path, cache.max_bytes)
        self._foresight = Foresight(cache)
        self._eviction = Eviction(cache.path, cache.max_bytes, self._foresight)
        self._in_flight: dict[PartName, Event] = {}
        self._noted: set[str] = set()
        self._full_until = 0.0
        self._is_off = False

    def read(
        self, wanted: Sequence[WantedBytes], reader: UncachedReader, *, whole: bool = False
    ) -> list[bytes]:
        """``wanted`` bytes of files, from the disk or by ``reader``.

        Args:
          wanted: bytes of files that have a content name.
          reader: reads what is not on the disk.
          whole: whether the rest of each part will be wanted too.

        Raises:
          ReadError: if the disk cannot be used, and that is to be an error.
        """
        pieces: dict[PartName, Piece] = {}
        if not self._is_off:
            try:
                self._prepare(wanted)
                pieces = self._pieces(wanted, reader, whole)
                self._fetch_ahead(reader)
            except DiskFailure as failure:
                self._refuse(failure.__cause__)
        gaps = [gap for span in wanted for gap in self._cutter.gaps(span, pieces)]
        filled = iter(reader.read(gaps))
        return [self._cutter.joined(span, pieces, filled) for span in wanted]

    def close(self) -> None:
        """Need nothing any longer."""
        self._eviction.close()

    def abandon(self) -> None:
        """Let go of what a fork has inherited."""
        self._eviction.abandon()

    def _prepare(self, wanted: Sequence[WantedBytes]) -> None:
        files = {span.file.content_name: span.file for span in wanted}
        new = files.keys() - self._noted
        with on_disk():
            os.makedirs(self._cache.path, exist_ok=True)
            for name in new:
                note_file(self._cache.path, files[name])
            self._noted |= new
            self._eviction.publish(files[name] for name in new)

    def _refuse(self, error: BaseException | None) -> None:
        """Raise that the disk cannot be used, or go on without it after one warning."""
        message = (
            f"the cache in {self._cache.path} cannot be used: {error}; it needs a folder that may be "
            f"written to, with {self._cache.max_bytes} bytes of room"
        )
        if self._cache.on_full == "error":
            raise ReadError(message) from error
        self._is_off = True
        warnings.warn(f"{message}; reading without it", RuntimeWarning, stacklevel=2)

    def _pieces(
        self, wanted: Sequence[WantedBytes], reader: UncachedReader, whole: bool
    ) -> dict[PartName, Piece]:
        """What is on the disk, or is fetched now; the rest is to be read without the cache."""
        pieces: dict[PartName, Piece] = {}
        missing: dict[PartName, WantedPart] = {}
        for part, needed in self._cutter.wanted_parts(wanted).items():
            self._foresight.note_read(part.code, needed.total)
            ahead = self._in_flight.get(part)
            if ahead is not None:
                ahead.wait(WAIT)
            data = self._store.read(part, needed.size, needed.start, needed.end)
            if data is not None:
                process_counts.cache_hits += 1
                pieces[part] = Piece(needed.start, data)
                continue
            process_counts.cache_misses += 1
            if whole or 2 * needed.total >= needed.size or self._has_room_for(needed):
                missing[part] = needed
        deadline = time.monotonic() + WAIT
        while missing:
            missing = self._fetched(missing, pieces, reader, time.monotonic() < deadline)
        return pieces

    def _has_room_for(self, part: WantedPart) -> bool:
        """Whether there is room for a part of which little is wanted now."""
        if time.monotonic() < self._full_until:
            return False
        if self._store.has_room(part.size) or self._eviction.has_unused:
            return True
        self._full_until = time.monotonic() + FULL_FOR
        return False

    def _fetched(
        self,
        missing: dict[PartName, WantedPart],
        pieces: dict[PartName, Piece],
        reader: UncachedReader,
        patient: bool,
    ) -> dict[PartName, WantedPart]:
        """Fetch what is ``missing`` into ``pieces``; returns what others fetch meanwhile."""
        fetches, ranking = list[_Fetch](), self._eviction.look()
        elsewhere: dict[PartName, WantedPart] = {}
        try:
            for part, needed in missing.items():
                dense = 2 * needed.total >= needed.size
                again = ranking.next_use(part.code) if dense else 0
                victims = ranking.needed_after(again) if dense else ranking.only_unused
                claim = self._store.claim(part, needed.size, victims)
                if isinstance(claim, Claim):
                    fetches.append(_Fetch(part, needed.file, claim))
                elif claim is Refusal.ELSEWHERE and patient:
                    elsewhere[part] = needed
            contents = self._read_runs(fetches, reader)
            for fetch, content in zip(fetches, contents, strict=True):
                pieces[fetch.part] = Piece(0, content)
                self._store.commit(fetch.claim, content)
        finally:
            for fetch in fetches:
                self._store.give_up(fetch.claim)
        return self._still_missing(elsewhere, pieces, waits=not fetches)

    def _still_missing(
        self, elsewhere: dict[PartName, WantedPart], pieces: dict[PartName, Piece], waits: bool
    ) -> dict[PartName, WantedPart]:
        """Look for the parts that others fetch; returns those that are not there yet."""
        missing: dict[PartName, WantedPart] = {}
        for part, needed in elsewhere.items():
            data = self._store.read(part, needed.size, needed.start, needed.end)
            if data is None:
                missing[part] = needed
            else:
                pieces[part] = Piece(needed.start, data)
        if missing and waits:
            time.sleep(PAUSE)
        return missing

    def _read_runs(self, fetches: Sequence[_Fetch], reader: UncachedReader) -> list[bytes]:
        """The contents of parts, neighbours in one request."""
        runs = self._runs(fetches)
        data = reader.read([run for run, _ in runs])
        contents: list[bytes] = []
        for (_, parts), content in zip(runs, data, strict=True):
            contents += self._split(content, parts)
        return contents

    def _runs(self, fetches: Sequence[_Fetch]) -> list[tuple[ByteRange, list[_Fetch]]]:
        """Requests for parts, in their order; neighbours are asked for together."""
        runs: list[tuple[ByteRange, list[_Fetch]]] = []
        for fetch in fetches:
            start = fetch.part.number * self._cutter.part_bytes
            end = start + fetch.claim.size
            if runs:
                last, together = runs[-1]
                same = together[-1].part.content == fetch.part.content and last.end == start
                if same and end - last.start <= LARGEST_REQUEST:
                    runs[-1] = last._replace(end=end), [*together, fetch]
                    continue
            runs.append((ByteRange(fetch.file, start, end), [fetch]))
        return runs

    def _split(self, content: bytes, fetches: Sequence[_Fetch]) -> Iterable[bytes]:
        if len(fetches) == 1:
            return [content]
        size = self._cutter.part_bytes
        return [content[start : start + size] for start in range(0, len(content), size)]

    def _fetch_ahead(self, reader: UncachedReader) -> None:
        """Begin to fetch the parts that are needed next and are not there."""
        # What is fetched ahead takes the place of what would be kept.
        ahead = min(self._cache.read_ahead, self._cache.max_bytes // 4)
        most = ahead - len(self._in_flight) * self._cache.part_bytes
        if 2 * most < ahead or not most:
            return
        fetches, ranking = list[_Fetch](), self._eviction.look()
        try:
            for needed in self._foresight.upcoming(ahead):
                size = self._cutter.size_of(needed.file, needed.number)
                part = PartName(needed.file.content_name, needed.number)
                few = 2 * needed.bytes < size
                if few or part in self._in_flight or self._store.has(part):
                    continue
                if most < size:
                    break
                claim = self._store.claim(part, size, ranking.needed_after(needed.at))
                if claim is Refusal.NO_ROOM:
                    break
                if isinstance(claim, Claim):
                    most -= size
                    fetches.append(_Fetch(part, needed.file, claim))
                    self._in_flight[part] = Event()
            runs = self._runs(fetches)
            if runs:
                done = partial(self._keep, [parts for _, parts in runs])
                reader.begin([run for run, _ in runs], done)
        except BaseException:
            self._end(fetches)
            raise

    def _keep(self, runs: Sequence[Sequence[_Fetch]], place: int, content: bytes | None) -> None:
        """Keep what was fetched ahead. Whoever wants a part that failed fetches it again, and gets the error."""
        fetches = runs[place]
        contents = [] if content is None else self._split(content, fetches)
        try:
            for fetch, part in zip(fetches, contents, strict=False):
                self._store.commit(fetch.claim, part)
        except DiskFailure:
            pass
        finally:
            self._end(fetches)

    def _end(self, fetches: Sequence[_Fetch]) -> None:
        """Nothing of ``fetches`` is in flight any longer."""
        for fetch in fetches:
            self._store.give_up(fetch.claim)
            event = self._in_flight.pop(fetch.part, None)
            if event is not None:
                event.set()
