"""Time maps on executors that are passed in, against one item a task and against our own processes.

Run as `python benchmarks/workloads/scripts/executor_chunks.py [processes] [dask] [ray] [--turns N] [--compute]`;
`dask` needs the package distributed, and `ray` the package ray. Without a name it tries a `ProcessPoolExecutor` alone.

Each executor has two processes. In a turn, each way has a few seconds after the other, since other programs
may use the machine too. The tables have medians and quartiles over the turns: of the items a second, and of the
ratio to the way that is named. "futures" is a bare loop over a window of futures, each with one item; "one item a
task" is the map with chunks of one item. An item takes its time by the clock, as a read does; with `--compute` by the
processor, so that what the executor itself computes counts too.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from unittest.mock import patch

import numpy as np

ROOT = Path(__file__).resolve().parents[3]
for folder in (ROOT, ROOT / "adapters"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

import resumable as rs  # noqa: E402
from resumable.workers.executor_thread import ExecutorWorkers  # noqa: E402

PROCESSES: Final = 2
IN_WORK: Final = 2 * PROCESSES
"""Items in work where each is a task, as many as a map has chunks."""
WARM_SECONDS: Final = 1.0
SECONDS: Final = 2.0
SHORT: Final = 1e-4
LONG: Final = 1e-2
MANY: Final = 10**9

Way = Callable[[Callable[[int], int]], float]
"""Calls a function with numbers, and returns how many a second."""


class Item:
    """A function that takes so many seconds."""

    def __init__(self, seconds: float, compute: bool) -> None:
        self._seconds = seconds
        self._compute = compute

    def __call__(self, number: int) -> int:
        clock = time.process_time if self._compute else time.perf_counter
        ends = clock() + self._seconds
        if not self._compute:
            time.sleep(max(self._seconds - SHORT, 0.0))
        while clock() < ends:
            pass
        return number


def rate(items: Iterator[int]) -> float:
    """Items a second, once they have come for a while."""
    _count(items, WARM_SECONDS)
    began = time.perf_counter()
    return _count(items, SECONDS) / (time.perf_counter() - began)


def _count(items: Iterator[int], seconds: float) -> int:
    ends = time.perf_counter() + seconds
    count = 0
    while time.perf_counter() < ends:
        next(items)
        count += 1
    return count


def in_chunks(executor: str | Executor) -> Way:
    """A map of this library."""

    def timed(fn: Callable[[int], int]) -> float:
        with iter(rs.range(MANY).map(fn, workers=PROCESSES, executor=executor)) as items:
            return rate(items)

    return timed


def one_by_one(executor: Executor) -> Way:
    """The same map, whose chunks have one item."""

    def timed(fn: Callable[[int], int]) -> float:
        with patch.object(ExecutorWorkers, "_adapt"):
            return in_chunks(executor)(fn)

    return timed


def futures(executor: Executor) -> Way:
    """A bounded window of futures, each with one item."""

    def timed(fn: Callable[[int], int]) -> float:
        window: deque[Future[int]] = deque(executor.submit(fn, n) for n in range(IN_WORK))

        def items() -> Iterator[int]:
            for number in range(IN_WORK, MANY):
                result = window.popleft().result()
                window.append(executor.submit(fn, number))
                yield result

        found = rate(items())
        for future in window:
            future.result()
        return found

    return timed


@contextmanager
def process_pool() -> Iterator[Executor]:
    """The standard library's."""
    with ProcessPoolExecutor(PROCESSES) as executor:
        yield executor


@contextmanager
def dask_cluster() -> Iterator[Executor]:
    """A cluster of local processes."""
    from distributed import Client, LocalCluster

    cluster = LocalCluster(PROCESSES, threads_per_worker=1, dashboard_address=None)
    with cluster, Client(cluster) as client:
        yield client.get_executor()


@contextmanager
def ray_actors() -> Iterator[Executor]:
    """Actors of a local instance of Ray."""
    import ray
    from resumable_ray import RayExecutor

    os.environ["PYTHONPATH"] = f"{ROOT}:{ROOT / 'adapters'}"  # for the actors
    ray.init("local", num_cpus=PROCESSES, include_dashboard=False, log_to_driver=False)
    try:
        with RayExecutor() as executor:
            yield executor
    finally:
        ray.shutdown()


EXECUTORS = {"processes": process_pool, "dask": dask_cluster, "ray": ray_actors}


def table(title: str, item: Item, ways: dict[str, Way], base: str, turns: int) -> None:
    """Print rates and their ratios to ``base``."""
    rates = np.array([[way(item) for way in ways.values()] for _ in range(turns)])
    ratios = rates / rates[:, [list(ways).index(base)]]
    print(f"{title}\n\n| way | items/s | quartiles | ratio to {base} | quartiles |")
    print("| --- " * 5 + "|")
    for name, found, ratio in zip(ways, rates.T, ratios.T, strict=True):
        low, median, high = np.percentile(found, (25, 50, 75))
        least, middle, most = np.percentile(ratio, (25, 50, 75))
        numbers = f"{median:,.0f} | {low:,.0f} to {high:,.0f}"
        print(f"| {name} | {numbers} | {middle:.2f} | {least:.2f} to {most:.2f} |")
    print(flush=True)


def main() -> None:
    """Print the tables of each executor."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("executors", nargs="*", metavar="EXECUTOR", default=["processes"])
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--compute", action="store_true")
    options = parser.parse_args()
    for name in options.executors:
        with EXECUTORS[name]() as executor:
            chunks = in_chunks(executor)
            against = {
                "futures": futures(executor),
                "one item a task": one_by_one(executor),
                "chunks": chunks,
            }
            own = {"our processes": in_chunks("process"), "chunks": chunks}
            short, long = Item(SHORT, options.compute), Item(LONG, options.compute)
            table(f"{name}: items of 100 µs", short, against, "one item a task", options.turns)
            table(f"{name}: items of 10 ms", long, own, "our processes", options.turns)


if __name__ == "__main__":
    main()
