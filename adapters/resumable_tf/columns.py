"""The items of a block as arrays, an array for each tensor of a signature."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import tensorflow as tf

import resumable as rs
from resumable.core.block import Block, is_columns
from resumable.errors import shorten

__all__ = ["Columns", "converted", "leaves"]

Array: TypeAlias = npt.NDArray[Any]

ALIGNMENT: Final = 64
"""Alignment of an array's memory in bytes, for TensorFlow to use the array without a copy."""
PLAIN: Final = (bool, int, float, complex, np.generic)


class Columns:
    """Turns blocks into arrays with an item in each row.

    Args:
      signature: `tf.TensorSpec` objects in tuples and dicts, in the structure of one item.

    Attributes:
      signature: the structure of a block: each tensor has one more axis, the first.
    """

    def __init__(self, signature: Any) -> None:
        self._item = signature
        self._specs = tuple(leaves(signature, signature))
        self.signature = tf.nest.map_structure(_with_rows, signature)

    @staticmethod
    def fit(signature: Any) -> bool:
        """Whether all parts of ``signature`` are tensors of known rank, as blocks require."""
        try:
            specs = list(leaves(signature, signature))
        except rs.MalformedItem:
            return False
        return bool(specs) and all(
            type(spec) is tf.TensorSpec
            and spec.dtype not in (tf.variant, tf.resource)
            and spec.shape.rank is not None
            for spec in specs
        )

    @property
    def have_one_shape(self) -> bool:
        """Whether the shapes of all items are known to be the same, with elements in each tensor."""
        return all(spec.shape.num_elements() for spec in self._specs)

    def of(self, block: Block) -> Any:
        """The columns of ``block``, in the structure of the signature.

        An array of the right dtype is not copied.

        Raises:
          MalformedItem: if an item lacks the structure, the shapes or the dtypes of the signature,
            or if the items differ in shape.
        """
        if is_columns(block):
            parts: Iterator[Any] = leaves(self._item, block)
            arrays = [converted(spec, part) for spec, part in zip(self._specs, parts, strict=True)]
        else:
            rows = [list(leaves(self._item, item)) for item in block]
            values = zip(*rows, strict=True)
            arrays = [_stacked(spec, each) for spec, each in zip(self._specs, values, strict=True)]
        for spec, array in zip(self._specs, arrays, strict=True):
            if not spec.shape.is_compatible_with(array.shape[1:]):
                raise rs.MalformedItem(
                    f"an array has shape {array.shape[1:]}, and the output_signature has {spec}"
                )
        return tf.nest.pack_sequence_as(self._item, arrays)


def size_of(columns: Any) -> int:
    """About how many bytes the arrays of ``columns`` take."""
    arrays = tf.nest.flatten(columns)
    return sum(
        sum(map(_length, array.flat)) if array.dtype == object else array.nbytes for array in arrays
    )


def _length(value: Any) -> int:
    return len(value) if isinstance(value, (str, bytes)) else 1


def _with_rows(spec: tf.TensorSpec) -> tf.TensorSpec:
    return tf.TensorSpec(tf.TensorShape([None]).concatenate(spec.shape), spec.dtype, spec.name)


def leaves(signature: Any, value: Any) -> Iterator[Any]:
    """The parts of ``value`` at the leaves of ``signature``."""
    if isinstance(signature, Mapping):
        if not isinstance(value, Mapping) or value.keys() != signature.keys():
            raise _other_structure(signature, value)
        for key in sorted(signature):
            yield from leaves(signature[key], value[key])
    elif isinstance(signature, tuple):
        if not isinstance(value, tuple) or len(value) != len(signature):
            raise _other_structure(signature, value)
        for part, inner in zip(signature, value, strict=True):
            yield from leaves(part, inner)
    else:
        yield value


def _other_structure(signature: Any, value: Any) -> rs.MalformedItem:
    return rs.MalformedItem(
        f"the output_signature has the structure {shorten(signature)}, got {shorten(value)}"
    )


def _stacked(spec: tf.TensorSpec, values: Sequence[Any]) -> Array:
    if len(values) == 1:
        return converted(spec, values[0])[None]
    dtype, are_strings = spec.dtype.as_numpy_dtype, spec.dtype == tf.string
    if not are_strings and all(isinstance(value, PLAIN) for value in values):
        return np.array(values, dtype)
    arrays = [converted(spec, value) for value in values]
    shape = arrays[0].shape
    if any(array.shape != shape for array in arrays):
        raise rs.MalformedItem("the items of a block differ in shape")
    return np.stack(arrays, out=None if are_strings else _aligned((len(arrays), *shape), dtype))


def converted(spec: tf.TensorSpec, value: Any) -> Array:
    """``value`` as an array, converted as by `tf.data.Dataset.from_generator`."""
    try:
        return np.asarray(value, dtype=spec.dtype.as_numpy_dtype, order="C")
    except (ValueError, TypeError, OverflowError) as error:
        raise rs.MalformedItem(
            f"the output_signature has {spec}, got {shorten(value)}: {error}"
        ) from error


def _aligned(shape: tuple[int, ...], dtype: Any) -> Array:
    """An uninitialised array that TensorFlow can use without a copy."""
    count = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    memory = np.empty(count + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    array: Array = memory[start : start + count].view(dtype).reshape(shape)
    return array
