"""Chunks of LitData with the items as rows of an Arrow table after the head."""

from __future__ import annotations

import io
from collections import defaultdict
from typing import Any, Final, NamedTuple, final

from ...core.block import Indices
from ...errors import MalformedItem
from ..packages import imported
from ..tables.arrow_file import ArrowFile
from ..tables.file_access import ByteRanges, TableFileAccess
from .ranges import Reading
from .shard import ShardDirectory

MAGIC: Final = b"LDARW01\0"
TAIL: Final = 4 + len(MAGIC)
"""Bytes after the table: the size of the table, and the magic bytes."""

FEW_ROWS: Final = 16
"""Up to so many rows of a record batch are made one by one, and more if a row is repeated."""


class TableRow(NamedTuple):
    """An item that is already decoded."""

    item: dict[str, Any]


def table_start(tail: bytes, size: int) -> int | None:
    """The start of the table in a chunk of ``size`` bytes, by the last bytes; None without a table.

    Raises:
      ValueError: if the size of the table is impossible.
    """
    if len(tail) < TAIL or not tail.endswith(MAGIC):
        return None
    length = int.from_bytes(tail[:4], "little")
    if not 0 < length <= size - TAIL:
        raise ValueError(f"it has {size} bytes, and its table {length}")
    return size - TAIL - length


@final
class BytesAccess(TableFileAccess):
    """The bytes of a table in memory, as a file."""

    is_remote = True
    file: Any = None

    def __init__(self, data: bytes, path: str) -> None:
        self._data = data
        self.path, self.size = path, len(data)

    def check_unchanged(self) -> None:
        """Bytes in memory do not change."""

    def open(self, ranges: ByteRanges = ()) -> Any:
        # Pyarrow's own reader of bytes allocates all requested memory, even beyond the end.
        return io.BytesIO(self._data)


class TableDirectory(ShardDirectory):
    """The rows of a table, decoded by record batch on demand."""

    holds_content = True

    def __init__(self, table: ArrowFile, nbytes: int) -> None:
        self._table = table
        self._ends = table.rows.cumsum()
        self.nbytes = nbytes

    def reading(self, numbers: Indices) -> Reading[list[Any]]:
        yield from ()
        batches = self._ends.searchsorted(numbers, side="right").tolist()
        wanted = defaultdict[int, list[int]](list)
        for place, batch in enumerate(batches):
            wanted[batch].append(place)
        found: list[Any] = [None] * len(batches)
        for batch, places in wanted.items():
            begin = int(self._ends[batch] - self._table.rows[batch])
            rows = (numbers[places] - begin).tolist()
            for place, item in zip(places, self._rows(batch, rows), strict=True):
                found[place] = TableRow(item)
        return found

    def _rows(self, batch: int, numbers: list[int]) -> list[dict[str, Any]]:
        names = list(self._table.names)
        arrays = self._table.arrays(batch, names)
        try:
            # Users may write to lists and dicts, so two items of one row must not share any.
            if len(numbers) <= FEW_ROWS or len(set(numbers)) < len(numbers):
                return [
                    {name: array[number].as_py() for name, array in zip(names, arrays, strict=True)}
                    for number in numbers
                ]
            columns = [array.to_pylist() for array in arrays]
        except ValueError as error:  # text that is no UTF-8, and times out of range
            raise MalformedItem(f"{self._table.access.path}: {error}") from error
        return [
            {name: column[number] for name, column in zip(names, columns, strict=True)}
            for number in numbers
        ]


def check_tables_are_read() -> None:
    """Check that pyarrow is installed.

    Raises:
      MissingDependency: if pyarrow is not installed.
    """
    imported("pyarrow", "chunks of LitData with Arrow tables need pyarrow", "arrow")


def table_directory(data: bytes, items: int, path: str) -> ShardDirectory:
    """The rows of the table in ``data``, the last part of the chunk at ``path``.

    Raises:
      MalformedItem, ValueError: if the table is damaged, or has another number of ``items``.
      MissingDependency: if pyarrow is not installed.
    """
    check_tables_are_read()
    table = ArrowFile(BytesAccess(data, f"{path}, its table"))
    if table.rows.sum() != items:
        raise ValueError(f"its table has {table.rows.sum()} rows, and {items} by the index")
    if len(set(table.names)) < len(table.names):
        raise ValueError("its table has two columns of one name")
    return TableDirectory(table, len(data))
