"""Chunks of LitData whose items are compressed in batches."""

# A chunk has a prefix, the offsets of the items in the joined content of all batches, a table of the
# batches, and the batches. The table has for each batch the number of the first item, the number of
# items, the offset and the size in the file, and the size of the content.

from __future__ import annotations

from struct import Struct
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...core.block import Indices
from ..io.clock_cache import Shelved
from ..io.held_ranges import Ranges
from . import shard
from .ranges import Reading
from .shard import Offsets, ShardDirectory, checked_offsets
from .unpacking import unpacked

MAGIC: Final = b"LDFZ01\0\0"
PREFIX: Final = Struct("<8sHHIII")
"""Magic bytes, version, flags, number of items, number of items of a batch, number of batches."""

VERSION: Final = 1
BATCH: Final = np.dtype(
    [("first", "<u4"), ("items", "<u4"), ("start", "<u8"), ("size", "<u4"), ("content", "<u4")]
)


class FramedDirectory(ShardDirectory):
    """The places of the items of a chunk in the batches.

    Args:
      offsets: of the items in the joined content of all batches, shape (items + 1,).
      table: of the batches, shape (batches,), dtype `BATCH`.
    """

    def __init__(self, offsets: Offsets, table: npt.NDArray[Any]) -> None:
        self._offsets = offsets
        self._firsts = table["first"].astype(np.int64)
        self._starts = table["start"].astype(np.int64)
        self._stops = self._starts + table["size"]
        self._sizes: list[int] = table["content"].tolist()
        self._kept = [Shelved[bytes]() for _ in self._sizes]
        self.nbytes = offsets.nbytes + 200 * len(table)

    def ranges(self, numbers: Indices) -> Ranges:
        return self._ranges_of(self._batches_of(numbers))

    def _ranges_of(self, batches: Indices | list[int]) -> Ranges:
        return Ranges(self._starts[batches], self._stops[batches])

    def reading(self, numbers: Indices) -> Reading[list[Any]]:
        of_batches = self._batches_of(numbers)
        contents: dict[int, bytes] = {}
        lacking = []
        for number in np.unique(of_batches).tolist():
            kept = self._kept[number].kept
            if kept is None:
                lacking.append(number)
            else:
                self._kept[number].used = True
                contents[number] = kept
        packed = (yield self._ranges_of(lacking)) if lacking else []
        for number, data in zip(lacking, packed, strict=True):
            contents[number] = self._unpacked(number, data)
        starts, stops = self._offsets[numbers], self._offsets[numbers + 1]
        bases = self._offsets[self._firsts[of_batches]]
        parts = zip(
            of_batches.tolist(), (starts - bases).tolist(), (stops - bases).tolist(), strict=True
        )
        return [contents[number][start:stop] for number, start, stop in parts]

    def _batches_of(self, numbers: Indices) -> Indices:
        """The number of the batch of each item."""
        batches: Indices = np.searchsorted(self._firsts, numbers, side="right") - 1
        return batches

    def _unpacked(self, number: int, data: bytes) -> bytes:
        size = self._sizes[number]
        content = unpacked(data, "zstd", size)
        if len(content) != size:
            raise ValueError(f"batch {number} has {len(content)} bytes instead of {size}")
        cache = shard.contents
        cache.put(self._kept[number], content, min(size, cache.most))
        return content


def framed_directory(head: bytes, items: int, size: int) -> Reading[ShardDirectory]:
    """Makes the directory of a chunk.

    Args:
      head: some first bytes of the chunk.
      items: number of items.
      size: of the file, in bytes.

    Raises:
      ValueError: if the chunk is damaged.
    """
    if size < PREFIX.size:
        raise ValueError(f"it has {size} bytes, and its prefix {PREFIX.size}")
    if len(head) < PREFIX.size:
        (head,) = yield Ranges.of((0, PREFIX.size))
    _, version, _, count, _, batches = PREFIX.unpack_from(head)
    if version != VERSION:
        raise ValueError(f"the version of its batches must be {VERSION}, got {version}")
    if count != items:
        raise ValueError(f"it has {count} items, and {items} by the index")
    begin = PREFIX.size + 4 * (items + 1)
    end = begin + BATCH.itemsize * batches
    if end > size:
        raise ValueError(f"it has {size} bytes, and its head {end}")
    (head,) = yield Ranges.of((0, end))
    table = np.frombuffer(head, BATCH, batches, begin)
    contents = table["content"].astype(np.int64)
    ends = np.cumsum(contents)
    offsets = checked_offsets(head, PREFIX.size, items, 0, int(ends[-1]) if batches else 0)
    counts = table["items"].astype(np.int64)
    firsts = np.cumsum(counts) - counts
    right = (
        counts.sum() == items
        and (counts > 0).all()
        and (firsts == table["first"]).all()
        and (offsets[firsts] == ends - contents).all()
        and (table["start"] >= end).all()
        and (table["start"] <= size).all()
        and (table["start"].astype(np.int64) + table["size"] <= size).all()
    )
    if not right:
        raise ValueError("its batches do not hold all items, one after another")
    return FramedDirectory(offsets, table)
