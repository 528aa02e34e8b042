"""How a run is doing, noted next to its checkpoints at each save: for people and their plots."""

# The stats are taken with the state, in the thread of the loop, and written with the checkpoint, in the
# thread that writes. A save that is begun again has the same line. Each rank has a file of its own, since no
# file system appends the lines of several hosts to one file safely.

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Mapping
from typing import Any, final

from ..core.run_counters import RunCounters
from .store import Store


@final
class StatsLog:
    """Appends a line of stats after each save.

    Args:
      store: that keeps the lines.
      stats: returns those of now.
      rank: that saves.
      ranks: how many save.
    """

    def __init__(
        self, store: Store, stats: Callable[[], Mapping[str, Any]], rank: int, ranks: int
    ) -> None:
        self._store = store
        self._stats = stats
        self._rank = rank
        self._ranks = ranks
        self._noted: Mapping[str, Any] = {}
        self._has_failed = False

    def note(self, get_counters: Callable[[], RunCounters]) -> RunCounters:
        """The counters for the checkpoint that is being taken, whose line is noted too."""
        self._noted = self._stats()
        return get_counters()

    def write(self, step: int, time: float) -> str | None:
        """Append the line of ``step``, saved at ``time``; returns what failed, the first time."""
        line = {
            "step": step,
            "time": time,
            "rank": self._rank,
            "ranks": self._ranks,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            **self._noted,
        }
        try:
            self._store.append_stats(json.dumps(line).encode() + b"\n")
        except Exception as error:  # a run need not end because of its stats
            if self._has_failed:
                return None
            self._has_failed = True
            return f"in {self._store!r}, how the run is doing could not be noted: {error}"
        return None
