"""Which parts go first when there is no room."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import islice
from typing import Any, Final, final

import numpy as np

from .foresight import Foresight, code_of
from .plan import NextUses, PlanFile, plans_of_others
from .room import KeptPart, Victims

OFTEN: Final = 5.0
"""Seconds after which this process says again what it needs."""

PASSING: Final = 8
"""The share of the room in which parts that several processes read in order stay for a while."""


@final
class Eviction:
    """Chooses what to remove, by what this process and the other living ones need.

    Attributes:
      has_unused: whether there were parts of files that no living process reads.
      passing: bytes in which parts of an unknown next use stay for a while.

    Args:
      folder: of the cache.
      room: bytes that all parts may take.
      foresight: of this process.
    """

    def __init__(self, folder: str, room: int, foresight: Foresight) -> None:
        self.has_unused = True
        self._folder = folder
        self.passing = room // PASSING
        self._foresight = foresight
        self._plan_file = PlanFile(folder)
        self._contents: dict[str, int] = {}
        self._published_contents = 0  # how many of them there were at the last publication
        self._said = set[int]()  # the codes of the contents that others know to be in use
        self._published = -OFTEN
        # Reentrant, since a signal handler may read.
        self._lock = threading.RLock()

    def publish(self, files: Iterable[Any]) -> None:
        """Say what this process needs, which reads ``files`` now; not each time.

        Raises:
          OSError: if that cannot be written.
        """
        with self._lock:  # all threads write one plan
            self._publish(files)

    def _publish(self, files: Iterable[Any]) -> None:
        self._contents |= {file.content_name: code_of(file) for file in files}
        now = time.monotonic()
        if not self._said.issuperset(self._new_contents) or now - self._published > OFTEN:
            self._published, uses = now, self.own_uses
            self._plan_file.write(uses)
            self._said = set(uses.contents.tolist())
            self._published_contents = len(self._contents)

    def look(self) -> Ranking:
        """What is needed when, as far as it is known now."""
        return Ranking(self)

    def close(self) -> None:
        """Need nothing any longer."""
        self._plan_file.close()

    def abandon(self) -> None:
        """Let go of what a fork has inherited."""
        self._plan_file.abandon()

    @property
    def _new_contents(self) -> Iterable[int]:
        """The codes of the contents that have come since the last publication, the last one first."""
        count = len(self._contents) - self._published_contents
        return islice(reversed(self._contents.values()), count)

    @property
    def own_uses(self) -> NextUses:
        """What this process needs."""
        uses = self._foresight.next_uses()
        contents = np.array(list(self._contents.values()), np.uint64)
        return uses._replace(contents=np.union1d(uses.contents, contents))

    @property
    def uses_of_others(self) -> list[NextUses]:
        """What the other living processes need."""
        return plans_of_others(self._folder, self._plan_file.name)


@final
class Ranking:
    """Ranks parts by when they are needed, as far as it was known at the first question."""

    def __init__(self, eviction: Eviction) -> None:
        self._eviction = eviction

    def only_unused(self, parts: Sequence[KeptPart]) -> Sequence[KeptPart]:
        """Of ``parts``, those of files that no living process reads; see `Victims`."""
        return self._ranked(parts)[0]

    def needed_after(self, at: float) -> Victims:
        """Parts that are needed later than in ``at`` items, those needed last first."""

        def victims(parts: Sequence[KeptPart]) -> Sequence[KeptPart]:
            unused, last_used, later = self._ranked(parts, at)
            return [*unused, *last_used, *later]

        return victims

    def next_use(self, code: int) -> float:
        """In how many items the part with this code is needed, apart from now; infinite if nobody knows.

        If other processes use the cache, one of them may need it at any time.
        """
        if self._others:
            return 0
        (at,) = self._uses.of(np.array([code], np.uint64)).tolist()
        return math.inf if at < 0 else float(at)

    @cached_property
    def _others(self) -> list[NextUses]:
        return self._eviction.uses_of_others

    @cached_property
    def _uses(self) -> NextUses:
        return NextUses.joined([self._eviction.own_uses, *self._others])

    def _ranked(
        self, parts: Sequence[KeptPart], at: float = math.inf
    ) -> tuple[list[KeptPart], list[KeptPart], list[KeptPart]]:
        """Parts that nobody uses, those of an unknown next use, and those needed after ``at``; the first go first."""
        uses = self._uses
        needed_at = uses.of(np.array([part.name.code for part in parts], np.uint64))
        contents = np.array([part.name.content_code for part in parts], np.uint64)
        read = np.isin(contents, uses.contents)
        used = np.array([part.used_ns for part in parts], np.int64)
        unused = [parts[place] for place in _sorted_by(used, ~read)]
        self._eviction.has_unused = bool(unused)
        # Of an unknown next use: the last used first. If others read the same files in order, they may
        # come to the very last ones in a moment.
        # Whoever reads a file that has a copy goes on reading that.
        whole = np.array([part.is_whole for part in parts], np.bool_)
        last_used = [parts[place] for place in _sorted_by(-used, read & ~whole & (needed_at < 0))]
        if self._others:
            sizes = np.cumsum([part.size for part in last_used])
            few = int(np.searchsorted(sizes, self._eviction.passing, side="right"))
            last_used = last_used[few:] + last_used[:few]
        later = [parts[place] for place in _sorted_by(-needed_at, read & (needed_at > at))]
        return unused, last_used, later


def _sorted_by(key: Any, chosen: Any) -> list[int]:
    """The places that are ``chosen``, in the order of ``key``; both of shape (n,)."""
    (places,) = np.nonzero(chosen)
    ordered: list[int] = places[np.argsort(key[places], kind="stable")].tolist()
    return ordered
