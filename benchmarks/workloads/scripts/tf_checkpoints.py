"""Measure an input's checkpoint, ours and tf.data's own, for growing shuffle buffers."""

# python benchmarks/workloads/scripts/tf_checkpoints.py, with TensorFlow installed

from __future__ import annotations

import platform
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import tensorflow as tf
from resumable_tf import CheckpointableInput

import resumable as rs
from resumable.checkpoint.envelope import Checkpoint, encode

SIZES = [10**3, 10**4, 10**5, 10**6]
CONSUMED = 5


def seconds(work: Callable[[], object]) -> float:
    """The time of one call."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def saved_and_restored(make: Callable[[], tuple[Any, Iterator[Any]]]) -> tuple[int, float, float]:
    """Bytes on disk, seconds to save, and seconds to restore up to and including the next item."""
    folder = Path(tempfile.mkdtemp())
    try:
        tracked, items = make()
        for _ in islice(items, CONSUMED):
            pass
        checkpoint = tf.train.Checkpoint(input=tracked)
        saving = seconds(lambda: checkpoint.save(str(folder / "ckpt")))
        expected = int(next(items))
        size = sum(path.stat().st_size for path in folder.glob("ckpt-*"))
        tracked, items = make()
        checkpoint = tf.train.Checkpoint(input=tracked)

        def restore() -> None:
            checkpoint.restore(str(folder / "ckpt-1"))
            assert int(next(items)) == expected

        return size, saving, seconds(restore)
    finally:
        shutil.rmtree(folder)


def ours(pipeline: rs.Pipeline[Any]) -> Callable[[], tuple[Any, Iterator[Any]]]:
    """A function that makes a tracked object for ``pipeline`` and an iterator of its items."""

    def make() -> tuple[Any, Iterator[Any]]:
        tracked = CheckpointableInput(pipeline)
        return tracked, iter(tracked)

    return make


def theirs(length: int) -> Callable[[], tuple[Any, Iterator[Any]]]:
    """The same for a shuffle of tf.data with a buffer of ``length`` items."""

    def make() -> tuple[Any, Iterator[Any]]:
        iterator = iter(tf.data.Dataset.range(2 * length).shuffle(length, seed=1))
        return iterator, iterator

    return make


def file_bytes(pipeline: rs.Pipeline[Any]) -> int:
    """The size of the file that a hook writes."""
    with pipeline.start() as iterator:
        next(iterator)
        return len(encode(Checkpoint(10**6, time.time(), iterator.get_state())))


def main() -> None:
    """Print a table."""
    saved_and_restored(ours(rs.range(9).shuffle(1)))  # the first save pays for what is done once
    saved_and_restored(theirs(9))
    print(f"Python {platform.python_version()}, TensorFlow {tf.__version__}")
    for length in SIZES:
        shuffled = rs.range(2 * length).shuffle(1)
        windowed = rs.range(2 * length).shuffle(1, window=length)
        rows = {
            "shuffle": ours(shuffled),
            "shuffle(window)": ours(windowed),
            "tf.data": theirs(length),
        }
        print(f"n={length}: a file of ours has {file_bytes(shuffled)} bytes")
        for name, make in rows.items():
            size, saving, restoring = saved_and_restored(make)
            print(
                f"n={length} {name:16} {size:>11,} bytes in a tf.train.Checkpoint, "
                f"save {1e3 * saving:.1f} ms, restore {1e3 * restoring:.1f} ms"
            )


if __name__ == "__main__":
    main()
