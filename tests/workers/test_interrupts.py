"""A signal handler may raise anywhere in a loop over workers: nothing is lost, locked or left."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from support.graphs import stream
from support.interrupting import interrupted, places
from support.tiers import thinned
from support.waiting import wait_until

import resumable as rs

ITEMS = 30
EXPECTED = [2 * item for item in range(ITEMS)]


def double(item: int) -> int:
    return 2 * item


@pytest.fixture(scope="module")
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(abs, 0).result()
        yield pool


def numbered(pipeline: rs.Pipeline[int]) -> rs.Pipeline[int]:
    """Twice the numbers of its items."""
    return pipeline.enumerate().map(lambda pair: 2 * pair[0])


class Losing(Executor):
    """Loses the worker of a certain chunk twice in a row, and replaces it."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool
        self._tries = 0

    def submit(self, fn: Any, work: Any, /) -> Future[Any]:  # type: ignore[override]
        future: Future[Any] = Future()
        self._tries += (begins := work.block[0] == 2)
        if not begins or self._tries % 3 == 0:
            return self._pool.submit(fn, work)
        future.set_exception(BrokenExecutor("its worker died"))
        return future


MAPS: dict[str, Callable[[ThreadPoolExecutor], rs.Pipeline[int]]] = {
    "threads": lambda pool: rs.range(ITEMS).map(double, workers=2),
    "threads over a stream": lambda pool: stream(ITEMS).map(double, workers=2, on_error="skip"),
    "an executor": lambda pool: rs.range(ITEMS).map(double, workers=2, executor=pool),
    "an executor that loses workers": lambda pool: rs.range(ITEMS).map(
        double, workers=2, executor=Losing(pool)
    ),
    "behind a prefetch": lambda pool: rs.range(ITEMS).map(double, workers=2).prefetch(2),
    "in several passes": lambda pool: numbered(rs.range(2).map(double, workers=2).repeat(15)),
}


class Loop:
    """A few steps and a close, of which an interrupt may leave any part undone."""

    def __init__(self, pipeline: rs.Pipeline[int]) -> None:
        self.pipeline = pipeline
        self.iterator: Any = None

    def run(self) -> None:
        self.iterator = iter(self.pipeline)
        for _ in range(4):
            next(self.iterator)
        self.iterator.close()
        self.iterator = None


def check_interrupted(pipeline: rs.Pipeline[int], place: int) -> None:
    """Interrupt the loop at ``place``, go on with it, and close it."""
    before = set(threading.enumerate())
    loop = Loop(pipeline)
    interrupted(loop.run, place)  # or at the end: how many places there are is a matter of time
    if loop.iterator is not None:
        expected = EXPECTED[loop.iterator.step :]
        with suppress(rs.IteratorClosed):  # it was interrupted in its `close`
            rest = list(loop.iterator)  # an `assert` would keep the iterator
            assert rest == expected
        loop.iterator.close()
    del loop
    wait_until(lambda: set(threading.enumerate()) <= before)


# A handler may run in a finalizer too, which can pass no exception on.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", MAPS)
def test_an_interrupt_of_a_loop_over_workers_changes_nothing(
    name: str, executor: ThreadPoolExecutor
) -> None:
    pipeline = MAPS[name](executor)
    Loop(pipeline).run()
    for place in thinned(range(places(Loop(pipeline).run)), 30, seed=0):
        check_interrupted(pipeline, place)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_an_interrupt_of_a_loop_over_processes_changes_nothing() -> None:
    psutil = pytest.importorskip("psutil", reason="psutil is not installed")
    pytest.importorskip("loky", reason="loky is not installed")
    pipeline = rs.range(ITEMS).map(double, workers=1, executor="process")
    list(pipeline)  # starts the trackers, which stay
    before = psutil.Process().children(recursive=True)
    every = range(places(Loop(pipeline).run))
    for place in thinned(every[:: max(len(every) // 40, 1)], 3, seed=1):  # each takes a second
        check_interrupted(pipeline, place)
        wait_until(lambda: psutil.Process().children(recursive=True) == before)
