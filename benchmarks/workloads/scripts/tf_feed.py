"""Items and batches a second into a graph: a pipeline, a bare generator, and tf.data alone."""

# python benchmarks/workloads/scripts/tf_feed.py, with TensorFlow installed; --quick for a test

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as tf1
from resumable_tf import make_dataset, make_initializable_iterator

import resumable as rs

BATCH: Final = 256
WIDTH: Final = 16
FEW, MANY = 20_480, 512_000
"""How many rows a case has, by how much time a row takes."""
Make = Callable[[Any, Any], Any]

ITEM = (tf.TensorSpec((WIDTH,), tf.float32), tf.TensorSpec((), tf.int64))
ROWS = (tf.TensorSpec((None, WIDTH), tf.float32), tf.TensorSpec((None,), tf.int64))


def shuffled(rows: Any, labels: Any) -> rs.Pipeline[Any]:
    """The rows with their labels, shuffled."""
    return rs.from_arrays((rows, labels)).shuffle(0)


def our_items(rows: Any, labels: Any) -> Any:
    """Of the pipeline, one by one."""
    return make_initializable_iterator(make_dataset(shuffled(rows, labels), ITEM))


def our_mapped_items(rows: Any, labels: Any) -> Any:
    """The same with a function of tf.data for each item."""
    dataset = make_dataset(shuffled(rows, labels), ITEM)
    return make_initializable_iterator(dataset.map(lambda n, item: (n, (2 * item[0], item[1]))))


def our_batched_items(rows: Any, labels: Any) -> Any:
    """Of the pipeline, batched by tf.data."""
    return make_initializable_iterator(make_dataset(shuffled(rows, labels), ITEM).batch(BATCH))


def our_batches(rows: Any, labels: Any) -> Any:
    """Of the pipeline, which batches."""
    dataset = make_dataset(shuffled(rows, labels).batch(BATCH), ROWS)
    return make_initializable_iterator(dataset)


def generated(size: int | None) -> Callable[[Any, Any], tf.data.Dataset]:
    """Of a loop by hand, which takes so many rows at once."""

    def make(rows: Any, labels: Any) -> tf.data.Dataset:
        def items() -> Iterator[Any]:
            for index in np.random.default_rng(0).permutation(len(rows)):
                yield rows[index], labels[index]

        def batches() -> Iterator[Any]:
            order = np.random.default_rng(0).permutation(len(rows))
            for start in range(0, len(rows), size or 1):
                part = order[start : start + (size or 1)]
                yield rows.take(part, 0), labels.take(part, 0)

        if size is None:
            return tf.data.Dataset.from_generator(items, output_signature=ITEM)
        return tf.data.Dataset.from_generator(batches, output_signature=ROWS)

    return make


def plain(rows: Any, labels: Any) -> tf.data.Dataset:
    """Slices of arrays, in order, with a native map."""
    slices = tf.data.Dataset.from_tensor_slices((rows, labels))
    return slices.map(lambda row, label: (2 * row, label))


def iterated(make: Callable[[Any, Any], tf.data.Dataset]) -> Make:
    """TensorFlow's own iterator."""
    return lambda rows, labels: tf1.data.make_initializable_iterator(make(rows, labels))


CASES: dict[str, tuple[int, int, Make]] = {
    "items: make_dataset": (1, FEW, our_items),
    "items: make_dataset, native map": (1, FEW, our_mapped_items),
    "items: from_generator": (1, FEW, iterated(generated(None))),
    "items: from_generator over batches, unbatch": (
        1,
        FEW,
        iterated(lambda rows, labels: generated(BATCH)(rows, labels).unbatch()),
    ),
    "items: tf.data, native map": (1, FEW, iterated(plain)),
    "batches: make_dataset of items, tf.data's batch": (BATCH, MANY, our_batched_items),
    "batches: make_dataset of batches": (BATCH, MANY, our_batches),
    "batches: from_generator over batches": (BATCH, MANY, iterated(generated(BATCH))),
    "batches: tf.data, native map, batch": (
        BATCH,
        FEW,
        iterated(lambda rows, labels: plain(rows, labels).batch(BATCH)),
    ),
}
RATIOS = [
    ("items: make_dataset", "items: from_generator over batches, unbatch"),
    ("items: make_dataset", "items: from_generator"),
    ("items: make_dataset", "items: tf.data, native map"),
    ("items: make_dataset, native map", "items: tf.data, native map"),
    ("batches: make_dataset of items, tf.data's batch", "batches: from_generator over batches"),
    ("batches: make_dataset of batches", "batches: from_generator over batches"),
    ("batches: make_dataset of batches", "batches: tf.data, native map, batch"),
]


def rate(make: Make, per_element: int, length: int) -> float:
    """Rows a second through a loop of the graph."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(length, WIDTH)).astype(np.float32)
    labels = np.arange(length)
    with tf.Graph().as_default(), tf1.Session() as session:
        iterator = make(rows, labels)
        count = length // per_element

        def body(number: tf.Tensor) -> tf.Tensor:
            with tf.control_dependencies(tf.nest.flatten(iterator.get_next())):
                return number + 1

        loop = tf.while_loop(lambda number: number < count, body, [0], parallel_iterations=1)
        session.run([tf1.local_variables_initializer(), iterator.initializer])
        began = time.perf_counter()
        session.run(loop)
        return count * per_element / (time.perf_counter() - began)


def rates(share: int, rounds: int) -> dict[str, float]:
    """The best rate of each case, with one part in ``share`` of its rows; the cases take turns."""
    best = dict.fromkeys(CASES, 0.0)
    for _ in range(rounds):
        for name, (per_element, length, make) in CASES.items():
            best[name] = max(best[name], rate(make, per_element, length // share))
    return best


def main(arguments: list[str] | None = None) -> None:
    """Print a table and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few rows, once")
    quick = parser.parse_args(arguments).quick
    best = rates(20, 1) if quick else rates(1, 5)
    print(f"Python {platform.python_version()}, TensorFlow {tf.__version__}")
    for name, found in best.items():
        print(f"{name:50} {found:>12,.0f} rows a second")
    for ours, other in RATIOS:
        print(f"{best[ours] / best[other]:6.2f} x   {ours}  /  {other}")


if __name__ == "__main__":
    main()
