"""The shares of a pipeline owned by the workers of a loader: each worker has some partitions."""

# Workers with own partitions read nothing for each other. Their order is not known in advance,
# since a worker may end before others. So each batch names its worker. The state of the loop
# contains the state of each worker after its batches received by the loop.

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from itertools import islice
from typing import Any, Final

import resumable as rs
from resumable.consumed import ConsumedStates
from resumable.core import CallsFunction
from resumable.core.epochs import in_epoch, of_each_epoch
from resumable.core.merging import merge_owner_states
from resumable.core.relation import one_for_each
from resumable.core.stage import Stage
from resumable.stages.filter import Filter
from resumable.stages.partition import Partition, share_of
from resumable.stages.random_map import RandomMap
from resumable.state.partitions import PARTITIONS
from resumable.state.value import State

__all__ = ["WorkerShares", "check_workers", "worker_share"]

MOST_HELD: Final = 1 << 16
"""Number of recent batches with a remembered worker."""


def worker_share(
    pipeline: rs.Pipeline[Any], number: int, workers: int, start_state: State
) -> rs.Pipeline[Any] | None:
    """The share of worker ``number`` of several; None if each worker must read the whole pipeline.

    Worker 0, which torch reads first, owns the partition next in turn at ``start_state``.

    Raises:
      InvalidArgument: if workers outnumber partitions.
    """
    partition = _owned(pipeline.stage, start_state["epoch"])
    if partition is None or workers < 2:
        return None
    check_workers(pipeline, workers)
    first = _first_in_turn(partition, start_state["pipeline"]) % workers
    share = share_of(pipeline.stage, (first + number) % workers, workers, "keep")
    assert share is not None
    return rs.Pipeline(share)


def check_workers(pipeline: rs.Pipeline[Any], workers: int) -> None:
    """Refuse more workers than partitions of the rank.

    Raises:
      InvalidArgument: if workers outnumber partitions.
    """
    for (first, _), stage in of_each_epoch(pipeline.stage):
        partition = _owned(pipeline.stage, first)
        if partition is not None and workers > 1 and partition.count < partition.ranks * workers:
            where = f" in epoch {first}" if stage is not pipeline.stage else ""
            raise rs.InvalidArgument(
                f"num_workers must be at most {partition.count // partition.ranks}, since each owns "
                f"partitions and {partition.ranks} ranks have {partition.count}{where}, got {workers}"
            )


def _owned(stage: Stage[Any], epoch: int) -> Partition[Any] | None:
    """The partitions that workers can own in ``epoch``; None if some epoch has none."""
    each = [_owned_in_one(one) for _, one in of_each_epoch(stage)]
    return None if None in each else _owned_in_one(in_epoch(stage, epoch))


def _owned_in_one(stage: Stage[Any]) -> Partition[Any] | None:
    """The partitions that workers can own, of a pipeline equal in all epochs; None if impossible.

    Workers do not advance in step, so no stage after the partitions may have a state: the workers'
    states may differ in their partitions only. Ownership is also impossible if ranks end together,
    since the steps of the rank are counted. Partitions of ranks that end together have known
    lengths, so skipping costs nothing.
    """
    while not isinstance(stage, Partition):
        has_places = isinstance(stage, RandomMap) and stage.over_partitions
        counts = not has_places and (stage.depends_on or not one_for_each(stage))
        carries_state = isinstance(stage, CallsFunction) and stage.carries_state
        if carries_state or (counts and not isinstance(stage, Filter)):
            return None
        (stage,) = stage.inputs
    return stage if stage.uneven == "keep" else None


def _first_in_turn(partition: Partition[Any], state: State) -> int:
    """The index, among the partitions of the rank, of the partition next in turn."""
    while PARTITIONS not in state:
        state = state["upstream"]
    places = {number: place for place, number in enumerate(partition.numbers)}
    waiting = [
        (position, places[number])
        for number, position, ended in zip(
            state[PARTITIONS], state["positions"], state["ended"], strict=True
        )
        if number in places and not ended
    ]
    return min(waiting, default=(0, 0))[1]


class WorkerShares:
    """The state of an epoch with partitions owned by workers.

    Args:
      pipelines: the share of each worker.
      start_state: the state at the beginning of the epoch.
      batch_items: number of items in a batch.
    """

    def __init__(
        self, pipelines: Sequence[rs.Pipeline[Any]], start_state: State, batch_items: int
    ) -> None:
        self._start_state = start_state
        self._batch_items = batch_items
        self._last = deque[int](maxlen=MOST_HELD)  # the workers of the last batches
        self._received = [0] * len(pipelines)
        each = map(ConsumedStates[Any], pipelines)
        self._states = [states.starting_at(states.checked(start_state)) for states in each]

    @classmethod
    def of(
        cls, pipeline: rs.Pipeline[Any], workers: int, start_state: State, batch_items: int
    ) -> WorkerShares | None:
        """The shares of ``workers`` in an epoch from ``start_state``, if workers own partitions."""
        shares = [worker_share(pipeline, number, workers, start_state) for number in range(workers)]
        found = [share for share in shares if share is not None]
        return cls(found, start_state, batch_items) if found else None

    def count_received(self, worker: int, state: bytes | None) -> None:
        """Count a batch of ``worker``; ``state`` is the worker's state afterwards, if known."""
        self._last.append(worker)
        self._received[worker] += 1
        if state is not None:
            self._states[worker].keep(self._step(self._received[worker]), state)

    def before(self, held: int) -> State:
        """The state before the last ``held`` received batches.

        Raises:
          InvalidArgument: if ``held`` exceeds the remembered batches.
        """
        if held > MOST_HELD:
            raise rs.InvalidArgument(f"held must be at most {MOST_HELD} batches, got {held}")
        count = Counter(islice(reversed(self._last), held))
        states = [
            states.after(self._step(received - count[worker]))
            for worker, (states, received) in enumerate(
                zip(self._states, self._received, strict=True)
            )
        ]
        step: int = self._start_state["step"]
        done = sum(state["step"] - step for state in states)
        return {**merge_owner_states(states), "step": step + done}

    def _step(self, batches: int) -> int:
        """The step of a worker after a number of its batches."""
        return int(self._start_state["step"]) + batches * self._batch_items
