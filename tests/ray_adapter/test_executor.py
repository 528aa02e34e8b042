"""`RayExecutor` is a `concurrent.futures.Executor`, and says what it is wrongly asked for."""

from __future__ import annotations

import gc
import threading
import time
from concurrent.futures import CancelledError, wait
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from ray_adapter.nodes import Nodes
from resumable_ray import RayExecutor
from support.waiting import wait_until

import resumable as rs
from resumable.workers.chunk_work import PickledOutcome
from resumable.workers.foreign_executor import ForeignChunk, this_process, work_on

LARGE = 1 << 20


def in_store(array: npt.NDArray[Any]) -> bool:
    """Whether the numbers of ``array`` lie in Ray's object store, and not in memory of this process."""
    address = array.__array_interface__["data"][0]
    with open("/proc/self/maps") as maps:
        for line in maps:
            start, end = (int(part, 16) for part in line.split(maxsplit=1)[0].split("-"))
            if start <= address < end:
                return "plasma" in line or "/dev/shm" in line
    return False


def test_it_does_what_an_executor_does(nodes: Nodes) -> None:
    with RayExecutor(num_actors=2) as executor:
        assert executor.submit(pow, 2, exp=5).result() == 32
        assert list(executor.map(lambda a, b: a * b, range(50), range(50))) == [
            number * number for number in range(50)
        ]
        failed = executor.submit(int, "x")
        with pytest.raises(ValueError, match="invalid literal") as raised:
            failed.result()
        assert "in call" in str(raised.value.__cause__), "it shows where it came from"
        with pytest.raises(TypeError, match="lock"):
            executor.submit(repr, threading.Lock()).result()
        with pytest.raises(TypeError, match="lock"):
            executor.submit(threading.Lock).result()
        sleeping = [executor.submit(time.sleep, 0.05) for _ in range(12)]
        assert sleeping[-1].cancel()
        with pytest.raises(CancelledError):
            sleeping[-1].result()
        wait_until(lambda: sleeping[0].running() or sleeping[0].done())
        assert not sleeping[0].cancel()
        assert all(future.done() for future in reversed(sleeping[:-1]) if not future.result())
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(abs, 1)
    executor.shutdown()


def test_arguments_may_have_any_names(nodes: Nodes) -> None:
    given = {name: len(name) for name in ("fn", "self", "names", "values", "args", "kwargs")}
    with RayExecutor(num_actors=1) as executor:
        executors: list[Any] = [executor, executor.lane()]
        for one in executors:
            assert one.submit(dict, fn=1).result() == {"fn": 1}
            assert one.submit(dict, {"first": 0}, **given).result() == {"first": 0, **given}
            assert one.submit(sorted, [1, 3, 2], reverse=True).result() == [3, 2, 1]


def test_a_shutdown_waits_for_what_was_submitted_or_cancels_it(nodes: Nodes) -> None:
    executor = RayExecutor(num_actors=1)
    futures = [executor.submit(abs, -number) for number in range(20)]
    executor.shutdown(wait=False)
    assert [future.result() for future in futures] == list(range(20))
    executor = RayExecutor(num_actors=1)
    executor.submit(abs, 1).result()
    futures = [executor.submit(time.sleep, 0.1) for _ in range(20)]
    executor.shutdown(cancel_futures=True)
    assert all(future.done() for future in futures)
    assert futures[-1].cancelled()


def test_a_shutdown_does_not_wait_for_cancelled_work_that_no_node_has_room_for(
    nodes: Nodes,
) -> None:
    for cancel in (True, False):
        executor = RayExecutor(num_cpus=99, num_actors=1)
        futures = [executor.submit(abs, 1), executor.lane().submit(abs, 1)]
        assert not wait(futures, 0.1).done
        if not cancel:
            assert all(future.cancel() for future in futures)
        executor.shutdown(cancel_futures=cancel)
        assert wait(futures, 60).done == set(futures)


def test_one_that_is_dropped_ends_its_thread_and_its_actors(nodes: Nodes) -> None:
    threads = threading.active_count()
    executor = RayExecutor(num_actors=1)
    future = executor.submit(abs, -1)
    del executor
    assert future.result() == 1
    gc.collect()
    wait_until(lambda: threading.active_count() == threads)
    nodes.wait_until_idle()


def test_large_arrays_lie_in_the_store_once_and_are_pickled_nowhere(nodes: Nodes) -> None:
    def inverse(array: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        assert in_store(array)
        return ~array

    given = np.arange(LARGE, dtype=np.uint8)
    with RayExecutor(num_actors=1) as executor:
        assert in_store(executor.submit(inverse, given).result())
        work = ForeignChunk(this_process(), inverse, [given], False, False)
        reply = executor.submit(work_on, work).result()
        assert isinstance(reply, PickledOutcome)
        assert reply.parts is not None
        (small, large) = reply.parts
        assert in_store(large)
        assert len(small) < 1000
        (result,) = reply.open().results
        assert not in_store(result)  # so the loop may write to it, and the store is free again
        assert (result == ~given).all()


def test_two_epochs_and_two_pipelines_share_an_executor(nodes: Nodes) -> None:
    numbers = rs.range(60).shuffle(3)
    with RayExecutor(num_actors=2) as executor:
        for _ in range(2):
            options: dict[str, Any] = {"workers": 2, "executor": executor}
            first = numbers.map(hex, **options)
            second = numbers.partition(4, lambda part: part.map(oct), **options)
            with iter(first.repeat(2)) as one, iter(second) as other:
                pairs = [(next(one), item) for item in other]
                assert [hexed for hexed, _ in pairs] + list(one) == list(numbers.map(hex).repeat(2))
                alone = numbers.partition(4, lambda part: part.map(oct))
                assert [octal for _, octal in pairs] == list(alone)


def test_iterators_that_are_dropped_or_closed_in_mid_epoch_leave_the_executor_free(
    nodes: Nodes,
) -> None:
    def slow(item: int) -> int:
        time.sleep(0.01)
        return item

    with RayExecutor(num_actors=2) as executor:
        options: dict[str, Any] = {"workers": 2, "executor": executor}
        for pipeline in (
            rs.range(10**6).map(slow, **options),
            rs.range(10**6).partition(4, lambda part: part.map(slow), **options),
        ):
            iterator = iter(pipeline)
            assert next(iterator) == 0
            iterator.close()
            dropped = iter(pipeline)
            assert next(dropped) == 0
            del dropped
            assert executor.submit(abs, -2).result() == 2


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"num_cpus": "1"}, rs.InvalidType, "num_cpus must be a number, got '1'"),
        ({"num_cpus": True}, rs.InvalidType, "num_cpus must be a number, got True"),
        ({"num_cpus": float("nan")}, rs.InvalidArgument, "num_cpus must be finite and .*, got nan"),
        ({"num_cpus": -1}, rs.InvalidArgument, "num_cpus must be finite and at least 0, got -1"),
        ({"num_actors": 0}, rs.InvalidArgument, "num_actors must be at least 1, got 0"),
        ({"num_actors": 1.5}, rs.InvalidType, "num_actors must be an integer, got 1.5"),
        ({"num_cpus": 0}, rs.InvalidArgument, "num_actors must be given if num_cpus is 0"),
        ({"num_cpus": 99}, rs.InvalidArgument, "num_cpus must be at most what a node has"),
        ({"max_restarts": -2}, rs.InvalidArgument, "max_restarts must be at least -1, got -2"),
        ({"runtime_env": "pip"}, rs.InvalidType, "runtime_env must be a dict or None, got 'pip'"),
        (
            {"runtime_env": {"working_dir": 3}},
            rs.InvalidArgument,
            "runtime_env must be such that Ray takes them, got 1 and {'working_dir': 3}",
        ),
    ],
)
def test_a_bad_argument_is_named(
    nodes: Nodes, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        RayExecutor(**options)
