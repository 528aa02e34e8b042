"""The function that workers of partitions call."""

# A task says after which item a partition is to go on, by an `AfterItem`, and how many items to deliver. So
# any worker can do it, also one that takes the place of a dead one. Usually the worker has done the
# partition's previous task, and still has its iterator, which stands after that very item.

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from typing import Any, final

from ..core.graph import without_threads
from ..core.stage import Stage
from ..state.value import State
from .idle_partitions import IdlePartitions
from .running_partition import Delivery, PartitionTask, RunningPartition

# In a process of a pool, which may live on from run to run.
_kept_here = IdlePartitions()


@final
class PartitionRunner:
    """Delivers the items of tasks.

    It keeps the partitions in itself, so that they are freed with it. A copy of it in another process may be
    made for each task, and keeps them in that process.

    Args:
      pipeline: makes the pipeline of a partition.
    """

    def __init__(self, pipeline: Callable[[int], Stage[Any]]) -> None:
        self._pipeline = pipeline
        self._kept = IdlePartitions()

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (self._pipeline,)

    def __repr__(self) -> str:
        # An error that it cannot be pickled names it.
        return "the stages in the partitions"

    def __call__(self, task: PartitionTask) -> Delivery:
        """Deliver items, up to the first that raises.

        A task is cut short when it takes long, but has at least one item.
        """
        if task.log is not None and not os.path.exists(task.log):
            task = task._replace(log=None)  # it is on another machine
        key = (task.run, task.number)
        running = self._kept.take(key, task.position.made)
        if running is None:
            running = RunningPartition(self._pipeline(task.number), task)
        delivery = running.deliver(task.most, task.log)
        if delivery.end is None and delivery.failure is None:
            self._kept.keep(key, running)
        else:
            running.close()
        return delivery

    def close(self) -> None:
        """Close the partitions that stand here."""
        self._kept.close()


def _arrived(pipeline: Callable[[int], Stage[Any]]) -> PartitionRunner:
    """The copy of a runner in another process."""
    runner = PartitionRunner(pipeline)
    runner._kept = _kept_here
    return runner


def state_at(pipeline: Callable[[int], Stage[Any]], task: PartitionTask) -> State:
    """The state of a partition at the position of ``task``; items after an earlier state are made again."""
    if not task.position.beyond:
        return task.position.state()
    with closing(RunningPartition(without_threads(pipeline(task.number)), task)) as running:
        return running.get_state()
