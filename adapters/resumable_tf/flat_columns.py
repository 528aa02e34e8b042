"""Blocks of items with different shapes, as the concatenated elements of all items."""

# Items that differ in shape cannot be stacked. One by one, each item would cost a call into Python
# and a separate data set in the graph. So a block has all elements of a tensor in one array, and
# the shapes in another. The graph splits the elements again.

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

import resumable as rs
from resumable.core.block import Block, block_items

from .columns import Array, Columns, converted, leaves

__all__ = ["FlatColumns"]


class FlatColumns(Columns):
    """Turns blocks into arrays with the elements of all items and arrays with the shapes.

    Args:
      signature: `tf.TensorSpec` objects in tuples and dicts, in the structure of one item.

    Attributes:
      signature: of a block: for each tensor of an item, elements of shape (sum of sizes,) and shapes of shape
        (items, rank), int64.
    """

    def __init__(self, signature: Any) -> None:
        super().__init__(signature)
        self.signature = tuple(
            (tf.TensorSpec((None,), spec.dtype), tf.TensorSpec((None, spec.shape.rank), tf.int64))
            for spec in self._specs
        )

    def of(self, block: Block) -> Any:
        """The elements and the shapes of the items of ``block``, in the structure of the signature.

        Raises:
          MalformedItem: if an item has not the structure, the shapes or the dtypes of the signature.
        """
        rows = [list(leaves(self._item, item)) for item in block_items(block)]
        values = zip(*rows, strict=True)
        return tuple(_flattened(spec, each) for spec, each in zip(self._specs, values, strict=True))

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def unbatched(self, numbers: Any, parts: Any) -> tf.data.Dataset:
        """The numbered items of a block, for a ``flat_map`` of tf.data."""
        places = []
        for _, shapes in parts:
            sizes = tf.reduce_prod(shapes, 1)
            places.append((tf.cumsum(sizes, exclusive=True), sizes, shapes))

        @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
        def item(number: Any, places: Any) -> Any:
            made = [
                _cut(flat, start, size, shape, spec)
                for spec, (flat, _), (start, size, shape) in zip(
                    self._specs, parts, places, strict=True
                )
            ]
            return number, tf.nest.pack_sequence_as(self._item, made)

        return tf.data.Dataset.from_tensor_slices((numbers, tuple(places))).map(item)


@tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
def _cut(flat: Any, start: Any, size: Any, shape: Any, spec: tf.TensorSpec) -> tf.Tensor:
    elements = tf.slice(flat, [start], [size])
    if spec.shape.rank != 1:
        elements = tf.reshape(elements, shape)
    return tf.ensure_shape(elements, spec.shape)


def _flattened(spec: tf.TensorSpec, values: Sequence[Any]) -> tuple[Array, Array]:
    arrays = [converted(spec, value) for value in values]
    shapes = [array.shape for array in arrays]
    for shape in set(shapes):
        if not spec.shape.is_compatible_with(shape):
            raise rs.MalformedItem(
                f"an array has shape {shape}, and the output_signature has {spec}"
            )
    elements = np.concatenate([array.ravel() for array in arrays])
    return elements, np.array(shapes, np.int64).reshape(len(shapes), spec.shape.rank)
