"""Recognise what TensorFlow's own hook and saveable have written: the position of a tf.data iterator."""

from __future__ import annotations

import os
import re
from typing import Any, Final

import tensorflow as tf

__all__ = ["REASON", "iterators_in", "others_in"]

REASON: Final = (
    "the position of a tf.data iterator, which only tf.data can continue; finish the epoch with it, "
    "and begin the next one with the pipeline"
)


def others_in(folder: str | os.PathLike[str], name: str) -> str:
    """What TensorFlow's `CheckpointInputPipelineHook` has saved as ``name``, for an error.

    Args:
      folder: the model's folder.
      name: of the input.

    Returns:
      nothing, or the rest of a sentence that names the newest file.
    """
    try:
        files = tf.io.gfile.listdir(os.fspath(folder))
    except tf.errors.OpError:
        return ""
    matches = (re.fullmatch(rf"{re.escape(name)}\.ckpt-([0-9]+)\.index", file) for file in files)
    found = (match for match in matches if match)
    newest = max(found, key=lambda match: int(match[1]), default=None)
    if newest is None:
        return ""
    return (
        f", but {os.path.join(os.fspath(folder), newest[0])} is there, written by tf.data's own "
        f"CheckpointInputPipelineHook: it holds {REASON}"
    )


def iterators_in(reader: Any) -> list[str]:
    """The keys of a checkpoint of TensorFlow that hold a serialised iterator of tf.data."""
    types = reader.get_variable_to_dtype_map()
    return sorted(key for key, dtype in types.items() if dtype == tf.variant)
