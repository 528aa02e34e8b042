"""One pool of processes for each map in the function of a partition, for all partitions of a rank."""

# A map has an iterator in each partition. Each iterator gets a `PoolShare`, for sending chunks to
# the single pool of the map. The pool belongs to the `MapPools` of the iterator of the partitions.
#
# A dying process takes the chunks of all partitions with it. So a chunk to be tried alone goes to a
# separate pool of one process: the item of this chunk causes any death there.

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final, final
from weakref import WeakSet

from ..core import Block, Stage
from ..core.weak_sets import members
from ..workers.answers import Job
from ..workers.chunk_work import Outcome
from ..workers.idle_workers import IdleWorkers, WorkerSource
from ..workers.threads import PATIENCE
from ..workers.worker_call import make_workers
from ..workers.workers import WorkerCall, Workers, close_all
from .map import CallsInWorkers
from .part import down_to_parts

MOST_WINDOWS: Final = 8
"""Most partitions whose windows get memory shared with the processes of a pool."""


def maps_with_processes(stage: Stage[Any]) -> Iterator[CallsInWorkers[Any]]:
    """The maps with processes in the pipeline of a partition."""
    for found in down_to_parts(stage):
        if isinstance(found, CallsInWorkers) and found.workers and found.executor == "process":
            yield found


@final
class MapPools(WorkerSource):
    """The pools of the maps of all partitions; each pool starts with its first chunk.

    Several threads may use the pools: each partition may be read ahead by a thread.

    Args:
      maps: the maps with processes, from the pipeline of one partition.
      partitions: number of participating partitions.
    """

    def __init__(self, maps: list[CallsInWorkers[Any]], partitions: int) -> None:
        self._maps = maps
        self._windows = min(partitions, MOST_WINDOWS)
        self._pools: dict[int, Workers] = {}  # by the number of the map
        self._own_idle = IdleWorkers()
        self._source: WorkerSource = self._own_idle
        self._closed = False

    def use_workers_of(self, source: WorkerSource) -> None:
        """Take pools from ``source``, and put them back at the end; call before the first item."""
        self._source = source

    @property
    def closed(self) -> bool:
        return self._closed or self._source.closed

    def take(self, stage: Stage[Any], call: WorkerCall, window: int) -> Workers:
        number = self._map_number(stage)
        if number is None:
            return self._source.take(stage, call, window)
        if number not in self._pools:
            made = self._source.take(self._maps[number], call, window * self._windows)
            self._pools.setdefault(number, made)  # its processes start only with the first chunk
        return PoolShare(self._pools[number], call)

    def put(self, stage: Stage[Any], workers: Workers) -> None:
        if isinstance(workers, PoolShare):
            workers.close()
        else:
            self._source.put(stage, workers)

    def release(self) -> None:
        """Leave the pools for the next epoch, or close them if no epoch follows."""
        while self._pools:
            number, workers = self._pools.popitem()
            self._source.put(self._maps[number], workers)
        if self._source is self._own_idle:
            self._own_idle.close()

    def stop_keeping(self) -> None:
        """From now on, close returned workers."""
        self._closed = True

    def close(self) -> None:
        """Close the pools; may be called again."""
        self._closed = True
        self._own_idle.close()
        pools = list(self._pools.values())
        self._pools.clear()
        close_all(pools)

    def _map_number(self, stage: Stage[Any]) -> int | None:
        """The number of the map copied by ``stage``; None if ``stage`` copies no map."""
        for number, known in enumerate(self._maps):
            if isinstance(stage, type(known)) and _is_same_call(known, stage):
                return number
        return None


def _is_same_call(one: CallsInWorkers[Any], other: CallsInWorkers[Any]) -> bool:
    """Whether the workers of ``one``, of the same class, can do the calls of ``other``."""
    return (
        one.fn is other.fn
        and (one.workers, one.executor, one.on_error)
        == (other.workers, other.executor, other.on_error)
        and (one.on_skip is None) == (other.on_skip is None)
    )


@final
class PoolShare(Workers):
    """One partition's share of a pool for several partitions."""

    die_together = True

    def __init__(self, pool: Workers, call: WorkerCall) -> None:
        self._pool = pool
        self._call = call
        self._submitted: WeakSet[Job[Outcome]] = WeakSet()
        self._alone: Workers | None = None

    @property
    def chunk_size(self) -> int:  # type: ignore[override]
        return self._pool.chunk_size

    def submit(self, block: Block) -> Job[Outcome]:
        if self._alone is not None:  # the chunk tried alone is done
            self._alone.stop()
            self._alone = None
        return self._noted(self._pool.submit(block))

    def submit_alone(self, block: Block) -> Job[Outcome]:
        if self._alone is None:
            self._alone = make_workers(replace(self._call, workers=1), 1)
        return self._noted(self._alone.submit(block))

    def outcome(self, answer: Job[Outcome], at: Callable[[], str]) -> Outcome:
        return (self._alone or self._pool).outcome(answer, at)

    def wait(self, answer: Job[Outcome], at: Callable[[], str]) -> None:
        self._pool.wait(answer, at)

    def stop(self) -> None:
        for answer in members(self._submitted):
            answer.cancel()
        if self._alone is not None:
            self._alone.stop()

    def close(self, seconds: float = PATIENCE) -> bool:
        """Give the share up; the pool stays open."""
        self.stop()
        return self._alone is None or self._alone.close(seconds)

    def _noted(self, answer: Job[Outcome]) -> Job[Outcome]:
        self._submitted.add(answer)
        return answer
