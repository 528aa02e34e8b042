"""Map on the worker processes of Dask: exact, whoever dies, and resumed without Dask."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

import resumable as rs
from resumable.testing.laws import states_along

dask = pytest.importorskip("dask", reason="dask is not installed")
distributed = pytest.importorskip(
    "distributed", reason="distributed is not installed: pip install resumable-loader[dask]"
)
pytestmark = pytest.mark.filterwarnings("ignore")


@contextmanager
def two_processes() -> Iterator[Any]:
    """A client of a cluster of two processes."""
    # On a slow machine a process may need longer to start again than the 15 s after which Dask gives it up for good.
    patience = {"distributed.deploy.lost-worker-timeout": "10 minutes"}
    with (
        dask.config.set(patience),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def client() -> Iterator[Any]:
    with two_processes() as client:
        yield client


@pytest.fixture
def impatient() -> Iterator[Any]:
    """The same, for which a task that ends one worker is given up."""
    with dask.config.set({"distributed.scheduler.allowed-failures": 0}), two_processes() as client:
        yield client


@pytest.mark.skipif(os.name == "nt", reason="kills by signal")
def test_a_killed_worker_loses_nothing_and_the_rest_needs_no_dask(client: Any) -> None:
    def square(item: int) -> int:
        return item * item

    upstream = rs.range(200).shuffle(1)
    expected = list(upstream.map(square))
    states = states_along(upstream.map(square), len(expected))
    got: list[int] = []
    pipeline = upstream.map(square, workers=4, executor=client.get_executor())
    with iter(pipeline) as iterator:
        for item in itertools.islice(iterator, 150):
            got.append(item)
            assert rs.dumps(iterator.get_state()) == states[len(got)]
            if len(got) == 40:
                victims = client.run(os.getpid)
                os.kill(next(iter(victims.values())), signal.SIGKILL)
        state = iterator.get_state()
    with upstream.map(square).resume(rs.loads(rs.dumps(state))) as iterator:
        got += iterator
    assert got == expected
    assert client.submit(abs, -1).result() == 1, "it is used, not shut down"


@pytest.mark.skipif(os.name == "nt", reason="kills by signal")
@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_an_item_that_ends_its_worker_each_time_is_blamed_alone(
    impatient: Any, on_error: str
) -> None:
    poison = 70

    def deadly(item: int) -> int:
        if item == poison:
            os.kill(os.getpid(), signal.SIGKILL)
        return item

    executor = impatient.get_executor()
    pipeline = rs.range(120).map(deadly, workers=2, executor=executor, on_error=on_error)
    got: list[int] = []
    with iter(pipeline) as iterator:
        if on_error == "raise":
            with pytest.raises(rs.WorkerError, match=f"worked on item {poison}, .*nothing else"):
                got.extend(iterator)
            assert got == list(range(poison))
            assert iterator.skip(1) == 1
        got.extend(iterator)
        assert sum(iterator.skipped.values()) == (on_error == "skip")
    assert got == [item for item in range(120) if item != poison]


@pytest.mark.skipif(os.name == "nt", reason="stops by signal")
@pytest.mark.parametrize("in_partitions", [False, True])
def test_a_worker_that_stops_is_an_error_in_time_and_its_work_is_done_elsewhere(
    client: Any, in_partitions: bool
) -> None:
    def build(**options: Any) -> rs.Pipeline[int]:
        if in_partitions:
            return rs.range(10**4).partition(4, lambda part: part.map(abs), **options)
        return rs.range(10**4).map(abs, **options)

    executor = client.get_executor()
    executor.timeout = 10
    got: list[int] = []
    stopped = next(iter(client.run(os.getpid).values()))
    with iter(build(workers=4, executor=executor)) as iterator:
        got += itertools.islice(iterator, 100)
        os.kill(stopped, signal.SIGSTOP)
        try:
            with pytest.raises(rs.WorkerError, match=r"no answer for 10 s .*, at (item|part)"):
                got.extend(iterator)
            state = iterator.get_state()
            assert got == list(range(len(got)))
            assert next(build().resume(state)) == len(got)
        finally:
            os.kill(stopped, signal.SIGCONT)
        got.extend(iterator)
    assert got == list(range(10**4))


class Named(ThreadPoolExecutor):
    """Threads that note the names under which Dask would keep what they did."""

    def __init__(self) -> None:
        super().__init__(1)
        self.names: list[str] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        self.names.append(dask.base.tokenize(fn, *args, **kwargs))
        return super().submit(fn, *args, **kwargs)


@pytest.mark.parametrize("partitions", [False, True])
def test_no_work_is_answered_with_what_came_of_other_work(partitions: bool) -> None:
    def parts(executor: Any) -> rs.Pipeline[int]:
        if partitions:
            return rs.range(40).partition(
                2, lambda part: part.map(abs), workers=1, executor=executor
            )
        return rs.range(40).map(abs, workers=1, executor=executor)

    with Named() as executor:
        for _ in range(2):
            assert list(parts(executor)) == list(range(40))
        assert len(executor.names) == len(set(executor.names)) > 2


def test_the_end_of_a_client_is_said_and_loses_nothing(client: Any) -> None:
    got: list[int] = []
    pipeline = rs.range(10**6).map(abs, workers=2, executor=client.get_executor())
    with iter(pipeline) as iterator:
        got += itertools.islice(iterator, 100)
        client.close()
        with pytest.raises(
            rs.WorkerError, match=r"executor of .*Map.* takes no more work, at item"
        ):
            got.extend(iterator)
        state = rs.loads(rs.dumps(iterator.get_state()))
    with pytest.raises(rs.WorkerError, match=r"takes no more work, at item 0.*Client is closed"):
        next(iter(pipeline))
    with rs.range(10**6).map(abs).resume(state) as iterator:
        assert got == list(range(len(got)))
        assert next(iterator) == len(got)


def test_work_that_a_closing_client_took_and_never_does_is_not_waited_for(client: Any) -> None:
    executor = client.get_executor()
    got: list[int] = []
    with iter(rs.range(10**6).map(abs, workers=2, executor=executor)) as iterator:
        got += itertools.islice(iterator, 100)
        executor.submit = lambda *_: Future()
        threading.Timer(0.5, client.close).start()
        with pytest.raises(rs.WorkerError, match=r"takes no more work, at item .* is closed"):
            got.extend(iterator)
    assert got == list(range(len(got)))


def test_partitions_go_on_when_a_worker_is_killed_and_name_what_kills_it(client: Any) -> None:
    def parts(fn: Any, **options: Any) -> rs.Pipeline[int]:
        return rs.range(200).partition(4, lambda part: part.map(fn), **options)

    def slow(item: int) -> int:
        time.sleep(0.002)
        return item

    expected = list(parts(abs))
    states = states_along(parts(abs), len(expected))
    got: list[int] = []
    with iter(parts(slow, workers=2, executor=client.get_executor())) as iterator:
        for item in iterator:
            got.append(item)
            assert rs.dumps(iterator.get_state()) == states[len(got)]
            if len(got) == 40:
                os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
    assert got == expected


@pytest.mark.skipif(os.name == "nt", reason="kills by signal")
def test_an_item_of_a_partition_that_ends_its_worker_each_time_is_named(impatient: Any) -> None:
    def deadly(item: int) -> int:
        if item == 50:
            os.kill(os.getpid(), signal.SIGKILL)
        return item

    pipeline = rs.range(60).partition(
        4, lambda part: part.map(deadly), workers=2, executor=impatient.get_executor()
    )
    got: list[int] = []
    with iter(pipeline) as iterator:
        with pytest.raises(rs.WorkerError, match=r"worked on .*item 50 .*in partition 2"):
            got.extend(iterator)
        assert got == list(range(50))
