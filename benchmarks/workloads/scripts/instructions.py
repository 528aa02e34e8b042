"""Count the instructions of an item, in the library and in a loop by hand, without a clock.

Run as `python benchmarks/workloads/scripts/instructions.py [WORKLOAD ...]`, on Linux with valgrind
installed. The workloads are those of the speed budget: arrays in batches, a mapped range in batches, a mapped
and filtered range item by item, a step of a checkpointed loop between two saves, and a state of six
stages (whose loop by hand makes the dict of the same positions). For each workload, callgrind
counts the instructions of two processes that run it at two lengths, each after a short epoch that
warms up the caches of Python and NumPy. The difference, divided by that of the lengths, is the cost
of an item, without starting, importing and warming up. Functions, sizes and seeds are the same on
both sides.

A count differs by less than a hundredth from run to run. It is no time: a cheap instruction counts
as much as a cache miss. Compare it only with a count from the same machine and versions, which
are printed above it. NumPy chooses its code for the processor, which here is the one that valgrind
imitates.
"""

# The tests count calls and bytecode of the library alone (tests/test_work_counts.py). This counts
# everything, NumPy and the interpreter included, but takes minutes.

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parents[3]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

import resumable as rs  # noqa: E402

BATCH = 256
SEED = 0
WARM = 1000
COLUMNS = 16  # bytes in a row of the first array


def triple(item: int) -> int:
    """Compute next to nothing, so that the work around it counts."""
    return 3 * item + 1


def is_even(item: int) -> bool:
    """Keep every other item."""
    return item % 2 == 0


def arrays(count: int) -> Iterable[Any]:
    """Two arrays, shuffled, in batches; their rows are narrow, so that more than copying counts."""
    return rs.from_arrays(_arrays(count)).shuffle(SEED).batch(BATCH)


def arrays_by_hand(count: int) -> Iterator[Any]:
    """A permutation, and a take of each part of it."""
    x, y = _arrays(count)
    order = np.random.default_rng(SEED).permutation(count)
    for begin in range(0, count, BATCH):
        part = order[begin : begin + BATCH]
        yield x.take(part, 0), y.take(part, 0)


def _arrays(count: int) -> tuple[Any, Any]:
    return np.zeros((count, COLUMNS), np.uint8), np.zeros(count, np.int64)


def mapped(count: int) -> Iterable[Any]:
    """Shuffled integers, a Python function of each, in batches."""
    return rs.range(count).shuffle(SEED).map(triple).batch(BATCH)


def mapped_by_hand(count: int) -> Iterator[Any]:
    """A permutation, and a list comprehension over each part of it."""
    order = np.random.default_rng(SEED).permutation(count)
    for begin in range(0, count, BATCH):
        yield np.asarray([triple(item) for item in order[begin : begin + BATCH].tolist()])


def filtered(count: int) -> Iterable[Any]:
    """Integers one by one: a function of each, and a filter."""
    return rs.range(count).map(triple).filter(is_even)


def filtered_by_hand(count: int) -> Iterator[Any]:
    """A generator expression."""
    return (item for item in (triple(i) for i in range(count)) if is_even(item))


def steps(count: int) -> Iterator[Any]:
    """Integers one by one in a loop that would save now and then."""
    with rs.Checkpointer(rs.Memory(), rs.EverySteps(10**9), save_at_end=False) as checkpointer:
        yield from checkpointer.resume(rs.range(count))


def steps_by_hand(count: int) -> Iterator[Any]:
    """A loop that counts its steps, and looks whether to save."""
    for step, item in enumerate(range(count)):
        if step % 10**9 == 10**9 - 1:
            raise NotImplementedError
        yield item


def states(count: int) -> Iterator[Any]:
    """The state of six stages, taken ``count`` times."""
    pipeline = rs.range(10**9).shuffle(SEED).map(abs).batch(BATCH).repeat().take(10**9).enumerate()
    with iter(pipeline) as iterator:
        next(iterator)
        for _ in repeat(None, count):
            yield iterator.get_state()


def states_by_hand(count: int) -> Iterator[Any]:
    """A dict of the same shape, made ``count`` times."""
    for step in range(count):
        yield {
            "fingerprint": "",
            "epoch": 0,
            "step": step,
            "ahead": 0,
            "pipeline": {
                "position": step,
                "upstream": {
                    "position": step,
                    "upstream": {
                        "pass": 0,
                        "delivered": True,
                        "upstream": {"upstream": {"upstream": {"position": step}}},
                    },
                },
            },
        }


class Workload(NamedTuple):
    """The two sides, and the lengths of which the difference is taken."""

    library: Callable[[int], Iterable[Any]]
    by_hand: Callable[[int], Iterable[Any]]
    fewer: int
    more: int


# The lengths of shuffled workloads are whole blocks of permuted indices, after a first one of 512.
WORKLOADS = {
    "arrays": Workload(arrays, arrays_by_hand, 512 + 65536, 512 + 4 * 65536),
    "map": Workload(mapped, mapped_by_hand, 512 + 65536, 512 + 4 * 65536),
    "item-by-item": Workload(filtered, filtered_by_hand, 20_000, 120_000),
    "loop": Workload(steps, steps_by_hand, 20_000, 120_000),
    "state": Workload(states, states_by_hand, 2_000, 12_000),
}


def an_item(name: str, side: str) -> float:
    """Instructions for an item of a workload."""
    workload = WORKLOADS[name]
    fewer, more = (instructions(name, side, count) for count in (workload.fewer, workload.more))
    return (more - fewer) / (workload.more - workload.fewer)


def instructions(name: str, side: str, count: int) -> int:
    """What callgrind counts in a process that runs a workload of ``count`` items.

    Raises:
      RuntimeError: if valgrind fails, with the end of what it printed.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/%p"]
        command += [sys.executable, __file__, "--run", name, side, str(count)]
        # Random hashes and threads of BLAS would differ from run to run.
        fixed = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        process = subprocess.run(command, capture_output=True, text=True, env=os.environ | fixed)
    found = re.search(r"^==\d+== Collected : (\d+)", process.stderr, re.MULTILINE)
    if process.returncode or found is None:
        raise RuntimeError(f"valgrind failed ({process.returncode}): {process.stderr[-2000:]}")
    return int(found[1])


def run(name: str, side: str, count: int) -> None:
    """Run a workload, in the process that is measured."""
    make: Callable[[int], Iterable[Any]] = getattr(WORKLOADS[name], side)
    for length in (WARM, count):
        deque(make(length), maxlen=0)


def main() -> int:
    """Print a line for each workload; returns 1 if there is no valgrind."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help=", ".join(WORKLOADS))
    parser.add_argument("--run", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        name, side, count = options.run
        run(name, side, int(count))
        return 0
    if unknown := set(options.workloads) - set(WORKLOADS):
        parser.error(f"WORKLOAD must be one of {', '.join(WORKLOADS)}, got {min(unknown)}")
    if shutil.which("valgrind") is None:
        print("valgrind is not installed: it is needed to count instructions", file=sys.stderr)
        return 1
    valgrind = subprocess.run(["valgrind", "--version"], capture_output=True, text=True).stdout
    print(
        f"resumable {rs.__version__}, Python {platform.python_version()}, "
        f"NumPy {np.__version__}, {valgrind.strip()}, {platform.machine()}; instructions per item"
    )
    for name in options.workloads or WORKLOADS:
        library, by_hand = an_item(name, "library"), an_item(name, "by_hand")
        print(
            f"{name:12} resumable {library:9,.1f}   by hand {by_hand:9,.1f}   "
            f"{library / by_hand:.3f} x",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
