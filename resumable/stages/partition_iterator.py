"""Motion through the partitions of a rank, one item of each in turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ..core import Indices, SourceItem
from ..core.combine import PLANNED_AT_ONCE, UNPLANNED, TurnsIterator
from ..core.skipped import skipped_items
from ..core.stage_iterator import DeferredState, state_deferrer
from ..errors import StateMismatch, shorten
from ..order.rounds import NO_TURNS, turns_in_rounds
from ..state.columns import as_columns, as_rows
from ..state.partitions import MOST_PARTITIONS, OF_EVEN_STEPS, OF_PARTITIONS, PARTITIONS
from ..state.value import State, unpack, unpack_count, unpack_flag
from ..workers.idle_workers import WorkerSource, reuse_workers
from ..workers.partition_pool import PartitionPool, PartitionProxy, PartitionWorkersConfig
from .map_pools import MapPools, maps_with_processes

T = TypeVar("T")

SHOWN = 8


class _TurnProgress(NamedTuple):
    """The known position of the partitions after some of the planned turns.

    Attributes:
      turns: number of planned turns counted so far.
      positions: number of items that each partition has handed out.
      marks: the state of each partition; None if the partition has moved since the state was noted.
    """

    turns: int
    positions: list[int]
    marks: list[DeferredState | None]


class PartitionIterator(TurnsIterator[T]):
    """Motion through the partitions of a rank, possibly run by workers.

    In the methods ``numbers`` are indices into the partitions of the rank, as in every
    `TurnsIterator`.

    Args:
      stage: the `Partition` stage.
      epoch: the number of the epoch.
      config: configures the workers that run the pipelines.
    """

    _stage: Any  # a `Partition`, which starts it

    # Noting the state of a partition may cost more than its item. So only partitions that have
    # moved since the last noted state are noted again.

    def __init__(self, stage: Any, epoch: int, config: PartitionWorkersConfig) -> None:
        numbers, pipelines = stage.numbers, stage.pipelines
        super().__init__(stage, epoch, reads=pipelines)
        self._partition_ids = list(numbers)
        self._start_epoch = epoch
        # The turns planned last.
        self._planned = NO_TURNS
        self._pool = PartitionPool(config, stage, epoch) if config.workers else None
        if self._pool is not None:
            self._upstreams = list(map(self._pool.add, numbers, self._upstreams))
        maps = list(maps_with_processes(pipelines[0])) if pipelines else []
        self._map_pools = MapPools(maps, len(pipelines)) if maps else None
        if self._map_pools is not None:
            for upstream in self._upstreams:
                reuse_workers(upstream, self._map_pools)
        self._deferrers = list(map(state_deferrer, self._upstreams))
        self._counted = self._fresh_progress([0] * len(numbers))

    def _use_workers_of(self, source: WorkerSource) -> WorkerSource:
        if self._pool is not None:
            self._pool.use_workers_of(source)
        if self._map_pools is None:
            return source
        self._map_pools.use_workers_of(source)
        return self._map_pools

    def close(self) -> None:
        if self._map_pools is None:
            super().close()
            return
        self._map_pools.stop_keeping()
        super().close()
        self._map_pools.close()

    def skip(self, count: int) -> int:
        self._stop()
        missing = count
        while missing and len(turns := self._turns(min(missing, PLANNED_AT_ONCE))):
            there = self.skip_each(turns)
            if not len(there):
                for number in np.unique(turns).tolist():
                    self._ended[number] = True
            self._move(turns[there])
            missing -= len(there)
        return count - missing

    def _turns(self, count: int) -> Indices:
        return turns_in_rounds(self._counted.positions, self._ended, count)

    def _plan(self, count: int) -> Indices:
        self._planned = self._turns(count)
        return self._planned

    def _advance_those(self, numbers: Indices, there: Indices) -> None:
        self._move(numbers[there])

    def _advance_turns(self, count: int) -> None:
        counted = self._count(count)._replace(turns=0)
        # Together, so another thread taking a state does not count the same turns again.
        self._numbers, self._left = [], UNPLANNED.__length_hint__
        self._counted = counted

    def _advance_past_end(self, place: int) -> bool:
        number = self._numbers[place]
        self._advance_turns(place)
        self._ended[number] = True
        self._counted.marks[number] = None
        if all(self._ended) and self._map_pools is not None:
            self._map_pools.release()
        return not all(self._ended)

    def _move(self, turns: Indices) -> None:
        """Count an item for each of ``turns``."""
        moved = np.bincount(turns, minlength=len(self._ended)).tolist()
        positions = map(int.__add__, self._counted.positions, moved)
        self._counted = self._fresh_progress(list(positions))

    def _fresh_progress(self, positions: list[int]) -> _TurnProgress:
        return _TurnProgress(0, positions, [None] * len(positions))

    def _count(self, turns: int) -> _TurnProgress:
        """The progress after ``turns`` of the planned turns."""
        known = self._counted
        if turns == known.turns:
            return known
        moved = np.bincount(self._planned[known.turns : turns], minlength=len(self._ended)).tolist()
        return _TurnProgress(
            turns,
            list(map(int.__add__, known.positions, moved)),
            [None if count else mark for count, mark in zip(moved, known.marks, strict=True)],
        )

    def _skipped_in_copies(self, path: str) -> Iterator[dict[str, int]]:
        for pipeline, upstream in zip(self._stage.pipelines, self._upstreams, strict=True):
            if isinstance(upstream, PartitionProxy):
                yield upstream.skipped_in(pipeline, path)
            else:
                yield skipped_items(pipeline, upstream, path)

    def origin(self, back: int) -> SourceItem | None:
        if back > 1 or not self._taken:
            return None
        return self._upstreams[self._numbers[self._taken - 1]].origin(1)

    def get_state(self) -> State:
        return self.defer_state()()

    def defer_state(self) -> DeferredState:
        before = self._counted
        turns, positions, known = self._count(self._taken)
        marks = [
            note_state() if mark is None else mark
            for note_state, mark in zip(self._deferrers, known, strict=True)
        ]
        counted = _TurnProgress(turns, positions, list[DeferredState | None](marks))
        # `stats` may be called in another thread while the loop moves on. A single assignment: an
        # interrupt leaves either the old progress or all of the new progress.
        if self._counted is before:
            self._counted = counted
        return partial(_state_of, self._partition_ids, positions, list(self._ended), marks)

    @property
    def epoch(self) -> int:
        if self._taken:
            return self._upstreams[self._numbers[self._taken - 1]].epoch
        positions = self._counted.positions
        # Partitions take turns in rounds; this partition had the last turn.
        return self._upstreams[max(range(len(positions)), key=lambda at: (positions[at], at))].epoch

    def set_state(self, state: State) -> None:
        if isinstance(state, dict) and OF_EVEN_STEPS[0] in state:  # of ranks that end together
            *_, state = unpack(self._stage, state, *OF_EVEN_STEPS)
        numbers, positions, ended, states = unpack(self._stage, state, *OF_PARTITIONS)
        if not isinstance(numbers, list) or len(numbers) > MOST_PARTITIONS:
            raise StateMismatch(
                f"saved {PARTITIONS} must be a list of up to {MOST_PARTITIONS:,}, got {shorten(numbers)}",
                self._stage,
            )
        for name, column in (("positions", positions), ("ended", ended)):
            if not isinstance(column, list) or len(column) != len(numbers):
                raise StateMismatch(
                    f"saved {name} must be a list with an entry for each partition", self._stage
                )
        numbers = [unpack_count(self._stage, "partition", number) for number in numbers]
        positions = [unpack_count(self._stage, "positions", position) for position in positions]
        ended = [unpack_flag(self._stage, "ended", over) for over in ended]
        states = as_rows(states, len(numbers))
        rows = dict(zip(numbers, zip(positions, ended, states, strict=True), strict=True))
        if missing := [number for number in self._partition_ids if number not in rows]:
            raise StateMismatch(
                f"the state has the partitions {_listed(list(rows))}, but not {_listed(missing)}, which "
                "this rank needs; join the states of all ranks with merge_states",
                self._stage,
            )
        found = [rows[number] for number in self._partition_ids]
        for upstream, (_, _, inner) in zip(self._upstreams, found, strict=True):
            upstream.set_state(inner)
        self._ended = [over for _, over, _ in found]
        for upstream, over in zip(self._upstreams, self._ended, strict=True):
            if over and isinstance(upstream, PartitionProxy):
                upstream.mark_ended()
        self._counted = self._fresh_progress([position for position, _, _ in found])


def _state_of(
    numbers: list[int], positions: list[int], ended: list[bool], marks: list[DeferredState]
) -> State:
    columns = numbers, positions, ended, as_columns([mark() for mark in marks])
    return dict(zip(OF_PARTITIONS, columns, strict=True))


def _listed(numbers: Sequence[Any]) -> str:
    shown = ", ".join(map(str, numbers[:SHOWN]))
    return f"{shown} and {len(numbers) - SHOWN} more" if len(numbers) > SHOWN else shown
