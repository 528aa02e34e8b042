"""Read remote files through a cache."""

# A missing part is fetched whole if at least half of it is wanted now, or if there is free room.
# Otherwise only the wanted bytes are read, and nothing is kept. So once the cache is full, sparse
# reads fetch no more than without a cache, in any order.

from __future__ import annotations

import atexit
import os
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Final, Protocol, final

from ..core.home_process import in_forked_children
from ..core.process_counts import process_counts
from ..errors import ReadError
from .cache import FileCache
from .claim import Claim
from .contents import note_file
from .copies import Copies, WriteContent
from .eviction import Eviction
from .fetches import Fetch, runs_of
from .foresight import Foresight
from .part_file import Content, PartName
from .part_store import DiskFailure, PartStore, Refusal, on_disk
from .parts import CachedFile, PartCutter, Piece, Span, WantedPart
from .reading_ahead import WAIT, BackgroundReader, ReadAhead
from .working_set import advice_on

PAUSE: Final = 0.005
"""Seconds between two looks at a part that another process fetches."""

FULL_FOR: Final = 5.0
"""Seconds for which a full cache is taken to stay full."""


class UncachedReader(BackgroundReader, Protocol):
    """Reads remote files directly."""

    def read(self, wanted: Sequence[Span]) -> list[bytes]:
        """The ``wanted`` bytes of files, read at the same time; may raise errors of reading."""


@final
class CacheReader:
    """Reads through ``cache`` in this process."""

    def __init__(self, cache: FileCache) -> None:
        self._cache = cache
        self._cutter = PartCutter(cache.part_bytes)
        self._store = PartStore(cache.path, cache.max_bytes)
        self._foresight = Foresight(cache)
        self._eviction = Eviction(cache.path, cache.max_bytes, self._foresight)
        self._copies = Copies(cache.path, cache.max_bytes, self._eviction)
        self._ahead = ReadAhead(cache, self._store, self._foresight, self._eviction)
        self._noted: set[str] = set()
        self._full_until = 0.0
        self._is_off = self._has_warned = False
        self._compared: object = None  # the outlook that was compared with the room

    def read(
        self, wanted: Sequence[Span], reader: UncachedReader, *, whole: bool = False
    ) -> list[list[Content]]:
        """The ``wanted`` bytes of files, each span in some pieces, from the disk or by ``reader``.

        Args:
          wanted: bytes of files with a content name.
          reader: reads bytes that are not on the disk.
          whole: whether the rest of each part will be wanted too.

        Raises:
          ReadError: if the disk cannot be used, and the cache has ``on_full="error"``.
        """
        pieces: dict[PartName, Piece] = {}
        if not self._is_off:
            try:
                self._prepare({span.file.content_name: span.file for span in wanted})
                self._warn_if_small()
                reader.collect()
                needed = self._cutter.wanted_parts(wanted)
                for part, each in needed.items():
                    self._ahead.reach(part, each.total, reader)
                missing = self._read(needed, pieces)
                process_counts.cache_hits += len(pieces)
                process_counts.cache_misses += len(missing)
                self._fetch(missing, pieces, reader, whole)
                self._ahead.begin(reader)
            except DiskFailure as failure:
                self._refuse(failure.__cause__)
        found = [self._cutter.assembled(span, pieces) for span in wanted]
        gaps = [each for spans in found for each in spans if isinstance(each, Span)]
        filled = iter(reader.read(gaps))
        return [
            [next(filled) if isinstance(each, Span) else each for each in spans] for spans in found
        ]

    def copy_of(self, file: CachedFile, write: WriteContent) -> str | None:
        """The path of a whole copy of ``file``, made by ``write`` if missing; None without room.

        Raises:
          ReadError: if the disk cannot be used, and the cache has ``on_full="error"``.
          Exception: any error of ``write``.
        """
        if self._is_off:
            return None
        try:
            self._prepare({file.content_name: file})
            return self._copies.path_of(file, write)
        except DiskFailure as failure:
            self._refuse(failure.__cause__)
            return None

    def fetches_ahead(self, size: int) -> bool:
        """Whether a part with ``size`` needed bytes is fetched ahead."""
        part = self._cache.part_bytes
        return self._cache.read_ahead > 0 and (2 * size >= part or self._store.has_room(part))

    def close(self) -> None:
        """Remove the plan of this process."""
        self._eviction.close()

    def _prepare(self, files: dict[str, CachedFile]) -> None:
        """Note the ``files``, keyed by content name, and publish that this process reads them."""
        new = files.keys() - self._noted
        with on_disk():
            os.makedirs(self._cache.path, exist_ok=True)
            for name in new:
                note_file(self._cache.path, files[name])
            self._noted |= new
            self._eviction.publish(files[name] for name in new)

    def _warn_if_small(self) -> None:
        """Warn once if the orders in use need more bytes at a time than the cache has room for."""
        if self._has_warned or (outlook := self._foresight.look()) is self._compared:
            return
        self._compared, needed = outlook, outlook.working_set(self._cache)
        advice = advice_on(self._cache, needed)
        if advice:
            self._has_warned = True
            warnings.warn(
                f"an order has {needed:,} bytes of remote files in use at a time, and the cache in "
                f"{self._cache.path} has room for {self._cache.max_bytes:,}; {advice}",
                RuntimeWarning,
                stacklevel=2,
            )

    def _refuse(self, error: BaseException | None) -> None:
        """Raise a `ReadError`, or warn and continue without the cache, as ``on_full`` says."""
        message = (
            f"the cache in {self._cache.path} cannot be used: {error}; it needs a folder that may be "
            f"written to, with {self._cache.max_bytes} bytes of room"
        )
        if self._cache.on_full == "error":
            raise ReadError(message) from error
        self._is_off = True
        warnings.warn(f"{message}; reading without it", RuntimeWarning, stacklevel=2)

    def _fetch(
        self,
        missing: dict[PartName, WantedPart],
        pieces: dict[PartName, Piece],
        reader: UncachedReader,
        whole: bool,
    ) -> None:
        """Add ``missing`` parts that are worth room to ``pieces``, fetched here or elsewhere."""
        missing = {
            part: each
            for part, each in missing.items()
            if whole or 2 * each.total >= each.size or self._has_room_for(each)
        }
        deadline = time.monotonic() + WAIT
        while missing:
            missing = self._fetched(missing, pieces, reader, time.monotonic() < deadline)

    def _has_room_for(self, part: WantedPart) -> bool:
        """Whether there is room for a part with few wanted bytes."""
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
        """Fetch ``missing`` parts into ``pieces``; returns the parts fetched by other processes."""
        fetches, ranking = list[Fetch](), self._eviction.look()
        elsewhere: dict[PartName, WantedPart] = {}
        try:
            for name, needed in missing.items():
                dense = 2 * needed.total >= needed.size
                again = ranking.next_use(name.code) if dense else 0
                victims = ranking.needed_after(again) if dense else ranking.only_unused
                claim = self._store.claim(name, needed.size, victims)
                if isinstance(claim, Claim):
                    fetches.append(Fetch(name, needed.file, claim))
                elif claim is Refusal.ELSEWHERE and patient:
                    elsewhere[name] = needed
            runs = runs_of(fetches, self._cutter.part_bytes)
            contents = reader.read([run.wanted for run in runs])
            for run, content in zip(runs, contents, strict=True):
                for fetch, part in zip(run.fetches, run.job.split(content), strict=True):
                    pieces[fetch.part] = Piece(0, part)
                    self._store.commit(fetch.claim, part)
        finally:
            for fetch in fetches:
                fetch.claim.give_up()
        missing = self._read(elsewhere, pieces)
        if missing and not fetches:
            time.sleep(PAUSE)
        return missing

    def _read(
        self, needed: Mapping[PartName, WantedPart], pieces: dict[PartName, Piece]
    ) -> dict[PartName, WantedPart]:
        """Read the ``needed`` parts on the disk into ``pieces``; returns the other parts."""
        missing: dict[PartName, WantedPart] = {}
        for part, each in needed.items():
            data = self._store.read(part, each.size, each.start, each.end)
            if data is None:
                missing[part] = each
            else:
                pieces[part] = Piece(each.start, data)
        return missing


_readers: Final[dict[FileCache, CacheReader]] = {}
"""The readers of this process."""


def reader_of(cache: FileCache) -> CacheReader:
    """The reader of this process for ``cache``."""
    reader = _readers.get(cache)
    if reader is None:
        reader = _readers.setdefault(cache, CacheReader(cache))
    return reader


@atexit.register
def _close_all() -> None:
    for reader in list(_readers.values()):
        reader.close()


in_forked_children(_readers.clear)
