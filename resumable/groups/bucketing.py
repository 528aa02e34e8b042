"""Divide the items of a group into batches of similar length."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from ..core.block import Indices
from ..errors import MalformedItem


@final
@dataclass(frozen=True)
class Buckets:
    """The rule that divides items into batches.

    Args:
      batch_size: most items in a batch; None for any number.
      max_tokens: most tokens in a batch, with the padding: a number for all fields together, a list
        with a number for each field, or None for any number.
      boundaries: ascending lengths; the items of a batch lie between two neighbouring boundaries.
      rounded: maps the longest lengths of a batch to the padded lengths.
      drop_last: whether incomplete batches are left out.
    """

    batch_size: int | None
    max_tokens: int | list[int] | None
    boundaries: Sequence[int]
    rounded: Callable[[Any], Any]
    drop_last: bool

    def batches(self, lengths: Indices) -> Iterator[list[int]]:
        """The numbers of the items of each batch, from the shortest to the longest.

        Items with several lengths are ordered by the sum of their lengths, as shares of
        ``max_tokens`` if ``max_tokens`` is a list.

        Args:
          lengths: of the items, shape (n, fields).

        Raises:
          MalformedItem: if an item alone has more than ``max_tokens``.
        """
        if lengths.shape[1] == 1:
            order = np.argsort(lengths[:, 0], kind="stable")
        else:
            most = self.max_tokens if isinstance(self.max_tokens, list) else 1
            order = np.argsort((lengths / np.array(most)).sum(axis=1), kind="stable")
        ascending = lengths[order] if lengths.shape[1] > 1 else lengths[order, 0]
        edges = np.searchsorted(ascending, self.boundaries).tolist() if self.boundaries else []
        padded = self.rounded(ascending).tolist()
        for first, last in zip([0, *edges], [*edges, len(order)], strict=True):
            for start, stop, full in self._cut(padded[first:last]):
                if full or not self.drop_last:
                    yield order[first + start : first + stop].tolist()

    def _cut(self, lengths: list[Any]) -> Iterator[tuple[int, int, bool]]:
        """The start and stop of each batch of one bucket, and whether the batch is full.

        Each of ``lengths``, padding included, is a number, not less than the previous number, or a
        list with a number for each field.
        """
        start = 0
        several = bool(lengths) and isinstance(lengths[0], list)
        for stop in self._stops_of_several(lengths) if several else self._stops(lengths):
            yield start, stop, True
            start = stop
        if start < len(lengths):
            yield start, len(lengths), len(lengths) - start == self.batch_size

    def _stops(self, lengths: list[int]) -> Iterator[int]:
        """Where a batch ends because the next item, the longest so far, does not fit."""
        size, start = self.batch_size or len(lengths), 0
        most: Any = math.inf if self.max_tokens is None else self.max_tokens
        for place, length in enumerate(lengths):
            count = place + 1 - start
            if count > size or count * length > most:
                if count > 1:
                    yield place
                    start = place
                if length > most:
                    raise self._too_long(length)

    def _stops_of_several(self, lengths: list[list[int]]) -> Iterator[int]:
        """As `_stops`, for batches padded to the longest item in each field."""
        size, start, longest = self.batch_size or len(lengths), 0, [0] * len(lengths[0])
        for place, length in enumerate(lengths):
            count, longest = place + 1 - start, list(map(max, longest, length))
            if count > size or not self._is_within([count * each for each in longest]):
                if count > 1:
                    yield place
                    start, longest = place, length
                if not self._is_within(length):
                    raise self._too_long(
                        length if isinstance(self.max_tokens, list) else sum(length)
                    )

    def _is_within(self, tokens: list[int]) -> bool:
        """Whether a batch may have ``tokens`` of each field."""
        if isinstance(self.max_tokens, list):
            return all(map(operator.le, tokens, self.max_tokens))
        return self.max_tokens is None or sum(tokens) <= self.max_tokens

    def _too_long(self, length: Any) -> MalformedItem:
        return MalformedItem(
            f"an item must have at most max_tokens={self.max_tokens}, with its padding, got {length}"
        )
