"""The chunks of LitData, and where the items lie in them."""

# A chunk is the number of its items (all numbers are little-endian, uint32), where each of them begins
# and the last one ends, and the items. It may be compressed as a whole, item by item, or in batches
# (`framed_chunk.py`); it may have all items in an Arrow table behind it (`table_chunk.py`); and its
# items may be tokens, which are read as if they were one array.

from __future__ import annotations

from typing import Any, Final, NamedTuple, final

import numpy as np

from ...core.block import Indices
from ..data_files import AnyFile
from ..io.held_ranges import Ranges
from .framed_chunk import MAGIC, framed_directory
from .index_json import IndexPart
from .ranges import Reading
from .shard import (
    DataShard,
    OffsetTable,
    Positions,
    RecordsInFile,
    RecordsInMemory,
    ShardDirectory,
    checked_offsets,
)
from .table_chunk import MAGIC as TABLE_MAGIC
from .table_chunk import TAIL, table_directory, table_start
from .unpacking import unpacked

LARGEST_ITEM: Final = (1 << 32) - 1
"""Bytes of an item, which the offsets of a chunk can tell."""


class ChunkDescription(NamedTuple):
    """A chunk as the index describes it.

    Attributes:
      name: of its file.
      plain: the same without the compression of the file.
      size: in bytes, before it was compressed as a whole.
      items: their number.
    """

    name: str
    plain: str
    size: int
    items: int


def head_size(items: int) -> int:
    """Bytes of the number and the offsets of ``items``."""
    return 4 + 4 * (items + 1)


class TokenTable:
    """Blocks of tokens in a chunk.

    Args:
      begin: where the tokens begin.
      block_bytes: of each block.
      blocks: their number.
    """

    nbytes = 0

    def __init__(self, begin: int, block_bytes: int, blocks: int) -> None:
        self._begin = begin
        self._block_bytes = block_bytes
        self.blocks = blocks

    @classmethod
    def of(
        cls, part: IndexPart, chunk: ChunkDescription, dtype: np.dtype[Any], block_size: int
    ) -> TokenTable:
        """The blocks of a ``chunk`` that a ``part`` of the index describes.

        Raises:
          MalformedItem: if the number of tokens does not fit the size.
        """
        tokens, begin = part.integer("dim"), head_size(chunk.items)
        if begin + tokens * dtype.itemsize != chunk.size:
            raise part.refused(
                f"{part.place} has {chunk.size} bytes, and {tokens} tokens of {dtype} behind a head of "
                f"{begin} bytes"
            )
        return cls(begin, block_size * dtype.itemsize, tokens // block_size)

    def ranges(self, numbers: Indices) -> Ranges:
        starts = self._begin + numbers * self._block_bytes
        return Ranges(starts, starts + self._block_bytes)


@final
class ItemChunk(DataShard):
    """A file of items.

    Args:
      file: as it was found.
      chunk: what the index says of it.
      is_packed: whether it is compressed as a whole.
      level: what is compressed as one, as LitData calls it; empty for nothing.
      tokens: where blocks of tokens lie; None if it has other items.
    """

    def __init__(
        self,
        file: AnyFile,
        chunk: ChunkDescription,
        is_packed: bool,
        level: str,
        tokens: TokenTable | None,
    ) -> None:
        super().__init__(file, chunk.items if tokens is None else tokens.blocks)
        self._chunk = chunk
        self._is_packed = is_packed
        self._level = level
        self._tokens = tokens

    def _opening(self) -> Reading[ShardDirectory]:
        if self._is_packed:
            (packed,) = yield Ranges.of((0, self.file.size))
            return self._in_memory(unpacked(packed, "zstd", self._chunk.size))
        if self._tokens is not None:
            return RecordsInFile(self._tokens)
        size = head_size(self.items)
        head, tail = yield Ranges.of((0, size), (self.file.size - min(TAIL, size), self.file.size))
        if self._level == "batch" and head.startswith(MAGIC):
            return (yield from framed_directory(head, self.items, self.file.size))
        start = table_start(tail, self.file.size)
        if start is not None:
            self._table(head, start)
            (data,) = yield Ranges.of((start, self.file.size - TAIL))
            return table_directory(data, self.items, self.path)
        unpack = _unpacked_item if self._level == "sample" else None
        return RecordsInFile(self._table(head, self.file.size), unpack)

    def has_table(self) -> Reading[bool]:
        """Whether its items are the rows of a table."""
        (tail,) = yield Ranges.of((max(self.file.size - TAIL, 0), self.file.size))
        return tail.endswith(TABLE_MAGIC)

    def _in_memory(self, content: bytes) -> ShardDirectory:
        if len(content) != self._chunk.size:
            raise ValueError(f"its content has {len(content)} bytes in place of {self._chunk.size}")
        if self._tokens is not None:
            return RecordsInMemory(content, self._tokens)
        return RecordsInMemory(content, self._table(content[: head_size(self.items)], len(content)))

    def _table(self, head: bytes, last: int) -> Positions:
        items = int.from_bytes(head[:4], "little")
        if items != self.items:
            raise ValueError(f"it has {items} items, and {self.items} by the index")
        return OffsetTable(checked_offsets(head, 4, items, len(head), last))


def _unpacked_item(data: bytes) -> bytes:
    return unpacked(data, "zstd", LARGEST_ITEM)
