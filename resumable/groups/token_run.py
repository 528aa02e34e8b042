"""Documents one after another; rows take their tokens from the front."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from ..core.block import NO_INDICES, Indices
from ..errors import MalformedItem
from .documents import Documents, Tokens, with_equal_empty_ones


@final
class TokenRun:
    """Tokens of documents in order.

    Args:
      capacities: number of capacities of a row.
    """

    def __init__(self, capacities: int) -> None:
        nothing = np.empty((0, capacities), np.int64)
        self.documents = Documents({}, nothing, nothing, NO_INDICES, {})
        self._kinds: dict[str, str] = {}  # of the fields that had tokens

    @property
    def tokens(self) -> Indices:
        """The number of tokens, shape (capacities,)."""
        total: Indices = self.documents.lengths.sum(axis=0)
        return total

    def append(self, documents: Documents) -> None:
        """Put ``documents`` after the present documents.

        Raises:
          MalformedItem: if fields, dtypes or shapes differ from the earlier documents.
        """
        if not len(documents.lengths):
            return
        fields = documents.fields
        kinds = {name: _kind_of(found) for name, found in fields.items() if any(map(len, found))}
        before = self.documents
        if any(self._kinds.get(name, kind) != kind for name, kind in kinds.items()) or (
            before.fields and before.fields.keys() != fields.keys()
        ):
            raise MalformedItem(
                "documents to pack must have the same fields, dtypes and shapes in all of an epoch, got "
                f"{kinds} after {self._kinds}"
            )
        self._kinds |= kinds
        joined = {name: [*before.fields.get(name, ()), *found] for name, found in fields.items()}
        if documents.lengths.shape[1] > 1:
            joined = {name: with_equal_empty_ones(found) for name, found in joined.items()}
        self.documents = Documents(
            joined,
            np.concatenate([before.lengths, documents.lengths]),
            np.concatenate([before.before, documents.before]),
            np.concatenate([before.numbers, documents.numbers]),
            {
                name: [*before.values.get(name, ()), *found]
                for name, found in documents.values.items()
            },
        )

    def drop(self, counts: Indices) -> None:
        """Drop the first tokens; copy the rest, so its originals may change.

        Args:
          counts: number of tokens to drop, shape (capacities,); larger counts drop all tokens.
        """
        if not counts.any():
            return
        documents, lengths = self.documents, self.documents.lengths
        passed = np.clip(counts - (np.cumsum(lengths, axis=0) - lengths), 0, lengths)
        left = lengths - passed
        kept = np.flatnonzero(left.any(axis=1))
        begins = passed[kept]
        fields = {}
        for place, (name, found) in enumerate(documents.fields.items()):
            column = begins[:, place if begins.shape[1] > 1 else 0].tolist()
            places = zip(kept.tolist(), column, strict=True)
            fields[name] = [found[number][begin:].copy() for number, begin in places]
        numbers = kept.tolist()
        values = {
            name: [_copied(found[number]) for number in numbers]
            for name, found in documents.values.items()
        }
        before = documents.before[kept] + begins
        self.documents = Documents(fields, left[kept], before, documents.numbers[kept], values)


def _copied(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value


def _kind_of(found: list[Tokens]) -> str:
    """The dtype of arrays, and their shape after the first axis unless empty."""
    dtype, shape = found[0].dtype, found[0].shape[1:]
    return f"{dtype}{shape}" if shape else str(dtype)
