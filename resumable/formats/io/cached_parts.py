"""Find the cached parts of remote files that hold the needed bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.block import Indices, joined_ranges
from ...core.foreseen import PartUses


def part_uses(
    files: Sequence[Any], file_of: Indices, starts: Indices, ends: Indices, at: Indices
) -> PartUses:
    """The uses of the cached parts of ``files``, for ranges of bytes.

    Args:
      files: remote files with one cache, at least one.
      file_of: the index in ``files`` of each range's file, shape (n,).
      starts: of the ranges in their files, shape (n,).
      ends: of the ranges, shape (n,).
      at: when the ranges are used, shape (n,).
    """
    cache = files[0].cache
    size = cache.part_bytes
    first = starts // size
    counts = np.where(ends > starts, (ends - 1) // size - first + 1, 0)
    use = np.repeat(np.arange(len(starts)), counts)
    parts = joined_ranges(first, counts)
    sizes = np.minimum(ends[use], (parts + 1) * size) - np.maximum(starts[use], parts * size)
    return PartUses(cache, files, file_of[use], parts, sizes, at[use])


def uses_in_order(files: Sequence[Any], begins: Indices, unit: int) -> PartUses:
    """The uses of all cached parts of ``files``, each file read from its start to its end.

    Args:
      files: remote files with one cache, at least one.
      begins: bytes to read before each file begins, negative within a file, shape (files,).
      unit: bytes that count as one item.
    """
    part, sizes = files[0].cache.part_bytes, np.array([file.size for file in files], np.int64)
    counts = -(-sizes // part)
    file_of = np.repeat(np.arange(len(files)), counts)
    starts = joined_ranges(np.zeros_like(counts), counts) * part
    ends = np.minimum(starts + part, sizes[file_of])
    at = np.maximum(begins[file_of] + starts, 0) // unit
    coming = begins[file_of] + ends > 0
    return part_uses(files, *[each[coming] for each in (file_of, starts, ends, at)])
