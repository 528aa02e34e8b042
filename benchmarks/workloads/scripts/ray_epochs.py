"""Time an epoch of a function over integers on a local Ray cluster: Ray Data beside this library on Ray's actors."""

# It runs with the interpreter that has Ray. Each way has a cluster of its own with two CPUs, since the actors of
# one would keep the CPUs that another needs. The first epoch starts the workers and is not timed.

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import islice
from time import perf_counter
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import ray
import ray.data
from resumable_ray import RayExecutor

import resumable as rs
from benchmarks.digest import Digest, digest
from benchmarks.work import Start
from benchmarks.workloads.parallel import array, compress

__all__ = ["WAYS", "WORKS", "Epoch", "epochs"]

CPUS: Final = 2
STORE_BYTES: Final = 1 << 29


class RayWork(NamedTuple):
    """A function of the integers below ``items``, in batches.

    Attributes:
      fn: the function.
      items: number of integers.
      batch: results in a batch.
    """

    fn: Callable[[int], Any]
    items: int
    batch: int


WORKS: Final = {
    "compression": RayWork(compress, 3200, 32),
    "arrays of 1 MiB": RayWork(array, 400, 8),
}


class Epoch(NamedTuple):
    """An epoch of a work.

    Attributes:
      seconds: from its start to its end.
      delivered: number of results, and a digest of them.
    """

    seconds: float
    delivered: Digest


Way: TypeAlias = Callable[[RayWork, ExitStack], Start]


def by_hand(work: RayWork, stack: ExitStack) -> Start:
    """A task of Ray for each batch; twice as many tasks as CPUs are in work."""

    def made(first: int) -> Any:
        indices = range(first, min(first + work.batch, work.items))
        return np.stack([work.fn(index) for index in indices])

    remote: Any = ray.remote(made)

    def batches() -> Iterator[Any]:
        submitted = (remote.remote(first) for first in range(0, work.items, work.batch))
        pending = deque(islice(submitted, 2 * CPUS))
        while pending:
            yield ray.get(pending.popleft())
            pending.extend(islice(submitted, 1))

    return batches


def ray_data(work: RayWork, stack: ExitStack, *, split: bool = False) -> Start:
    """`Dataset.map` and `iter_batches`; a split of one is what Ray Train gives to a single worker."""
    context = ray.data.DataContext.get_current()
    context.execution_options.preserve_order = True
    context.enable_progress_bars = False

    def row(item: dict[str, Any]) -> dict[str, Any]:
        return {"made": work.fn(int(item["id"]))}

    dataset = ray.data.range(work.items).map(row)
    (source,) = dataset.streaming_split(1) if split else (dataset,)
    return lambda: (batch["made"] for batch in source.iter_batches(batch_size=work.batch))


def ours(work: RayWork, stack: ExitStack) -> Start:
    """A `map` on Ray's actors."""
    executor = stack.enter_context(RayExecutor(num_cpus=1))
    return (
        rs.range(work.items).map(work.fn, workers=CPUS, executor=executor).batch(work.batch).start
    )


def processes(work: RayWork, stack: ExitStack) -> Start:
    """A `map` in processes of this library."""
    return (
        rs.range(work.items).map(work.fn, workers=CPUS, executor="process").batch(work.batch).start
    )


WAYS: Final[dict[str, Way]] = {
    "tasks of Ray, by hand": by_hand,
    "resumable, map on Ray's actors": ours,
    "resumable, map in processes": processes,
    "Ray Data, iter_batches": ray_data,
    "Ray Data, split as for Ray Train": partial(ray_data, split=True),
}


def epochs(way: str, quick: bool = False) -> dict[str, Epoch]:
    """What the second epoch of each of `WORKS` takes in a new cluster; of two batches if ``quick``."""
    ray.init(
        "local",
        num_cpus=CPUS,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
        object_store_memory=STORE_BYTES,
    )
    try:
        return {name: _epoch(WAYS[way], work, quick) for name, work in WORKS.items()}
    finally:
        ray.shutdown()


def _epoch(way: Way, work: RayWork, quick: bool) -> Epoch:
    if quick:
        work = work._replace(items=2 * work.batch)
    with ExitStack() as stack:
        start = way(work, stack)
        delivered = digest(start(), batched=True)
        began = perf_counter()
        deque(start(), maxlen=0)
        return Epoch(perf_counter() - began, delivered)


if __name__ == "__main__":
    for each in WAYS:
        for name, found in epochs(each).items():
            print(f"{each}, {name}: {found.seconds:.2f} s", flush=True)
