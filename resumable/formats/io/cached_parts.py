"""Which parts of remote files in a cache some bytes of them are in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...core.block import Indices
from ...core.foreseen import PartUses
from .remote import RemoteFile


def part_uses(
    files: Sequence[RemoteFile], file_of: Indices, starts: Indices, ends: Indices, at: Indices
) -> PartUses:
    """The uses of parts of ``files``, which a cache keeps, by bytes of them.

    Args:
      files: of one cache, at least one.
      file_of: the place of the file that some bytes are of, shape (n,).
      starts: where they begin in it, shape (n,).
      ends: where they end, shape (n,).
      at: when they are used, shape (n,).
    """
    cache = files[0].system.cache
    assert cache is not None
    size = cache.part_bytes
    first = starts // size
    counts = np.where(ends > starts, (ends - 1) // size - first + 1, 0)
    use = np.repeat(np.arange(len(starts)), counts)
    before = np.cumsum(counts) - counts
    parts = np.arange(len(use)) - before[use] + first[use]
    sizes = np.minimum(ends[use], (parts + 1) * size) - np.maximum(starts[use], parts * size)
    return PartUses(cache, files, file_of[use], parts, sizes, at[use])
