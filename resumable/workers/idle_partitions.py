"""Partitions that stand in a worker until their next task."""

from __future__ import annotations

import threading
from collections import OrderedDict
from time import monotonic
from typing import Final, TypeAlias, final

from .running_partition import RunningPartition

MOST_RUNNING: Final = 1 << 14
MOST_RUNS: Final = 8
IDLE_SECONDS: Final = 60.0
"""Seconds after which the partitions of a run are dropped if only other runs were at work meanwhile."""

Key: TypeAlias = tuple[str, int]
"""The run and the number of a partition."""


class _IdleRun:
    """The partitions of one run that are kept, at least one.

    Attributes:
      running: each by its number; the one used last is at the end.
      used: when the last one was kept, in monotonic seconds.
    """

    def __init__(self) -> None:
        self.running: dict[int, RunningPartition] = {}
        self.used = 0.0


@final
class IdlePartitions:
    """The partitions that stand where their next task begins, up to `MOST_RUNNING` of `MOST_RUNS`."""

    # Where the user's executor runs tasks, another process may go on with a partition. Then what stands here is
    # of no use any more, and nobody says when its run is over. What is dropped too early is started again.

    def __init__(self) -> None:
        # By its name; the run used last is at the end.
        self._runs: OrderedDict[str, _IdleRun] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, key: Key, made: int) -> RunningPartition | None:
        """The partition with this key, if it is here and has made so many items."""
        name, number = key
        with self._lock:
            running = self._remove(name, number)
        if running is not None and running.made != made:
            running.close()
            return None
        return running

    def keep(self, key: Key, running: RunningPartition) -> None:
        """Keep a partition for its next task."""
        name, number = key
        with self._lock:
            run = self._runs.setdefault(name, _IdleRun())
            self._runs.move_to_end(name)
            run.running[number], run.used = running, monotonic()
            dropped = self._remove_excess(run.used)
        for one in dropped:
            one.close()

    def _remove_excess(self, now: float) -> list[RunningPartition]:
        """Remove and return what is beyond the bounds."""
        dropped: list[RunningPartition] = []
        while True:
            name, oldest = next(iter(self._runs.items()))
            many = len(self._runs) > MOST_RUNS
            if not many and (len(self._runs) == 1 or now - oldest.used < IDLE_SECONDS):
                break
            dropped += self._runs.pop(name).running.values()
        if sum(len(run.running) for run in self._runs.values()) > MOST_RUNNING:
            name, oldest = next(iter(self._runs.items()))
            number, one = next(iter(oldest.running.items()))
            self._remove(name, number)
            dropped.append(one)
        return dropped

    def _remove(self, name: str, number: int) -> RunningPartition | None:
        """Remove and return a partition, if it is here; a run of which none is left is removed too."""
        run = self._runs.get(name) or _IdleRun()
        running = run.running.pop(number, None)
        if not run.running:
            self._runs.pop(name, None)
        return running

    def close(self) -> None:
        """Close all that are here."""
        with self._lock:
            running = [one for run in self._runs.values() for one in run.running.values()]
            self._runs.clear()
        for one in running:
            one.close()
