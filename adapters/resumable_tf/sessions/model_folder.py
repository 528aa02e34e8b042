"""The files of a model: the saved steps, and files of TensorFlow's own hook and saveable."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable
from typing import Any, Final

import tensorflow as tf

__all__ = ["REASON", "changed_since", "iterators_in", "models_in", "others_in", "steps_of"]

REASON: Final = (
    "the position of a tf.data iterator, which only tf.data can continue; finish the epoch with it, "
    "and begin the next one with the pipeline"
)


def models_in(folder: str | os.PathLike[str]) -> set[int]:
    """The steps of the models in ``folder``."""
    files = tf.io.gfile.listdir(os.fspath(folder))
    return _steps_in(name for name in files if name.endswith(".index"))


def steps_of(save_path: str) -> set[int]:
    """The steps of the files whose path begins with ``save_path``."""
    # The Saver does not count all checkpoints that stay, such as checkpoints kept every few hours.
    folder, name = os.path.split(save_path)
    names = tf.io.gfile.listdir(folder or ".")
    return _steps_in(found for found in names if found.startswith(f"{name}-"))


def changed_since(path: str, seconds: float) -> bool:
    """Whether the file at ``path`` was written at or after ``seconds``; remote, to a second."""
    try:
        return os.stat(path).st_mtime >= seconds
    except OSError:
        pass
    try:
        return bool(tf.io.gfile.stat(path).mtime_nsec / 1e9 >= math.floor(seconds))
    except tf.errors.OpError:
        return False


def others_in(folder: str | os.PathLike[str], name: str) -> str:
    """Files of TensorFlow's `CheckpointInputPipelineHook` for ``name``, for an error.

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


def _steps_in(names: Iterable[str]) -> set[int]:
    """The steps in the names of a model's files."""
    matches = (re.search(r"-([0-9]+)(\.[^/\\]*)?$", name) for name in names)
    return {int(match[1]) for match in matches if match}
