"""Motion through the partitions of a rank, with the place of each item."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, repeat
from typing import Any

import numpy as np

from ..core import Block, Indices, block_items
from .partition_iterator import PartitionIterator


class PlacedPartitionIterator(PartitionIterator[Any]):
    """The same motion; each item is a tuple of the epoch, the place, and the item itself.

    The place is position * ``count`` + number of the partition. The place depends neither on the
    owner of the partition nor on the partitions that have ended.
    """

    def pull_each(self, numbers: Indices) -> tuple[Block, Indices]:
        places = self._places(numbers)
        block, there = super().pull_each(numbers)
        items = zip(repeat(self._start_epoch), places[there].tolist(), block_items(block))
        return list(items), there

    def _runs(self, most: int) -> Iterator[Iterator[Any]]:
        for run in super()._runs(most):
            places = self._places(np.array(self._numbers, np.int64)).tolist()
            # One more than there are turns: so the run, not `zip`, ends first and reports why it
            # ended.
            yield zip(repeat(self._start_epoch), chain(places, [-1]), run)

    def _places(self, numbers: Indices) -> Indices:
        """The place of the item of each of ``numbers``, the next turns."""
        order = np.argsort(numbers, kind="stable")
        ordered = numbers[order]
        # For each turn, how many of the earlier turns here belong to the same partition.
        before = np.empty_like(numbers)
        before[order] = np.arange(len(numbers)) - np.searchsorted(ordered, ordered)
        positions = np.array(self._counted.positions, np.int64)[numbers] + before
        count: int = self._stage.count
        return positions * count + np.array(self._partition_ids, np.int64)[numbers]
