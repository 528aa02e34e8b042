"""Measure how many bytes of a cache an order has in use at a time."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..core.block import Indices
from ..core.foreseen import PartUses
from .cache import LEAST_PARTS, FileCache
from .part_file import HEADER


def working_sets(all_uses: Iterable[PartUses]) -> dict[FileCache, int]:
    """For each cache, the most bytes of parts that are between first and last use at a time.

    Args:
      all_uses: the uses of one epoch.
    """
    by_cache: dict[FileCache, list[tuple[Indices, ...]]] = {}
    files = 0
    for uses in all_uses:
        size = uses.cache.part_bytes
        lengths = np.array([file.size for file in uses.files], np.int64)
        sizes = np.minimum(size, lengths[uses.file_of] - uses.parts * size)
        columns = (uses.file_of + files, uses.parts, sizes, uses.at)
        by_cache.setdefault(uses.cache, []).append(columns)
        files += len(uses.files)
    return {
        cache: _most_in_use(*map(np.concatenate, zip(*columns, strict=True)))
        for cache, columns in by_cache.items()
    }


def advice_on(cache: FileCache, needed: int) -> str:
    """Advice for a cache without room for the ``needed`` bytes in use; empty if they fit."""
    if needed <= cache.max_bytes:
        return ""
    parts = needed // cache.part_bytes + LEAST_PARTS
    return (
        "what does not fit is read in small pieces, or again: set max_bytes to "
        f"{needed + parts * HEADER.size:,} or more, or shuffle smaller blocks"
    )


def _most_in_use(file_of: Indices, parts: Indices, sizes: Indices, at: Indices) -> int:
    if not len(at):
        return 0
    order = np.lexsort((at, parts, file_of))
    file_of, parts, sizes, at = file_of[order], parts[order], sizes[order], at[order]
    changes = (np.diff(file_of) != 0) | (np.diff(parts) != 0)
    firsts = np.flatnonzero(np.concatenate([[True], changes]))
    lasts = np.concatenate([firsts[1:], [len(at)]]) - 1
    times = np.concatenate([at[firsts], at[lasts] + 1])
    steps = np.concatenate([sizes[firsts], -sizes[firsts]])
    # At equal times, parts end before parts begin.
    in_time = np.lexsort((steps, times))
    return int(np.cumsum(steps[in_time]).max())
