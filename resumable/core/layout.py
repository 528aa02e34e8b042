"""The form of a block of a stage's items when passed to a function: a list, or certain columns."""

# Items move in the cheapest form: as columns through a shuffle, as a list out of a thread, as both
# where two inputs meet. So the form of a pulled block depends on prefetches, workers, and the place
# of a resume. Arguments of functions and forms of batches must not depend on these. So each stage
# has a `Layout`. A block is converted only when the block is passed to a function, or made into a
# batch.

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Final, final

import numpy as np

from ..errors import MalformedItem
from .block import (
    Block,
    as_batch,
    block_items,
    block_length,
    columns_of,
    same_columns,
    stack,
    without_rows,
)


class Layout(ABC):
    """The form of a block of the items of a stage, and of a batch of the items.

    Both depend on the items alone, and not on the block in which the items were moved. Moved
    columns already in the right form are not copied.
    """

    @abstractmethod
    def block(self, moved: Block) -> Block:
        """The items of ``moved`` as a block of this layout."""

    @abstractmethod
    def batch(self, moved: Block) -> Any:
        """The items of ``moved``, at least one, as stacked by `batch`.

        Raises:
          MalformedItem: if the items cannot be stacked.
        """

    @abstractmethod
    def batches(self, moved: Iterator[Block]) -> Iterator[Any]:
        """The batch of each of ``moved``, for most blocks without a call of Python."""


class _Stacking(Layout):
    def batch(self, moved: Block) -> Any:
        return as_batch(moved)

    def batches(self, moved: Iterator[Block]) -> Iterator[Any]:
        for block in moved:
            yield stack(block) if isinstance(block, list) else as_batch(block)


class _Lists(_Stacking):
    def block(self, moved: Block) -> Block:
        return block_items(moved)


@final
class _Stacked(_Stacking):
    def block(self, moved: Block) -> Block:
        if not block_length(moved):
            return []
        try:
            return as_batch(moved)
        except MalformedItem:  # rows of several inputs, of other lengths or fields
            return block_items(moved)


@final
class ColumnsLike(Layout):
    """Columns with the structure, the dtypes and the row shapes of other columns.

    Args:
      columns: an array of shape (n, ...), or a dict or tuple of columns. The columns are not kept.
    """

    def __init__(self, columns: Block) -> None:
        self.empty = without_rows(columns)

    def block(self, moved: Block) -> Block:
        return columns_of(moved, self.empty) if isinstance(moved, list) else moved

    batch = block

    def batches(self, moved: Iterator[Block]) -> Iterator[Any]:
        for block in moved:
            yield columns_of(block, self.empty) if isinstance(block, list) else block


@final
class BatchesOf(_Lists):
    """Lists of batches stacked by the library, so that the layout of the rows is known.

    Args:
      rows: the layout of the stacked items.
    """

    def __init__(self, rows: Layout) -> None:
        self.rows = rows


LISTS: Final[Layout] = _Lists()
"""A block is a list of items; a batch is the stack of the items."""
STACKED: Final[Layout] = _Stacked()
"""A block is the batch of its items: columns, some maybe lists; a list if stacking fails."""
INTEGERS: Final[Layout] = ColumnsLike(np.empty(0, np.int64))
"""A block and a batch are an int64 array of shape (n,)."""


def common_layout(layouts: Sequence[Layout]) -> Layout:
    """The common layout of ``layouts`` (one or more); `LISTS` if layouts differ."""
    first = layouts[0]
    others = [one for one in layouts if one is not first]
    return first if all(_alike(one, first) for one in others) else LISTS


def _alike(one: Layout, other: Layout) -> bool:
    if isinstance(one, ColumnsLike) and isinstance(other, ColumnsLike):
        return same_columns(one.empty, other.empty)
    if isinstance(one, BatchesOf) and isinstance(other, BatchesOf):
        return _alike(one.rows, other.rows)
    return one is other


def stacked_layout(rows: Layout) -> Layout:
    """The layout of batches stacked from items with the layout ``rows``."""
    return LISTS if isinstance(rows, _Lists) else BatchesOf(rows)


def rows_layout(batches: Layout) -> Layout:
    """The layout of the rows of batches with the layout ``batches``."""
    return batches.rows if isinstance(batches, BatchesOf) else LISTS


def joined_layout(layouts: dict[Any, Layout] | list[Layout]) -> Layout:
    """The layout of dicts or tuples with one item of each of ``layouts``."""
    parts = list(layouts.values() if isinstance(layouts, dict) else layouts)
    if any(isinstance(part, _Lists) for part in parts):
        return LISTS
    columns = [part.empty for part in parts if isinstance(part, ColumnsLike)]
    if len(columns) < len(parts):
        return STACKED
    if isinstance(layouts, dict):
        return ColumnsLike(dict(zip(layouts, columns, strict=True)))
    return ColumnsLike(tuple(columns))
