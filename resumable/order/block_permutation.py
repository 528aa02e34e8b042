"""Seeded permutations that move whole blocks of neighbours, for readers of row groups and pages."""

# The blocks come in the order of one permutation. Consecutive blocks of the new order form a group,
# and a separate permutation orders the items of each group. So a reader in order needs the blocks
# of one group at a time, and each block in one group only. The last block may be short; a hash
# picks its slot, so all other blocks are alike.
#
# `tests/golden/block_orders.json` pins the orders. Changing a constant here breaks every
# checkpoint.

from __future__ import annotations

from functools import lru_cache
from typing import Final, final

import numpy as np

from ..core.block import Indices
from .permutation import permutation
from .random_bits import derive

GROUP_BLOCKS: Final = 8
"""Blocks of a group, unless they are small."""
GROUP_ITEMS: Final = 1024
"""Small blocks are grouped until a group has this many items."""


@lru_cache(maxsize=32)
def block_permutation(length: int, block: int, seed: int, epoch: int) -> BlockPermutation:
    """The `BlockPermutation` of ``length`` for (``seed``, ``epoch``), cached."""
    return BlockPermutation(length, block, derive(seed, epoch, block))


@final
class BlockPermutation:
    """A bijection of [0, ``length``) that keeps blocks of ``block`` indices together.

    Memory is O(1): at most 4,096 entries for the order of the blocks, and for the order of each of
    the last groups.

    Args:
      length: number of items, from 1 to 2**62.
      block: items of a block, at least 1.
      key: 64 bits from `derive`; each gives another permutation.
    """

    def __init__(self, length: int, block: int, key: int) -> None:
        block = min(block, length)
        self._key = key
        self._length = length
        self._block = block
        self._whole, short = divmod(length, block)
        slots = self._whole + (short > 0)
        # The short block stands at slot `_short` of the new order; `_missing` items are missing in
        # this slot.
        self._short = derive(key, 1) % slots if short else slots
        self._missing = block - short if short else 0
        in_group = max(GROUP_BLOCKS, -(-GROUP_ITEMS // block))
        self._group = min(in_group, slots) * block
        self._short_group = self._short // min(in_group, slots)

    def __call__(self, indices: Indices) -> Indices:
        """Map ``indices``, int64 in [0, length), to as many others; both of shape (n,)."""
        # Places count as if the short block were whole.
        places = indices + self._missing * (indices >= self._after_the_short_group)
        places = self._within_groups(places)
        if self._missing:
            behind = places >= self._short * self._block + (self._block - self._missing)
            places += self._missing * (behind & (places // self._group == self._short_group))
        slots, within = np.divmod(places, self._block)
        moved: Indices = self._blocks_at(slots) * self._block + within
        return moved

    def inverse(self, values: Indices) -> Indices:
        """The indices that map to ``values``, int64 in [0, length); both of shape (n,)."""
        blocks, within = np.divmod(values, self._block)
        places = self._slots_of(blocks) * self._block + within
        if self._missing:
            behind = places >= (self._short + 1) * self._block
            places -= self._missing * (behind & (places // self._group == self._short_group))
        places = self._within_groups(places, back=True)
        after = self._after_the_short_group + self._missing
        indices: Indices = places - self._missing * (places >= after)
        return indices

    @property
    def _after_the_short_group(self) -> int:
        return min((self._short_group + 1) * self._group - self._missing, self._length)

    def _blocks_at(self, slots: Indices) -> Indices:
        """The number of the block at each of ``slots``."""
        order = permutation(self._whole, self._key, 0)
        blocks = order(np.minimum(slots - (slots > self._short), self._whole - 1))
        blocks[slots == self._short] = self._whole
        return blocks

    def _slots_of(self, blocks: Indices) -> Indices:
        """The slot of each of ``blocks``."""
        order = permutation(self._whole, self._key, 0)
        slots = order.inverse(np.minimum(blocks, self._whole - 1))
        slots += slots >= self._short
        slots[blocks == self._whole] = self._short
        return slots

    def _within_groups(self, places: Indices, back: bool = False) -> Indices:
        """``places`` with the items of each group in the new order, or ``back`` in the old."""
        groups = places // self._group
        moved = np.empty_like(places)
        if not len(places):
            return moved
        for group in np.unique(groups).tolist():
            here = groups == group
            first = group * self._group
            order = permutation(self._size_of(group), self._key, 1 + group)
            moved[here] = (order.inverse if back else order)(places[here] - first) + first
        return moved

    def _size_of(self, group: int) -> int:
        """The number of items in ``group``."""
        padded = self._length + self._missing
        size = min((group + 1) * self._group, padded) - group * self._group
        return size - self._missing if group == self._short_group else size
