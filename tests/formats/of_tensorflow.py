"""Write TFRecord files by TensorFlow.

``python tests/formats/of_tensorflow.py tests/formats/of_tensorflow.tfrecord`` wrote that file, by TensorFlow 2.21.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any

__all__ = ["EXAMPLES", "serialised", "write"]

EXAMPLES: list[dict[str, Any]] = [
    {"image": b"\x89PNG\r\n", "label": 3, "box": [0.5, 1.5, -2.0, 1e-30], "tokens": [1, 2, 3]},
    {"image": b"", "label": -(2**63), "box": [0.0, 0.0, 0.0, 0.0], "tokens": []},
    {"image": b"x" * 200, "label": 2**63 - 1, "box": [1.0, 2.0, 3.0, 4.0], "tokens": [-1] * 300},
    {"image": "\u00fcber".encode(), "box": [9.0, 8.0, 7.0, 6.0], "words": [b"a", b"", b"ccc"]},
]
"""Features by name, of a few messages; each of them is of one kind in all."""


def serialised(features: dict[str, Any]) -> bytes:
    """A ``tf.train.Example`` with these features."""
    import tensorflow as tf

    made = {}
    for name, value in features.items():
        values = value if isinstance(value, list) else [value]
        if name in ("image", "words"):
            made[name] = tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
        elif name == "box":
            made[name] = tf.train.Feature(float_list=tf.train.FloatList(value=values))
        else:
            made[name] = tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    example = tf.train.Example(features=tf.train.Features(feature=made))
    data: bytes = example.SerializeToString(deterministic=True)
    return data


def write(path: str | os.PathLike[str], contents: Iterable[bytes]) -> None:
    """Write a file of records."""
    import tensorflow as tf

    with tf.io.TFRecordWriter(os.fspath(path)) as writer:
        for content in contents:
            writer.write(content)


if __name__ == "__main__":
    write(sys.argv[1], map(serialised, EXAMPLES))
