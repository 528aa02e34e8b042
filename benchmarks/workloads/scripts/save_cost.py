"""Measure a durable save against its bare system calls, and an asynchronous one in the loop.

Run as `python benchmarks/workloads/scripts/save_cost.py [--folder DIR]`, with DIR on the disk in question.
"""

# The two sides of each comparison take turns in one run, so that other work on the machine slows
# both alike.

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import resumable as rs
from resumable.checkpoint.envelope import encode

PIPELINE = (
    rs.range(10**9).shuffle(0).map(abs).batch(64).repeat().take(10**9).enumerate()
)  # six stages; a state of some 300 bytes
STEP_SECONDS = 0.004
MOST_RATIO = 1.5
MOST_STALL = 100e-6


def bare_save(folder: Path, number: int, data: bytes, kept: int | None) -> float:
    """Seconds of the system calls that a durable save must make."""
    started = time.perf_counter()
    temporary, final = f"{folder}/.tmp-{number}", f"{folder}/bare-{number:012d}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    os.write(descriptor, data)
    os.fsync(descriptor)
    os.close(descriptor)
    os.rename(temporary, final)
    descriptor = os.open(folder, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
    if kept is not None and number >= kept:
        os.unlink(f"{folder}/bare-{number - kept:012d}")
    return time.perf_counter() - started


def durable(folder: Path, saves: int, kept: int | None) -> tuple[list[float], list[float], int]:
    """Seconds of bare and of whole saves, in turns, and the bytes of a checkpoint."""
    bare, whole = [], []
    (folder / "bare").mkdir()
    retention = None if kept is None else rs.Retention(kept)
    with rs.Checkpointer(
        folder / "input", rs.AtEnd(), save_at_end=False, retention=retention
    ) as checkpointer:
        loop = checkpointer.resume(PIPELINE)
        for number in range(saves):
            next(loop)
            data = encode(rs.Checkpoint(loop.step, time.time(), loop.iterator.get_state()))
            bare.append(bare_save(folder / "bare", number, data, kept))
            started = time.perf_counter()
            checkpointer.save()
            whole.append(time.perf_counter() - started)
    return bare, whole, len(data)


def between_steps(folder: Path, saves: int) -> tuple[list[float], list[float]]:
    """Seconds from one step to the next without a save and with an asynchronous one."""
    plain: list[float] = []
    saving: list[float] = []
    with rs.Checkpointer(folder, rs.EverySteps(2), asynchronous=True) as checkpointer:
        loop = checkpointer.resume(PIPELINE)
        next(loop)
        for number in range(2 * saves):
            time.sleep(STEP_SECONDS)  # a training step, longer than a save takes to be written
            started = time.perf_counter()
            next(loop)
            seconds = time.perf_counter() - started
            (saving if number % 2 else plain).append(seconds)
    return plain, saving


@contextmanager
def folder_in(parent: Path | None) -> Iterator[Path]:
    """A new folder in ``parent``, removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="resumable-save-cost-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def main() -> int:
    """Print both comparisons; returns 1 if one is over its budget."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--saves", type=int, default=400)
    parser.add_argument("--folder", type=Path, help="where to save (default: a temporary folder)")
    options = parser.parse_args()
    print(
        f"{platform.system()} {platform.release()}, Python {platform.python_version()}, "
        f"NumPy {np.__version__}, {options.saves} saves, medians"
    )
    within = True
    for kept in (None, 5):
        with folder_in(options.folder) as folder:
            bare, whole, size = durable(folder, options.saves, kept)
        ratio = statistics.median(whole) / statistics.median(bare)
        within = within and ratio <= MOST_RATIO
        print(
            f"a durable save of {size} bytes, {'all' if kept is None else f'the newest {kept}'} kept: "
            f"{1e6 * statistics.median(whole):.0f} us, its bare system calls "
            f"{1e6 * statistics.median(bare):.0f} us, {ratio:.2f} x (<= {MOST_RATIO})"
        )
    with folder_in(options.folder) as folder:
        plain, saving = between_steps(folder, options.saves)
    stall = statistics.median(saving) - statistics.median(plain)
    print(
        f"an asynchronous save: {1e6 * stall:.0f} us more to the next step than the "
        f"{1e6 * statistics.median(plain):.0f} us without one (<= {1e6 * MOST_STALL:.0f})"
    )
    return 0 if within and stall <= MOST_STALL else 1


if __name__ == "__main__":
    sys.exit(main())
