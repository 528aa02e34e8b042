"""The chunks of LitData, and the places of the items in the chunks."""

# A chunk has a head and the items. The head has the number of items, the start of each item, and the
# end of the last item; all numbers are little-endian, uint32. A chunk may be compressed as a whole,
# item by item, or in batches (`framed_chunk.py`). All items may be in an Arrow table after the head
# (`table_chunk.py`). If the items are tokens, all tokens of a chunk are read as one array.

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
"""Most bytes of an item, by the range of the offsets of a chunk."""


class ChunkDescription(NamedTuple):
    """The description of a chunk in the index.

    Attributes:
      name: of the file.
      plain: name of the file without the compression.
      size: in bytes, before any compression as a whole.
      items: number of items.
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
      begin: offset of the first token.
      block_bytes: bytes of a block.
      blocks: number of blocks.
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
        """The blocks of a ``chunk``, described by a ``part`` of the index.

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
      file: as found when the pipeline was built.
      chunk: the description in the index.
      is_packed: whether the file is compressed as a whole.
      level: unit of compression, in LitData's word; empty without compression.
      tokens: the blocks of tokens; None for other items.
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
        """Whether the items are the rows of a table."""
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
