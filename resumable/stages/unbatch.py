"""Split batches into their items."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from ..core.block import block_items
from ..core.expansion import ExpandingIterator
from ..core.stage import ITEMS, RANK, Reliance
from ..core.stage_iterator import StageIterator
from ..core.transform import Transform
from ..errors import MalformedItem


@final
@dataclass(frozen=True, eq=False, repr=False)
class Unbatch(Transform[Any]):
    """The items of every batch: rows of an array, tuples or dicts of rows, entries of a list.

    It undoes ``batch``, also of batches that the source delivers.

    State: O(1), upstream's from before the batch it is inside, and an offset. A resume reads
    that batch again.

    Raises:
      MalformedItem: while iterating, if an item is not a batch, or its columns differ in length.

    >>> list(rs.range(5).batch(2).unbatch())
    [0, 1, 2, 3, 4]
    """

    relies_on: ClassVar[Reliance] = ITEMS | RANK
    state_cost = "an offset; a resume reads the batch it is inside again"

    def start(self, epoch: int = 0) -> StageIterator[Any]:
        return ExpandingIterator(self, epoch, rows_of)


def rows_of(batch: Any) -> list[Any]:
    """The rows of ``batch``, one Python object each.

    Raises:
      MalformedItem: if it is none, or its columns differ in length.
    """
    if isinstance(batch, list) or (isinstance(batch, np.ndarray) and batch.ndim):
        return block_items(batch)
    if isinstance(batch, Mapping) and batch:
        columns = [rows_of(column) for column in batch.values()]
        _check_lengths(columns)
        return [dict(zip(batch, row, strict=True)) for row in zip(*columns, strict=True)]
    if isinstance(batch, tuple) and batch:
        columns = [rows_of(column) for column in batch]
        _check_lengths(columns)
        make = getattr(type(batch), "_make", tuple)
        return [make(row) for row in zip(*columns, strict=True)]
    raise MalformedItem(
        f"unbatch and rebatch need batches (arrays, lists, tuples, dicts), got {type(batch).__name__}"
    )


def _check_lengths(columns: list[list[Any]]) -> None:
    lengths = {len(column) for column in columns}
    if len(lengths) > 1:
        raise MalformedItem(f"columns of a batch must have one length, got {sorted(lengths)}")
