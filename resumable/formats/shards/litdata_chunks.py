"""The chunks of LitData, and the places of the items in the chunks."""

# A chunk has a head and the items. The head has the number of items, the start of each item, and the
# end of the last item; all numbers are little-endian, uint32. A chunk may be compressed as a whole,
# item by item, or in batches (`framed_chunk.py`). All items may be in an Arrow table after the head
# (`table_chunk.py`). If the items are tokens, all tokens of a chunk are read as one array.

from __future__ import annotations

from functools import partial
from typing import Any, Final, final

import numpy as np

from ...core.block import Indices
from ..data_files import AnyFile
from ..io.held_ranges import Ranges
from .framed_chunk import MAGIC, framed_directory
from .index_json import IndexPart
from .ranges import Reading
from .shard import (
    DataShard,
    ListedShard,
    OffsetTable,
    RecordsInFile,
    RecordsInMemory,
    ShardDirectory,
    head_size,
    offset_table,
)
from .table_chunk import MAGIC as TABLE_MAGIC
from .table_chunk import TAIL, table_directory, table_start
from .unpacking import unpacked

LARGEST_ITEM: Final = (1 << 32) - 1
"""Most bytes of an item, by the range of the offsets of a chunk."""


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
        cls, part: IndexPart, chunk: ListedShard, dtype: np.dtype[Any], block_size: int
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
      listed: the description of the chunk.
      level: unit of compression, in LitData's word; empty without compression.
      tokens: the blocks of tokens; None for other items.
    """

    def __init__(
        self,
        file: AnyFile,
        listed: ListedShard,
        level: str,
        tokens: TokenTable | None,
    ) -> None:
        super().__init__(file, listed)
        self._level = level
        self._tokens = tokens
        if tokens is not None:
            self.items = tokens.blocks

    def _opening(self) -> Reading[ShardDirectory]:
        size = head_size(self.items)
        if self.listed.compression:
            content = yield from self._decompressed()
            positions = self._tokens or self._table(content[:size], len(content))
            return RecordsInMemory(content, positions)
        if self._tokens is not None:
            return RecordsInFile(self._tokens)
        head, tail = yield Ranges.of((0, size), (self.file.size - min(TAIL, size), self.file.size))
        if self._level == "batch" and head.startswith(MAGIC):
            return (yield from framed_directory(head, self.items, self.file.size))
        start = table_start(tail, self.file.size)
        if start is not None:
            self._table(head, start)
            (data,) = yield Ranges.of((start, self.file.size - TAIL))
            return table_directory(data, self.items, self.path)
        unpack = partial(unpacked, compression="zstd", most=LARGEST_ITEM)
        positions = self._table(head, self.file.size)
        return RecordsInFile(positions, unpack if self._level == "sample" else None)

    def has_table(self) -> Reading[bool]:
        """Whether the items are the rows of a table."""
        (tail,) = yield Ranges.of((max(self.file.size - TAIL, 0), self.file.size))
        return tail.endswith(TABLE_MAGIC)

    def _table(self, head: bytes, last: int) -> OffsetTable:
        return offset_table(head, self.items, "item", last)
