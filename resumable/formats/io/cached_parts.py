"""Find the cached parts of remote files that hold the needed bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ...core.block import Indices, joined_ranges
from ...core.foreseen import PartUses
from ...core.prepared_items import grouped
from .remote import RemoteFile


class FileRanges(NamedTuple):
    """The bytes of a file in a cache that some items need.

    Attributes:
      file: in a cache.
      items: the places of the items among all items, shape (n,).
      starts: offset of the first byte of each item, shape (n,).
      ends: offset after the last byte of each item, shape (n,).
    """

    file: RemoteFile
    items: Indices
    starts: Indices
    ends: Indices


def part_uses_of(
    file_of: Indices, at: Indices, ranges_of: Callable[[int, Indices], FileRanges | None]
) -> Iterator[PartUses]:
    """The uses of parts by items of several files.

    Args:
      file_of: the number of the file of each item, shape (items,).
      at: when each item is used, shape (items,).
      ranges_of: called with the number of a file and the places of its items among all items, shape
        (n,); returns None for a file without a cache.
    """
    order, groups = grouped(file_of)
    found = [ranges_of(number, order[first:last]) for number, first, last in groups]
    needed = [each for each in found if each is not None]
    if needed:
        numbers = np.repeat(np.arange(len(needed)), [len(each.items) for each in needed])
        items, starts, ends = (
            np.concatenate(column) for column in zip(*[each[1:] for each in needed], strict=True)
        )
        yield part_uses([each.file for each in needed], numbers, starts, ends, at[items])


def part_uses(
    files: Sequence[RemoteFile], file_of: Indices, starts: Indices, ends: Indices, at: Indices
) -> PartUses:
    """The uses of the cached parts of ``files``, for ranges of bytes.

    Args:
      files: of one cache, at least one.
      file_of: the place of each range's file, shape (n,).
      starts: of the ranges in their files, shape (n,).
      ends: of the ranges, shape (n,).
      at: when the ranges are used, shape (n,).
    """
    cache = files[0].system.cache
    assert cache is not None
    size = cache.part_bytes
    first = starts // size
    counts = np.where(ends > starts, (ends - 1) // size - first + 1, 0)
    use = np.repeat(np.arange(len(starts)), counts)
    parts = joined_ranges(first, counts)
    sizes = np.minimum(ends[use], (parts + 1) * size) - np.maximum(starts[use], parts * size)
    return PartUses(cache, files, file_of[use], parts, sizes, at[use])


def uses_in_order(files: Sequence[RemoteFile], begins: Indices, unit: int) -> PartUses:
    """The uses of all cached parts of ``files``, each file read from its start to its end.

    Args:
      files: of one cache, at least one.
      begins: in how many bytes each file begins, negative if the file has begun, shape (files,).
      unit: bytes that count as one item.
    """
    cache = files[0].system.cache
    assert cache is not None
    part, sizes = cache.part_bytes, np.array([file.size for file in files], np.int64)
    counts = -(-sizes // part)
    file_of = np.repeat(np.arange(len(files)), counts)
    starts = joined_ranges(np.zeros_like(counts), counts) * part
    ends = np.minimum(starts + part, sizes[file_of])
    at = np.maximum(begins[file_of] + starts, 0) // unit
    coming = begins[file_of] + ends > 0
    return part_uses(files, *[each[coming] for each in (file_of, starts, ends, at)])
