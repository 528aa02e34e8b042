"""Which parts go first when there is no room."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
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

    Args:
      folder: of the cache.
      room: bytes that all parts may take.
      foresight: of this process.
    """

    def __init__(self, folder: str, room: int, foresight: Foresight) -> None:
        self.has_unused = True
        self._folder = folder
        self._passing = room // PASSING
        self._foresight = foresight
        self._plan_file = PlanFile(folder)
        self._contents: dict[str, int] = {}
        self._published = -OFTEN

    def publish(self, files: Iterable[Any]) -> None:
        """Say what this process needs, which reads ``files`` now; not each time.

        Raises:
          OSError: if that cannot be written.
        """
        known = len(self._contents)
        for file in files:
            if file.content_name not in self._contents:
                self._contents[file.content_name] = code_of(file)
        now = time.monotonic()
        if len(self._contents) > known or now - self._published > OFTEN:
            self._published = now
            self._plan_file.write(self._own_uses())

    def only_unused(self, parts: Sequence[KeptPart]) -> Sequence[KeptPart]:
        """Of ``parts``, those of files that no living process reads; see `Victims`."""
        return self._in_order(parts, np.iinfo(np.int64).max, unknown=False)

    def needed_after(self, at: int) -> Victims:
        """Parts that are needed later than in ``at`` items, those needed last first."""
        return lambda parts: self._in_order(parts, at, unknown=True)

    def close(self) -> None:
        """Need nothing any longer."""
        self._plan_file.close()

    def abandon(self) -> None:
        """Let go of what a fork has inherited."""
        self._plan_file.abandon()

    def _own_uses(self) -> NextUses:
        uses = self._foresight.next_uses()
        contents = np.array(list(self._contents.values()), np.uint64)
        return uses._replace(contents=np.union1d(uses.contents, contents))

    def _in_order(self, parts: Sequence[KeptPart], at: int, *, unknown: bool) -> Sequence[KeptPart]:
        others = plans_of_others(self._folder, self._plan_file.name)
        uses = NextUses.joined([self._own_uses(), *others])
        needed_at = uses.of(np.array([part.name.code for part in parts], np.uint64))
        contents = np.array([part.name.content_code for part in parts], np.uint64)
        read = np.isin(contents, uses.contents)
        used = np.array([part.used_ns for part in parts], np.int64)
        unused = [parts[place] for place in _sorted_by(used, ~read)]
        self.has_unused = bool(unused)
        if not unknown:
            return unused
        # Of an unknown next use: the last used first. If others read the same files in order, they may
        # come to the very last ones in a moment.
        last_used = [parts[place] for place in _sorted_by(-used, read & (needed_at < 0))]
        if others:
            sizes = np.cumsum([part.size for part in last_used])
            few = int(np.searchsorted(sizes, self._passing, side="right"))
            last_used = last_used[few:] + last_used[:few]
        later = [parts[place] for place in _sorted_by(-needed_at, read & (needed_at > at))]
        return [*unused, *last_used, *later]


def _sorted_by(key: Any, chosen: Any) -> list[int]:
    """The places that are ``chosen``, in the order of ``key``; both of shape (n,)."""
    (places,) = np.nonzero(chosen)
    ordered: list[int] = places[np.argsort(key[places], kind="stable")].tolist()
    return ordered
