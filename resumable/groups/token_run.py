"""Documents one after another, cut into rows at the front."""

from __future__ import annotations

from typing import final

import numpy as np

from ..errors import MalformedItem
from .documents import Documents, Tokens
from .packing import Columns, rows_of


@final
class TokenRun:
    """Tokens of documents in order; its length is their number."""

    def __init__(self) -> None:
        self._documents = Documents({}, np.empty(0, np.int64))
        self._length = 0
        self._kinds: dict[str, str] = {}

    def __len__(self) -> int:
        return self._length

    def append(self, documents: Documents) -> None:
        """Put ``documents`` behind what is there.

        Raises:
          MalformedItem: if their fields, dtypes or shapes are others than those before.
        """
        if not len(documents.lengths):
            return
        kinds = {name: _kind_of(found[0]) for name, found in documents.fields.items()}
        if self._kinds and kinds != self._kinds:
            raise MalformedItem(
                "documents to pack must have the same fields, dtypes and shapes in all of an epoch, got "
                f"{kinds} after {self._kinds}"
            )
        before = self._documents
        fields = {
            name: [*before.fields.get(name, ()), *found] for name, found in documents.fields.items()
        }
        self._documents = Documents(fields, np.append(before.lengths, documents.lengths))
        self._length += int(documents.lengths.sum())
        self._kinds = kinds

    def drop(self, count: int) -> None:
        """Drop the first ``count`` tokens, or all; copy the rest, so its originals may change."""
        if count:
            left = self._documents.section(min(count, self._length), self._length)
            self._length = int(left.lengths.sum())
            fields = {name: [each.copy() for each in found] for name, found in left.fields.items()}
            self._documents = Documents(fields, left.lengths)

    def rows(self, count: int, length: int) -> Columns:
        """The first ``count`` rows of ``length`` tokens, as columns of shape (count, length, ...).

        They are the fields, ``segment_ids`` and ``positions``, the last two int32. A part of a
        document that begins before the row is a segment like any other.
        """
        pieces = self._documents.section(0, count * length, every=length)
        rows = (np.cumsum(pieces.lengths) - pieces.lengths) // length
        return rows_of(pieces, rows, length, padding=0)


def _kind_of(tokens: Tokens) -> str:
    """The dtype, and the shape behind the first axis if there is one."""
    shape = tokens.shape[1:]
    return f"{tokens.dtype}{shape}" if shape else str(tokens.dtype)
