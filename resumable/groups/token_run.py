"""Documents one after another, cut into rows at the front."""

from __future__ import annotations

from typing import final

import numpy as np

from ..errors import MalformedItem
from .documents import POSITIONS, SEGMENT_IDS, Documents, Tokens
from .packing import Columns


@final
class TokenRun:
    """Tokens of documents in order; its length is their number."""

    def __init__(self) -> None:
        self._fields: dict[str, Tokens] = {}
        self._starts = np.empty(0, np.bool_)  # of each token whether a document begins there

    def __len__(self) -> int:
        return len(self._starts)

    def append(self, documents: Documents) -> None:
        """Put ``documents`` behind what is there.

        Raises:
          MalformedItem: if their fields or dtypes are others than those before.
        """
        if not len(documents.lengths):
            return
        starts = np.zeros(documents.lengths.sum(), np.bool_)
        starts[np.cumsum(documents.lengths) - documents.lengths] = True
        fields = {name: np.concatenate(found) for name, found in documents.fields.items()}
        before = self._fields or {name: tokens[:0] for name, tokens in fields.items()}
        if _kinds(fields) != _kinds(before):
            raise MalformedItem(
                "documents to pack must have the same fields and dtypes in all of a pass, got "
                f"{_kinds(fields)} after {_kinds(before)}"
            )
        self._fields = {
            name: np.concatenate([before[name], tokens]) for name, tokens in fields.items()
        }
        self._starts = np.concatenate([self._starts, starts])

    def drop(self, count: int) -> None:
        """Let the first ``count`` tokens go."""
        self._fields = {name: tokens[count:] for name, tokens in self._fields.items()}
        self._starts = self._starts[count:]

    def rows(self, count: int, length: int) -> Columns:
        """The first ``count`` rows of ``length`` tokens, as columns of shape (count, length).

        Beside the fields, ``segment_ids`` and ``positions``, both int32. What a row has of a document
        that begins before it is a segment like any other.
        """
        shape, end = (count, length), count * length
        columns = {
            name: tokens[:end].reshape(shape).copy() for name, tokens in self._fields.items()
        }
        starts = self._starts[:end].reshape(shape)
        segments = np.cumsum(starts, axis=1, dtype=np.int32)
        columns[SEGMENT_IDS] = segments + (1 - segments[:, :1])
        places = np.arange(length, dtype=np.int32)
        columns[POSITIONS] = places - np.maximum.accumulate(np.where(starts, places, 0), axis=1)
        return columns


def _kinds(fields: dict[str, Tokens]) -> dict[str, str]:
    return {name: str(tokens.dtype) for name, tokens in fields.items()}
