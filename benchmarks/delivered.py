"""What a contestant delivers, counted while it is compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from benchmarks.work import Tokens

__all__ = ["Delivered", "Tally"]


class Tally(NamedTuple):
    """Of an epoch.

    Attributes:
      number: how many items, or batches, were delivered.
      padding: the share of the places for tokens that have none; None for what is no tokens.
    """

    number: int
    padding: float | None


class Delivered:
    """Items or batches, or the documents in batches of tokens; `tally` is theirs once all have come."""

    def __init__(
        self, delivered: Iterable[Any], tokens_of: Callable[[Any], Tokens] | None = None
    ) -> None:
        self._delivered = delivered
        self._tokens_of = tokens_of
        self._number = self._places = self._filled = 0

    def __iter__(self) -> Iterator[Any]:
        for each in self._delivered:
            self._number += 1
            if self._tokens_of is None:
                yield each
                continue
            documents, places = self._tokens_of(each)
            self._places += places
            self._filled += int(np.count_nonzero(documents))
            yield documents

    @property
    def tally(self) -> Tally:
        """What was counted so far."""
        return Tally(self._number, 1 - self._filled / self._places if self._places else None)
