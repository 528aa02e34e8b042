"""Note the stats of a run next to its checkpoints at each save, for people and plots."""

# The stats are taken with the state, in the thread of the loop, and written with the checkpoint, in
# the writer thread. A save begun again has the same line. Each rank has a separate file, since no
# file system appends the lines of several hosts to one file safely.

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, final

from ..core.best_effort import BestEffort
from ..core.run_counters import RunCounters
from .store import Store


@final
class StatsLog:
    """Appends a line of stats after each save.

    Args:
      store: of the lines.
      stats: returns the present stats.
      rank: of this process.
      ranks: number of ranks.
    """

    def __init__(
        self, store: Store, stats: Callable[[], Mapping[str, Any]], rank: int, ranks: int
    ) -> None:
        self._store = store
        self._stats = stats
        self._rank = rank
        self._ranks = ranks
        self._noted: Mapping[str, Any] = {}
        self._best_effort = BestEffort(f"stats lines of {store!r} are")

    def note(self, get_counters: Callable[[], RunCounters]) -> RunCounters | None:
        """The counters for the checkpoint being taken.

        None on failure. The stats are kept for its line.
        """
        self._noted = self._best_effort(self._stats, {})
        return self._best_effort(get_counters, None)

    def write(self, step: int, time: float) -> None:
        """Append the line of ``step``, saved at ``time``."""
        self._best_effort(partial(self._append, step, time), None)

    def _append(self, step: int, time: float) -> None:
        line = {
            "step": step,
            "time": time,
            "rank": self._rank,
            "ranks": self._ranks,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            **self._noted,
        }
        self._store.append_stats(json.dumps(line).encode() + b"\n")
