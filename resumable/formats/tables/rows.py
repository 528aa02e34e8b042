"""The decoded rows of a row group or a record batch: blocks and items of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, final

import numpy as np

from ...core.block import Block, Indices, block_items
from ...errors import MalformedItem
from .file_access import is_damage
from .values import ArrowArray, Column, as_column, is_text, python_values

T = TypeVar("T")


@final
class Rows:
    """Columns of equal length.

    Blocks are columns if every column is text or has numbers without nulls; otherwise blocks are
    lists of dicts.

    Args:
      where: the place of the rows in words: the file and the group.
      names: of the columns, at least one.
      arrays: Arrow arrays, one for each name.
      held: bytes that ``arrays`` keep in memory.

    Attributes:
      weight: bytes of ``arrays`` and of the columns made from ``arrays``.
    """

    def __init__(
        self, where: str, names: Sequence[str], arrays: Sequence[ArrowArray], held: int
    ) -> None:
        self._where = where
        self._names = names
        self._columns = [
            self._telling(name, as_column, array) for name, array in zip(names, arrays, strict=True)
        ]
        self._in_columns = all(
            isinstance(column, np.ndarray) or is_text(column.type) for column in self._columns
        )
        self.weight = held + sum(
            column.nbytes
            for column in self._columns
            if isinstance(column, np.ndarray) and column.flags.owndata
        )

    def gather(self, rows: Indices) -> Block:
        """The rows with the numbers ``rows``, shape (n,), as a block in separate memory.

        Raises:
          MalformedItem: if a value cannot be decoded.
        """
        return self._block(lambda column: _taken(column, rows))

    def gather_range(self, start: int, stop: int) -> Block:
        """The rows from ``start`` to ``stop``, as a block in separate memory.

        Raises:
          MalformedItem: if a value cannot be decoded.
        """
        return self._block(lambda column: _part(column, start, stop))

    def item(self, row: int) -> dict[str, Any]:
        """One row.

        Raises:
          MalformedItem: if a value cannot be decoded.
        """
        (item,) = self._dicts(lambda column: _part(column, row, row + 1))
        return item

    def _block(self, part: Callable[[Column], Column]) -> Block:
        """The same ``part`` of each column."""
        if not self._in_columns:
            return self._dicts(part)
        return {
            name: part(column)
            if isinstance(column, np.ndarray)
            else self._telling(name, python_values, part(column))
            for name, column in zip(self._names, self._columns, strict=True)
        }

    def _dicts(self, part: Callable[[Column], Column]) -> list[dict[str, Any]]:
        """The same ``part`` of each column, as a list of dicts."""
        names = self._names
        columns = [
            self._telling(name, _values, part(column))
            for name, column in zip(names, self._columns, strict=True)
        ]
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]

    def _telling(self, name: str, convert: Callable[[Any], T], column: Any) -> T:
        """The ``column`` converted; errors are raised with the place of the column."""
        try:
            return convert(column)
        except (ValueError, OverflowError, NotImplementedError) as error:
            if not is_damage(error):
                raise
            raise MalformedItem(f"{self._where}, column {name!r}: {error}") from error


def _taken(column: Column, rows: Indices) -> Column:
    return column.take(rows, 0) if isinstance(column, np.ndarray) else column.take(rows)


def _part(column: Column, start: int, stop: int) -> Column:
    # A copy, since an item that is an array must not be a view.
    if isinstance(column, np.ndarray):
        return column[start:stop].copy()
    return column.slice(start, stop - start)


def _values(column: Column) -> list[Any]:
    return block_items(column) if isinstance(column, np.ndarray) else python_values(column)
