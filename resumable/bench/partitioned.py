"""Time and advise on stages in partitions, where a worker may run a whole partition."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Final

from ..core.graph import tuned, walk
from ..core.stage import Stage
from ..stages.partition import Partition

ONE_PROCESSOR: Final = (0.75, 1.25)
"""Threads with a total share in this range compute in turn: Python runs one thread at a time."""


def run_elsewhere(stage: Stage[Any]) -> dict[int, Partition[Any]]:
    """The partitions that processes run: no clock of this process measures the work."""
    return {
        number: found
        for number, (found, _) in enumerate(walk(stage))
        if isinstance(found, Partition) and found.workers and found.executor != "thread"
    }


def run_here(stage: Stage[Any]) -> Stage[Any]:
    """``stage``, with the partitions of `run_elsewhere` run by the loop itself."""
    by_the_loop = {"workers": 0, "executor": "thread"}
    return tuned(stage, dict.fromkeys(run_elsewhere(stage), by_the_loop))


def partition_of(above: Iterable[Stage[Any]]) -> Partition[Any] | None:
    """The partition among the stages after a stage, if any: its workers run the stage."""
    return next((later for later in above if isinstance(later, Partition)), None)


def advise_workers(partition: Partition[Any], *, waits: bool, cpu_share: float | None) -> str:
    """A hint for a partition whose stages are the bottleneck.

    Args:
      partition: the partition, with workers.
      waits: whether the stages mostly wait.
      cpu_share: the part of the time in which the process computed; None if unknown.
    """
    least, most = ONE_PROCESSOR
    most_workers = len(partition.numbers)
    call = f"partition({partition.count}, fn, workers=n"
    if not partition.workers:
        how = f"{call})" if waits else f'{call}, executor="process")'
        return f"Workers can run whole partitions: {how}, with n up to {most_workers}."
    if partition.executor == "thread" and cpu_share is not None and least <= cpu_share <= most:
        return (
            "The workers of its partitions are threads, which compute in Python in turn; processes "
            f'share the work: {call}, executor="process").'
        )
    enough = most_workers
    if partition.executor == "process":
        enough = min(enough, os.cpu_count() or 1)
    if partition.workers >= enough:
        return "Workers run its partitions, as many as there is room for: make its function faster."
    return f"Workers run its partitions: give partition more of them, up to {most_workers}."
