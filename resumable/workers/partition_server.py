"""The function called by workers of partitions."""

# A task says after which item a partition continues, by an `AfterItem`, and how many items to
# deliver. So any worker can do the task, also the replacement of a dead worker. Usually the worker
# has done the partition's previous task, and still has the iterator, at exactly that item.
#
# With a user's executor, another process may continue a partition. The kept copy is then useless,
# and nothing reports the end of its run. A partition dropped too early is started again.

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import closing
from time import monotonic
from typing import Any, Final, final

from ..core.graph import without_threads
from ..core.stage import Stage
from ..state.value import State
from .running_partition import PartitionOutcome, PartitionTask, RunningPartition

MOST_RUNNING: Final = 1 << 14
MOST_RUNS: Final = 8
IDLE_SECONDS: Final = 60.0
"""Seconds after which the partitions of a run are dropped if only other runs were active."""


@final
class IdlePartitions:
    """Partitions positioned for their next task, up to `MOST_RUNNING` of `MOST_RUNS`."""

    def __init__(self) -> None:
        # By the name of the run and the number of the partition; the most recently used is at the
        # end.
        self._running: dict[tuple[str, int], RunningPartition] = {}
        # Time of each run's last work here, in monotonic seconds; the most recently used run is at
        # the end.
        self._used: dict[str, float] = {}
        self._lock = threading.Lock()

    def take(self, task: PartitionTask) -> RunningPartition | None:
        """The partition of ``task``, if kept here at the position of the task."""
        with self._lock:
            running = self._running.pop((task.run, task.number), None)
        if running is not None and running.made != task.position.made:
            running.close()
            return None
        return running

    def keep(self, task: PartitionTask, running: RunningPartition) -> None:
        """Keep the partition of ``task`` for its next task; close partitions beyond the limits."""
        dropped = []
        with self._lock:
            self._running[task.run, task.number] = running
            self._used.pop(task.run, None)
            now = self._used[task.run] = monotonic()
            oldest, used = next(iter(self._used.items()))
            while len(self._used) > MOST_RUNS or now - used >= IDLE_SECONDS:
                del self._used[oldest]
                keys = [key for key in self._running if key[0] == oldest]
                dropped += [self._running.pop(key) for key in keys]
                oldest, used = next(iter(self._used.items()))
            if len(self._running) > MOST_RUNNING:
                dropped.append(self._running.pop(next(iter(self._running))))
        for each in dropped:
            each.close()

    def close(self) -> None:
        """Close all partitions kept here."""
        with self._lock:
            running = list(self._running.values())
            self._running.clear()
        for each in running:
            each.close()


# In a process of a pool, which may live from run to run.
_kept_here = IdlePartitions()


@final
class PartitionServer:
    """Delivers the items of tasks.

    The runner keeps the partitions, so they are freed with the runner. A copy in another process
    may be made for each task; copies share the partitions of their process.

    Args:
      pipeline: makes the pipeline of a partition.
    """

    def __init__(self, pipeline: Callable[[int], Stage[Any]]) -> None:
        self._pipeline = pipeline
        self._kept = IdlePartitions()

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (self._pipeline,)

    def __repr__(self) -> str:
        # Shown in the error about failed pickling.
        return "the stages in the partitions"

    def __call__(self, task: PartitionTask) -> PartitionOutcome:
        """Deliver items, up to the first error.

        A long task is cut short, but delivers at least one item.
        """
        if task.log is not None and not os.path.exists(task.log):
            task = task._replace(log=None)  # the file is on another machine
        running = self._kept.take(task)
        if running is None:
            running = RunningPartition(self._pipeline(task.number), task)
        delivery = running.deliver(task.most, task.log)
        if delivery.end is None and delivery.failure is None:
            self._kept.keep(task, running)
        else:
            running.close()
        return delivery

    def close(self) -> None:
        """Close the partitions kept here."""
        self._kept.close()


def _arrived(pipeline: Callable[[int], Stage[Any]]) -> PartitionServer:
    """The copy of a runner in another process."""
    runner = PartitionServer(pipeline)
    runner._kept = _kept_here
    return runner


def state_at(pipeline: Callable[[int], Stage[Any]], task: PartitionTask) -> State:
    """The state of a partition at the position of ``task``; items since a state are made again."""
    if not task.position.beyond:
        return task.position.state()
    with closing(RunningPartition(without_threads(pipeline(task.number)), task)) as running:
        return running.get_state()
