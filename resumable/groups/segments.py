"""Segments: documents, or parts of them, as they stand in rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.block import Indices
from .documents import Documents, Tokens


class Segments(NamedTuple):
    """Parts of documents.

    Attributes:
      numbers: of the documents, shape (segments,).
      begins: how many tokens of its document come before each segment, shape (segments, capacities).
      lengths: in tokens, shape (segments, capacities).
    """

    numbers: Indices
    begins: Indices
    lengths: Indices

    @classmethod
    def whole(cls, lengths: Indices) -> Segments:
        """Each document as one segment; they have ``lengths``, shape (documents, capacities)."""
        return cls(np.arange(len(lengths)), np.zeros_like(lengths), lengths)

    @classmethod
    def cut(cls, lengths: Indices, most: Indices) -> Segments:
        """All documents, those that are too long as several segments.

        Args:
          lengths: of the documents, shape (documents, capacities).
          most: tokens in a segment, shape (capacities,).
        """
        counts = (-(-lengths // most)).max(axis=1)
        numbers = np.repeat(np.arange(len(counts)), counts)
        before = np.arange(len(numbers)) - np.repeat(np.cumsum(counts) - counts, counts)
        lengths = lengths[numbers]
        begins = np.minimum(before[:, None] * most, lengths)
        return cls(numbers, begins, np.minimum(lengths - begins, most))

    def are_whole(self, documents: Documents) -> bool:
        """Whether each is all of its document."""
        lengths = documents.lengths[self.numbers]
        return not self.begins.any() and np.array_equal(self.lengths, lengths)

    def by_row(self, rows: Indices, count: int) -> tuple[Segments, Indices]:
        """They in the order of their rows, and where those of each row begin.

        Args:
          rows: the row of each segment, shape (segments,).
          count: of the rows.

        Returns:
          the segments; and the first one of each row, and behind the last one, shape (count + 1,).
        """
        order = np.argsort(rows, kind="stable")
        bounds = np.searchsorted(rows[order], np.arange(count + 1))
        return self.chosen(order), bounds

    def chosen(self, places: Indices) -> Segments:
        """Those at ``places``, shape (n,), in this order."""
        return Segments(self.numbers[places], self.begins[places], self.lengths[places])

    def tokens(self, documents: list[Tokens], capacity: int) -> list[Tokens]:
        """Those of each segment, of a field with the number ``capacity``."""
        begins = self.begins[:, capacity]
        places = zip(
            self.numbers.tolist(),
            begins.tolist(),
            (begins + self.lengths[:, capacity]).tolist(),
            strict=True,
        )
        return [documents[number][begin:end] for number, begin, end in places]
