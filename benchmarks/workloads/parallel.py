"""A function that computes and one that makes arrays of 1 MiB, with 1 and 2 workers; no batches."""

# An item is one result, so the comparison is about sending an item to a worker and its result back.
# The clock starts after the first items, when all workers run.

from __future__ import annotations

import multiprocessing
import zlib
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from itertools import islice
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from benchmarks.race import race
from benchmarks.result import Claim, Options, Result, at_least
from benchmarks.timings import Timings
from benchmarks.work import Integers, Work

MINUTES: Final = 10

TEXT = np.random.default_rng(0).integers(97, 105, 2**17, np.uint8).tobytes()
ELEMENTS = 2**18  # float32: 1 MiB
UNTIMED = 8


def compress(index: int) -> int:
    """The compressed length of 64 KB; zlib lets other threads run meanwhile."""
    begin = int(index) % 2**16
    return len(zlib.compress(TEXT[begin : begin + 2**16]))


def array(index: int) -> npt.NDArray[np.float32]:
    """An array of 1 MiB."""
    return np.full(ELEMENTS, index, np.float32)


def works(options: Options) -> dict[str, Work]:
    """Both functions with 1 and 2 threads and processes."""
    made: dict[str, Work] = {}
    functions = {
        "zlib": (compress, 0, 160),
        "arrays": (array, np.zeros(ELEMENTS, np.float32), 400),
    }
    for name, (fn, result, count) in functions.items():
        for executor in ("thread", "process"):
            for workers in (2,) if options.quick else (1, 2):
                made[_variant(name, executor, workers)] = Work(
                    Integers(UNTIMED + (4 if options.quick else count)),
                    map=fn,
                    result=result,
                    workers=workers,
                    executor=executor,
                    untimed=UNTIMED,
                )
    return made


def _variant(name: str, executor: str, workers: int) -> str:
    return f"{name} {workers} {executor}"


def bare(work: Work) -> Iterator[Any]:
    """An executor, and a deque of the calls in work."""
    assert work.map is not None
    with _executor(work) as executor:
        indices = iter(range(len(work.source)))
        submitted = (executor.submit(work.map, index) for index in indices)
        pending = deque(islice(submitted, 2 * work.workers))
        while pending:
            yield pending.popleft().result()
            pending.extend(islice(submitted, 1))


def _executor(work: Work) -> Executor:
    if work.executor == "thread":
        return ThreadPoolExecutor(work.workers)
    return ProcessPoolExecutor(work.workers, mp_context=multiprocessing.get_context("forkserver"))


def claims(timings: dict[str, Timings]) -> list[Claim]:
    """The limits of the speed budget."""
    one, two = (timings[_variant("zlib", "process", workers)] for workers in (1, 2))
    arrays = timings[_variant("arrays", "process", 2)]
    return [
        at_least("zlib: the time of 1 process ÷ that of 2", _quotient(one, two), 1.7),
        at_least(
            "arrays: the time of torch's DataLoader with 2 workers ÷ resumable's",
            arrays.of_peer("torch"),
            1,
        ),
    ]


def _quotient(one: Timings, two: Timings) -> float | None:
    """The ratio of our medians."""
    pair: list[float] = [float(np.median(seconds)) for seconds in (one.ours, two.ours) if seconds]
    return pair[0] / pair[1] if len(pair) == 2 else None


def run(options: Options) -> Result:
    """Time all contestants."""
    return race(options, __name__, claims)
