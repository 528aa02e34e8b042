"""Choose the parts to remove when there is no room."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, Final, final

import numpy as np

from .foresight import Foresight, code_of
from .plan import NextUses, PlanFile, plans_of_others
from .room import KeptPart, Victims

OFTEN: Final = 5.0
"""Seconds after which this process publishes its plan again."""

PASSING: Final = 8
"""One eighth of the room lets parts stay for a while that several processes read in order."""


@final
class Eviction:
    """Chooses the parts to remove, by the plans of all living processes.

    Attributes:
      has_unused: whether the folder had parts of files that no living process reads, at the last
        ranking.
      passing: bytes in which parts with an unknown next use stay for a while.

    Args:
      folder: of the cache.
      room: limit on the bytes of all parts.
      foresight: of this process.
    """

    def __init__(self, folder: str, room: int, foresight: Foresight) -> None:
        self.has_unused = True
        self._folder = folder
        self.passing = room // PASSING
        self._foresight = foresight
        self._plan_file = PlanFile(folder)
        self._contents: dict[str, int] = {}
        self._said = set[int]()  # the codes of the published contents
        self._published = -OFTEN
        # Reentrant, since a signal handler may read.
        self._lock = threading.RLock()

    def publish(self, files: Iterable[Any]) -> None:
        """Publish the plan of this process: at once for new ``files``, else at intervals.

        Raises:
          OSError: if the plan cannot be written.
        """
        with self._lock:  # all threads write one plan
            new = {file.content_name: code_of(file) for file in files}
            self._contents |= new
            now = time.monotonic()
            if not self._said.issuperset(new.values()) or now - self._published > OFTEN:
                self._published, uses = -OFTEN, self.own_uses
                self._plan_file.write(uses)  # after an error, the next call writes again
                self._published, self._said = now, set(uses.contents.tolist())

    def look(self) -> Ranking:
        """A ranking by the plans at the time of the first use."""
        return Ranking(self)

    def close(self) -> None:
        """Remove the plan of this process."""
        self._plan_file.close()

    @property
    def own_uses(self) -> NextUses:
        """The plan of this process."""
        uses = self._foresight.next_uses()
        contents = np.array(list(self._contents.values()), np.uint64)
        return uses._replace(contents=np.union1d(uses.contents, contents))

    @property
    def uses_of_others(self) -> list[NextUses]:
        """The plans of the other living processes."""
        return plans_of_others(self._folder, self._plan_file.name)


@final
class Ranking:
    """Ranks parts by their next use, as known at the first call."""

    def __init__(self, eviction: Eviction) -> None:
        self._eviction = eviction

    def only_unused(self, parts: Sequence[KeptPart]) -> Sequence[KeptPart]:
        """The ``parts`` of files without a living reader; see `Victims`."""
        return self._ranked(parts)[0]

    def needed_after(self, at: float) -> Victims:
        """`Victims` that are unused, of unknown next use, or needed later than in ``at`` items."""

        def victims(parts: Sequence[KeptPart]) -> Sequence[KeptPart]:
            unused, last_used, later = self._ranked(parts, at)
            return [*unused, *last_used, *later]

        return victims

    def next_use(self, code: int) -> float:
        """In how many items the part with this code is needed next; infinite if not known.

        The result is 0 if other processes use the cache: any of them may need the part at any time.
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
        """Unused parts, parts of unknown next use, and parts needed after ``at``, in this order."""
        uses = self._uses
        needed_at = uses.of(np.array([part.name.code for part in parts], np.uint64))
        contents = np.array([part.name.content_code for part in parts], np.uint64)
        read = np.isin(contents, uses.contents)
        used = np.array([part.used_ns for part in parts], np.int64)
        unused = [parts[place] for place in _sorted_by(used, ~read)]
        self._eviction.has_unused = bool(unused)
        # Parts of unknown next use: the last used first. If other processes read the same files in
        # order, the very last used parts may soon be needed, so these parts go last. Whole copies
        # are left out: a process with an open copy continues to read.
        whole = np.array([part.is_whole for part in parts], np.bool_)
        last_used = [parts[place] for place in _sorted_by(-used, read & ~whole & (needed_at < 0))]
        if self._others:
            sizes = np.cumsum([part.size for part in last_used])
            few = int(np.searchsorted(sizes, self._eviction.passing, side="right"))
            last_used = last_used[few:] + last_used[:few]
        later = [parts[place] for place in _sorted_by(-needed_at, read & (needed_at > at))]
        return unused, last_used, later


def _sorted_by(key: Any, chosen: Any) -> list[int]:
    """The ``chosen`` places in the order of ``key``; both arrays have shape (n,)."""
    (places,) = np.nonzero(chosen)
    ordered: list[int] = places[np.argsort(key[places], kind="stable")].tolist()
    return ordered
