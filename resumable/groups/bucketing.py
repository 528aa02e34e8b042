"""How the items of a group are divided into batches of like length."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from ..core.block import Indices
from ..errors import MalformedItem


@final
@dataclass(frozen=True)
class Buckets:
    """The rule by which batches are made.

    Args:
      batch_size: most items in a batch; None for any number.
      max_tokens: most tokens in a batch, with the padding; None for any number.
      boundaries: ascending lengths; a batch has items from between two of them.
      rounded: the length that the items of a batch are padded to, given the length of the longest.
      drop_last: whether batches that are not full are left out.
    """

    batch_size: int | None
    max_tokens: int | None
    boundaries: Sequence[int]
    rounded: Callable[[int], int]
    drop_last: bool

    def batches(self, lengths: Indices) -> Iterator[list[int]]:
        """The numbers of the items of each batch, from the shortest to the longest.

        Args:
          lengths: of the items, shape (n,).

        Raises:
          MalformedItem: if an item alone has more than ``max_tokens``.
        """
        order = np.argsort(lengths, kind="stable")
        ascending = lengths[order]
        edges = np.searchsorted(ascending, self.boundaries).tolist()
        for first, last in zip([0, *edges], [*edges, len(order)], strict=True):
            for start, stop, full in self._cut(ascending[first:last].tolist()):
                if full or not self.drop_last:
                    yield order[first + start : first + stop].tolist()

    def _cut(self, lengths: list[int]) -> Iterator[tuple[int, int, bool]]:
        """Where the batches of one bucket begin and end, and whether nothing more fits in."""
        start = 0
        for place, length in enumerate(lengths):
            if place > start and not self._fits(place + 1 - start, length):
                yield start, place, True
                start = place
            if place == start and not self._fits(1, length):
                raise MalformedItem(
                    f"an item must have at most max_tokens={self.max_tokens}, with its padding, "
                    f"got {self.rounded(length)}"
                )
        if start < len(lengths):
            count = len(lengths) - start
            yield start, len(lengths), count == self.batch_size

    def _fits(self, count: int, length: int) -> bool:
        """Whether a batch may have ``count`` items, the longest of which has ``length``."""
        if self.batch_size is not None and count > self.batch_size:
            return False
        return self.max_tokens is None or count * self.rounded(length) <= self.max_tokens
