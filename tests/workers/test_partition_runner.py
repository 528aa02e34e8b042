"""Partitions that stand in a worker for their next task: those of former runs do not stay."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.clocks import Clock

import resumable as rs
from resumable.state.value import take_state
from resumable.workers import partition_server, running_partition
from resumable.workers.after_item import AfterItem, PackedState
from resumable.workers.partition_server import (
    IDLE_SECONDS,
    MOST_RUNS,
    IdlePartitions,
    PartitionServer,
)
from resumable.workers.running_partition import PartitionTask

PARTITIONS = 4
OPEN: list[int] = []
"""The partitions that are open."""


class Numbers:
    """Numbers whose iterator notes that it is open."""

    def __init__(self, partition: int) -> None:
        self._partition = partition

    def __call__(self) -> Iterator[int]:
        OPEN.append(self._partition)
        try:
            yield from range(100)
        finally:
            OPEN.remove(self._partition)


def numbers(partition: int) -> Any:
    return rs.from_iterable(Numbers(partition)).stage


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock(1000.0)
    monkeypatch.setattr(partition_server, "monotonic", clock)
    # No task is cut short, however slow the machine is.
    monkeypatch.setattr(running_partition, "perf_counter", clock)
    return clock


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., list[int]]]:
    """Does the next task of a partition as in a process of a pool; returns its items."""
    kept = IdlePartitions()
    monkeypatch.setattr(partition_server, "_kept_here", kept)
    places: dict[tuple[str, int], AfterItem] = {}

    def do(name: str, partition: int = 0) -> list[int]:
        if (name, partition) not in places:
            state = take_state(numbers(partition).start(0).get_state)
            places[name, partition] = AfterItem(PackedState(state), 0, 0)
        runner = pickle.loads(pickle.dumps(PartitionServer(numbers)))
        found = runner(PartitionTask(name, 0, partition, places[name, partition], 3, {}, None))
        places[name, partition] = found.positions[-1]
        items: list[int] = found.items
        return items

    yield do
    kept.close()
    assert not OPEN


def test_the_partitions_of_many_runs_that_nobody_ended_do_not_pile_up(
    run: Callable[..., list[int]], clock: Clock
) -> None:
    for number in range(3 * MOST_RUNS):
        for partition in range(PARTITIONS):
            assert run(f"run {number}", partition) == [0, 1, 2]
        assert len(OPEN) <= PARTITIONS * MOST_RUNS
    assert run("run 0") == [3, 4, 5]


def test_a_run_that_was_idle_while_another_one_worked_is_dropped(
    run: Callable[..., list[int]], clock: Clock
) -> None:
    run("first")
    run("first", 1)
    clock.now += IDLE_SECONDS
    assert run("first") == [3, 4, 5]
    assert len(OPEN) == 2  # it was alone
    run("second")
    assert sorted(OPEN) == [0, 0, 1]
    clock.now += IDLE_SECONDS
    assert run("second") == [3, 4, 5]
    assert OPEN == [0]
    assert run("first", 1) == [3, 4, 5]


def test_at_most_so_many_partitions_are_kept(
    run: Callable[..., list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_server, "MOST_RUNNING", 3)
    for partition in range(PARTITIONS):
        run("first", partition)
    assert OPEN == [1, 2, 3]
    run("second")
    assert OPEN == [2, 3, 0]
    for partition in range(1, PARTITIONS):
        run("second", partition)
    assert OPEN == [1, 2, 3]
    assert run("first") == [3, 4, 5]


def test_calls_are_noted_only_on_the_machine_that_has_the_file(tmp_path: Path) -> None:
    stage = rs.range(9).map(abs).stage
    start = AfterItem(PackedState(take_state(stage.start(0).get_state)), 0, 0)
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    here.touch()
    for log in (here, elsewhere):
        runner = PartitionServer(lambda partition: stage)
        assert runner(PartitionTask("run", 0, 0, start, 3, {}, str(log))).items == [0, 1, 2]
        runner.close()
    assert [path.name for path in tmp_path.iterdir()] == ["here"]
