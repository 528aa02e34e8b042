"""Processes of a map in the function of a partition: one pool for all partitions, exact whoever dies."""

from __future__ import annotations

import itertools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.descendants import check_nothing_is_left, children
from support.waiting import wait_until

import resumable as rs
from resumable.stages.map_pools import PoolShare
from resumable.workers import threads
from resumable.workers.executor_thread import ChunkJob, ExecutorService, ExecutorWorkers
from resumable.workers.workers import WorkerCall

pytest.importorskip("loky", reason="loky is not installed: pip install resumable-loader[parallel]")

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

WORKERS = 2
PARTS = 6


def with_pid(item: int) -> tuple[int, int]:
    return item, os.getpid()


def in_parts(
    fn: Callable[[int], Any], items: int = 60, *, workers: int = WORKERS, **options: Any
) -> rs.Pipeline[Any]:
    return rs.range(items).partition(
        PARTS,
        lambda part: part.filter(lambda item: item % 7).map(
            fn, workers=workers, executor="process", **options
        ),
    )


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """No process outlives the iterator of its partitions."""
    before = children() if sys.platform == "linux" else set()
    yield
    if sys.platform == "linux":
        wait_until(lambda: children() <= before)


@linux_only
def test_however_the_iterator_ends_no_process_and_no_descriptor_stays() -> None:
    check_nothing_is_left(lambda: iter(in_parts(with_pid)), WORKERS)


def test_all_partitions_have_the_same_processes() -> None:
    with iter(in_parts(with_pid)) as iterator:
        got = list(iterator)
    assert [item for item, _ in got] == list(in_parts(int, workers=0))
    assert 1 <= len({pid for _, pid in got}) <= WORKERS


def test_processes_end_when_the_loop_is_left_and_nobody_waits_for_the_partitions() -> None:
    def slow(item: int) -> int:
        time.sleep(600 if item > 20 else 0)
        return item

    iterator = iter(in_parts(slow))
    assert next(iterator) == 6
    began = time.monotonic()
    iterator.close()
    assert time.monotonic() - began < 60  # the calls in work would take minutes


def test_the_next_epoch_has_the_processes_of_the_last() -> None:
    with iter(in_parts(with_pid).repeat(3)) as iterator:
        got = list(iterator)
    assert len({pid for _, pid in got}) <= WORKERS
    assert [item for item, _ in got] == 3 * list(in_parts(int, workers=0))


@pytest.mark.deep
def test_epochs_within_a_partition_share_the_pool_too() -> None:
    pipeline = rs.range(24).partition(
        PARTS, lambda part: part.map(with_pid, workers=WORKERS, executor="process").repeat(3)
    )
    with iter(pipeline) as iterator:
        got = list(iterator)
    assert len({pid for _, pid in got}) <= WORKERS
    assert sorted(item for item, _ in got) == sorted(3 * list(range(24)))


@pytest.mark.deep
def test_maps_with_other_functions_have_pools_of_their_own() -> None:
    def second(pair: tuple[int, int]) -> tuple[int, int, int]:
        return (*pair, os.getpid())

    pipeline = rs.range(24).partition(
        PARTS,
        lambda part: part.map(with_pid, workers=1, executor="process").map(
            second, workers=1, executor="process"
        ),
    )
    first, other = zip(*[pids for _, *pids in pipeline], strict=True)
    assert len(set(first)) == len(set(other)) == 1
    assert set(first) != set(other)


@pytest.mark.deep
def test_threads_that_read_ahead_in_each_partition_share_the_pool() -> None:
    pipeline = rs.range(120).partition(
        PARTS,
        lambda part: part.map(with_pid, workers=WORKERS, executor="process").prefetch(2),
    )
    with iter(pipeline) as iterator:
        got = list(iterator)
    assert [item for item, _ in got] == list(range(120))
    assert len({pid for _, pid in got}) <= WORKERS
    assert not [one for one in threading.enumerate() if one.name == "resumable-executor"]


def test_a_resume_at_any_item_is_exact() -> None:
    expected = list(in_parts(int, workers=0))
    with iter(in_parts(int)) as iterator:
        states = [iterator.get_state()]
        for _ in iterator:
            states.append(iterator.get_state())
    with iter(in_parts(int, workers=0)) as iterator:
        plain = [iterator.get_state(), *(iterator.get_state() for _ in iterator)]
    assert list(map(rs.dumps, states)) == list(map(rs.dumps, plain))
    for position in (0, 1, 17, len(expected) - 1, len(expected)):
        with in_parts(int).resume(states[position]) as iterator:
            assert list(iterator) == expected[position:]


def test_an_item_that_ends_its_process_is_dropped_alone() -> None:
    poison = {11, 12, 30, 45}

    def deadly(item: int) -> int:
        if item in poison:
            os.kill(os.getpid(), signal.SIGKILL)
        return item

    skipped: list[int] = []
    pipeline = in_parts(
        deadly, on_error="skip", on_skip=lambda number, error, item: skipped.append(item)
    )
    with iter(pipeline) as iterator:
        got = list(iterator)
        dropped = sum(iterator.skipped.values())
    assert sorted(got) == [item for item in range(60) if item % 7 and item not in poison]
    assert set(skipped) == poison
    assert dropped == len(poison)


def test_an_item_that_ends_its_process_is_named_and_nothing_is_lost() -> None:
    def deadly(item: int) -> int:
        if item == 31:
            os.kill(os.getpid(), signal.SIGKILL)
        return item

    got: list[int] = []
    with iter(in_parts(deadly)) as iterator:
        with pytest.raises(rs.WorkerError, match="nothing else in work"):
            got.extend(iterator)
        state = iterator.get_state()
    with in_parts(int).resume(state) as iterator:
        assert got + list(iterator) == list(in_parts(int, workers=0))


@pytest.mark.deep
def test_processes_killed_from_outside_are_replaced() -> None:
    def slow(item: int) -> tuple[int, int]:
        time.sleep(0.002)
        return item, os.getpid()

    with iter(in_parts(slow, 300)) as iterator:
        got = list(itertools.islice(iterator, 40))
        os.kill(got[-1][1], signal.SIGKILL)
        got += iterator
    assert [item for item, _ in got] == list(in_parts(int, 300, workers=0))


class Silent(ExecutorService):
    """An executor that never answers."""

    def send(self, request: ChunkJob) -> None:
        pass

    def close(self) -> None:
        pass


def test_a_wait_for_a_pool_that_is_closed_meanwhile_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "HEARTBEAT", 0.01)
    pool = ExecutorWorkers(Silent())
    share = PoolShare(pool, WorkerCall(abs, False, 1, "process"))
    answer = share.submit([1])
    refused: list[str] = []

    def wait() -> None:
        with pytest.raises(rs.WorkerError) as raised:
            share.wait(answer, str)
        refused.append(str(raised.value))

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    assert pool.close()
    wait_until(lambda: refused)
    assert "ended without an answer" in refused[0]


def test_workers_of_the_partition_and_processes_of_its_map_are_refused() -> None:
    with pytest.raises(rs.InvalidArgument, match="workers must be 0 where a map in fn starts"):
        rs.range(8).partition(
            2, lambda part: part.map(int, workers=2, executor="process"), workers=2
        )
