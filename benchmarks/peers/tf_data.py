"""tf.data."""

# Recommended: shuffle, map, batch and prefetch as its guide writes them; a function that TensorFlow
# can compile is compiled, others go through `numpy_function`. Lean: indices are shuffled and
# batched, and one map makes a batch of them. Batches are tensors.

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np

from benchmarks.functions import Each, identity
from benchmarks.work import (
    SEED,
    Arrays,
    Bucket,
    JsonLines,
    Pack,
    Prepare,
    Start,
    Stream,
    Unsupported,
    Work,
)

NAME = "tf.data"
DISTRIBUTION = "tensorflow-cpu"
NEEDS = ("tensorflow",)
EXACT_WINDOW = "yes: all items of the buffer are in the checkpoint"

CHUNK = 1024


def configurations(work: Work) -> dict[str, Prepare]:
    """Recommended, with functions of items, and lean, with a function of batches."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if work.workers and work.executor == "process":
        raise Unsupported("calls Python functions in threads only")
    if isinstance(work.groups, Pack):
        raise Unsupported("has no packing")
    if isinstance(work.groups, Bucket):
        return {"": lambda folder: _recommended(work)}
    if work.workers:
        return {"": lambda folder: _recommended(work)}
    if work.batch is None:
        return {
            "recommended": lambda folder: _recommended(work),
            "lean": lambda folder: _as_numpy(_recommended(work)),
        }
    return {"recommended": lambda folder: _recommended(work), "lean": lambda folder: _lean(work)}


def _recommended(work: Work) -> Start:
    import tensorflow as tf

    data = _source(work)
    if work.shuffle or work.window:
        data = data.shuffle(work.window or len(work.source), SEED)
    if work.map is not None:
        data = _mapped(data, work, work.workers or tf.data.AUTOTUNE)
    if work.keep is not None:
        data = data.filter(work.keep)
    if isinstance(work.groups, Bucket):
        data = data.bucket_by_sequence_length(
            lambda document: tf.shape(document)[0],
            work.groups.boundaries,
            [work.batch] * (len(work.groups.boundaries) + 1),
        )
    elif work.batch is not None:
        data = data.batch(work.batch)
    return lambda: data.prefetch(tf.data.AUTOTUNE)


def _source(work: Work) -> Any:
    import tensorflow as tf

    source = work.source
    if isinstance(source, Arrays):
        return tf.data.Dataset.from_tensor_slices(tuple(source.columns.values()))
    if isinstance(source, JsonLines):
        return tf.data.TextLineDataset(str(source.path))
    if isinstance(source, Stream):
        integer = tf.TensorSpec((), tf.int64)
        return tf.data.Dataset.from_generator(source.make, output_signature=integer)
    return tf.data.Dataset.range(len(source))


def _mapped(data: Any, work: Work, parallel: int) -> Any:
    """The map, compiled if the function allows it."""
    try:
        return data.map(work.map, num_parallel_calls=parallel)
    except Exception:
        return data.map(_in_python(work.map or identity, work), num_parallel_calls=parallel)


def _in_python(fn: Callable[[Any], Any], work: Work) -> Callable[[Any], Any]:
    import tensorflow as tf

    example = work.item
    single = not isinstance(example, tuple)
    parts = (example,) if single else example
    types = [tf.as_dtype(np.asarray(part).dtype) for part in parts]

    def call(item: Any) -> Any:
        values = tf.numpy_function(fn, [item], types)
        for value, part in zip(values, parts, strict=True) if work.groups else ():
            value.set_shape([None] * np.ndim(part))
        return values[0] if single else tuple(values)

    return call


def _lean(work: Work) -> Start:
    import tensorflow as tf

    if isinstance(work.source, Arrays):
        columns = [tf.constant(column) for column in work.source.columns.values()]
        indices = tf.data.Dataset.range(len(work.source)).shuffle(len(work.source), SEED)
        batches = indices.batch(work.batch).map(
            lambda part: tuple(tf.gather(column, part) for column in columns),
            num_parallel_calls=tf.data.AUTOTUNE,
        )
        return lambda: batches.prefetch(tf.data.AUTOTUNE)
    data = _in_chunks(work.source) if isinstance(work.source, Stream) else _source(work)
    if work.shuffle or work.window:
        data = data.shuffle(work.window or len(work.source), SEED)
    data = data.batch(work.batch)
    if work.map is not None:
        each = Each(work)
        data = data.map(_in_python(lambda items: each(items.tolist()), work))
    return lambda: data.prefetch(tf.data.AUTOTUNE)


def _in_chunks(source: Stream) -> Any:
    """The items of a generator, in arrays of many that are then taken apart."""
    import tensorflow as tf

    def chunks() -> Iterator[Any]:
        items = source.make()
        while chunk := list(islice(items, CHUNK)):
            yield np.asarray(chunk)

    spec = tf.TensorSpec((None,), tf.int64)
    return tf.data.Dataset.from_generator(chunks, output_signature=spec).unbatch()


def _as_numpy(start: Start) -> Start:
    def start_as_numpy() -> Any:
        data: Any = start()
        return data.as_numpy_iterator()

    return start_as_numpy
