"""Segments: whole documents or parts of documents, as placed in rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.block import Indices
from .documents import Documents, Tokens


class Segments(NamedTuple):
    """Parts of documents.

    Attributes:
      numbers: of the documents, shape (segments,).
      begins: number of the document's tokens before each segment, shape (segments, capacities).
      lengths: in tokens, shape (segments, capacities).
    """

    numbers: Indices
    begins: Indices
    lengths: Indices

    @classmethod
    def whole(cls, lengths: Indices) -> Segments:
        """Each document as one segment; ``lengths`` of shape (documents, capacities)."""
        return cls(np.arange(len(lengths)), np.zeros_like(lengths), lengths)

    @classmethod
    def cut(cls, lengths: Indices, most: Indices) -> Segments:
        """All documents; too long documents become several segments.

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
        """Whether each segment is a whole document."""
        lengths = documents.lengths[self.numbers]
        return not self.begins.any() and np.array_equal(self.lengths, lengths)

    def by_row(self, rows: Indices, count: int) -> tuple[Segments, Indices]:
        """The segments sorted by row, and where each row starts.

        Args:
          rows: the row of each segment, shape (segments,).
          count: of the rows.

        Returns:
          the segments; and the first segment of each row, and the end of the last row, shape (count
          + 1,).
        """
        order = np.argsort(rows, kind="stable")
        bounds = np.searchsorted(rows[order], np.arange(count + 1))
        return self.chosen(order), bounds

    def chosen(self, places: Indices) -> Segments:
        """The segments at ``places``, shape (n,), in this order."""
        return Segments(self.numbers[places], self.begins[places], self.lengths[places])

    def tokens(self, documents: list[Tokens], capacity: int) -> list[Tokens]:
        """The tokens of each segment, for a field with the number ``capacity``."""
        begins = self.begins[:, capacity]
        places = zip(
            self.numbers.tolist(),
            begins.tolist(),
            (begins + self.lengths[:, capacity]).tolist(),
            strict=True,
        )
        return [documents[number][begin:end] for number, begin, end in places]
