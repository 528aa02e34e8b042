"""Make items of the records of LitData."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from ...errors import MalformedItem
from .decoding import check_reaches, raise_where
from .litdata_leaves import Leaf, array_or_tensor
from .table_chunk import TableRow
from .treespec import Tree

ItemDecoder: TypeAlias = Callable[[Any], Any]
"""Makes the item of a record."""


class TokenDecoder:
    """Makes an array of a block of tokens: shape (block_size,).

    Args:
      dtype: of the tokens.
      data_format: LitData's name for the type of the array.
      as_torch: whether tensors are delivered as tensors of torch.
    """

    def __init__(self, dtype: np.dtype[Any], data_format: str, as_torch: bool) -> None:
        self._dtype = dtype
        self._finish = array_or_tensor(as_torch and "tensor" in data_format)

    def __call__(self, record: bytes) -> Any:
        return self._finish(np.frombuffer(record, self._dtype).copy())


class TreeDecoder:
    """Makes an item of a record: the sizes of the leaves (little-endian, uint32), then the leaves.

    The rows of tables are handed out unchanged.

    Args:
      leaves: decode the leaves.
      tree: makes the item of the decoded leaves.
    """

    def __init__(self, leaves: Sequence[Leaf], tree: Tree) -> None:
        self._names = [leaf.name for leaf in leaves]
        self._decoders = [leaf.decode for leaf in leaves]
        self._tree = tree
        self._sizes = struct.Struct(f"<{len(leaves)}I")

    def __call__(self, record: bytes | TableRow) -> Any:
        if isinstance(record, TableRow):
            return record.item
        place = self._sizes.size
        check_reaches(place, record, "the sizes of its leaves")
        sizes = self._sizes.unpack_from(record)
        if place + sum(sizes) != len(record):
            raise MalformedItem(
                f"its leaves have {sum(sizes)} bytes behind byte {place}, of {len(record)} in all"
            )
        found: list[Any] = []
        try:
            for size, decode in zip(sizes, self._decoders, strict=True):
                end = place + size
                found.append(decode(record[place:end]))
                place = end
        except Exception as error:
            raise_where(error, f"leaf {len(found)}, {self._names[len(found)]}")
        return self._tree(iter(found))
