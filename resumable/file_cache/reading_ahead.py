"""Fetch the next parts ahead of their use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from threading import Event
from typing import Final, Protocol, TypeAlias, final

from .cache import FileCache
from .claim import Claim
from .eviction import Eviction
from .fetches import Fetch, FetchJob, NeighbouringParts, runs_of
from .foresight import Foresight
from .part_file import Identity, PartName
from .part_store import PartStore, Refusal
from .parts import PartCutter

WAIT: Final = 30.0
"""Seconds to wait for a part in flight before it is fetched once more."""

LOOKS: Final = 8
"""Looks at the next parts per amount read, where the amount is the limit of read-ahead."""

Settled: TypeAlias = Callable[[int, Sequence[Identity]], None]


class BackgroundReader(Protocol):
    """Fetches parts of remote files in the background."""

    def begin(self, jobs: Sequence[FetchJob], settled: Settled) -> None:
        """Begin to fetch and write the parts of ``jobs``.

        ``settled`` is called once per job, in any thread, with the place of the job and the
        identities of the written parts: of all parts, or of the first few.
        """

    def collect(self) -> None:
        """Call ``settled`` for all jobs that are done."""

    def wait(self, event: Event, seconds: float) -> None:
        """Wait until a call of ``settled`` has set ``event``, for at most ``seconds``."""


@final
class ReadAhead:
    """Fetches the next parts by `Foresight`, as far as there is room."""

    def __init__(
        self, cache: FileCache, store: PartStore, foresight: Foresight, eviction: Eviction
    ) -> None:
        # Parts fetched ahead take room from kept parts.
        self._most = min(cache.read_ahead, cache.max_bytes // 4)
        self._cutter = PartCutter(cache.part_bytes)
        self._store = store
        self._foresight = foresight
        self._eviction = eviction
        self._in_flight: dict[PartName, Event] = {}
        # Bytes read since the last look, and the outlook of this look; another object if there was
        # more to fetch.
        self._read_since, self._outlook = 0, object()

    def reach(self, part: PartName, size: int, reader: BackgroundReader) -> None:
        """Note that ``size`` bytes of ``part`` are read; wait if this process is fetching it ahead."""
        self._foresight.note_read(part.code, size)
        self._read_since += size
        event = self._in_flight.get(part)
        if event is not None:
            reader.wait(event, WAIT)

    def begin(self, reader: BackgroundReader) -> None:
        """Begin to fetch the next missing parts."""
        left = self._most - len(self._in_flight) * self._cutter.part_bytes
        if 2 * left < self._most or not left:
            return
        outlook = self._foresight.look()
        if outlook is self._outlook and LOOKS * self._read_since < self._most:
            return
        fetches, ranking = list[Fetch](), self._eviction.look()
        self._read_since, self._outlook = 0, outlook
        try:
            for needed in self._foresight.upcoming(self._most):
                size = self._cutter.size_of(needed.file, needed.number)
                part = PartName(needed.file.content_name, needed.number)
                few = 2 * needed.bytes < size
                if part in self._in_flight or self._store.has(part):
                    continue
                if few and not self._store.has_room(size):
                    continue
                if left < size:
                    self._outlook = object()  # there is more to fetch
                    break
                victims = ranking.only_unused if few else ranking.needed_after(needed.at)
                claim = self._store.claim(part, size, victims)
                if claim is Refusal.NO_ROOM:
                    break
                if isinstance(claim, Claim):
                    left -= size
                    fetches.append(Fetch(part, needed.file, claim))
                    self._in_flight[part] = Event()
            runs = runs_of(fetches, self._cutter.part_bytes)
            if runs:
                reader.begin([run.job for run in runs], partial(self._settle, runs))
        except BaseException:
            self._give_up(fetches)
            raise

    def _settle(
        self, runs: Sequence[NeighbouringParts], place: int, written: Sequence[Identity]
    ) -> None:
        """Note the ``written`` parts of a run.

        A reader of a failed part fetches the part again, and gets the error.
        """
        fetches = runs[place].fetches
        for fetch, identity in zip(fetches, written, strict=False):
            self._store.end(fetch.claim, identity)
        self._give_up(fetches)

    def _give_up(self, fetches: Sequence[Fetch]) -> None:
        """Remove ``fetches`` from the parts in flight."""
        for fetch in fetches:
            fetch.claim.give_up()
            event = self._in_flight.pop(fetch.part, None)
            if event is not None:
                event.set()
