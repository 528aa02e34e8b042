"""Draw from weighted choices, with replacement: each draw a pure function of a key and its own number."""

# The weights become whole numbers with a sum below 2**62 by scaling with a power of two and
# rounding alone, as defined by IEEE 754, so the draws are the same on every machine.
# `tests/golden/states-sample.json` pins some.

from __future__ import annotations

from hashlib import blake2b
from typing import Any, Final, final

import numpy as np

from ..core.block import Indices
from ..errors import InvalidArgument, InvalidType, shorten
from .random_bits import random_below

BITS: Final = 61
DIGEST_BYTES: Final = 8


@final
class WeightTable:
    """The weights of several choices, fixed once made.

    Memory: 8 bytes for each choice.

    Args:
      weights: one for each choice, shape (n,), in any proportion.

    Attributes:
      digest: of the proportions, as text.

    Raises:
      InvalidArgument: if a weight is negative, infinite or NaN, or all are 0.
      InvalidType: if ``weights`` are not several numbers.
    """

    def __init__(self, weights: Any) -> None:
        try:
            given = np.asarray(weights)
            if given.dtype.kind in "biufO":
                with np.errstate(over="ignore"):  # to infinity
                    given = given.astype(np.float64)
        except (TypeError, ValueError, OverflowError):
            given = np.zeros(())
        if given.ndim != 1 or given.dtype != np.float64:
            raise InvalidType(f"weights must be several numbers, got {shorten(weights)}")
        wrong = given[~(np.isfinite(given) & (given >= 0))]
        if len(wrong):
            raise InvalidArgument(f"weights must be finite and at least 0, got {wrong[0]}")
        largest = given.max(initial=0)
        if not largest:
            raise InvalidArgument(f"weights must not all be 0, got {shorten(weights)}")
        scale = BITS - int(np.frexp(largest)[1]) - len(given).bit_length()
        parts = np.rint(np.ldexp(given, scale)).astype(np.int64)
        # A choice too rare to be counted is still possible.
        self._ends = np.cumsum(np.maximum(parts, given > 0), dtype=np.int64)
        self.digest = blake2b(
            self._ends.astype("<i8").tobytes(), digest_size=DIGEST_BYTES
        ).hexdigest()

    def __len__(self) -> int:
        return len(self._ends)

    def __repr__(self) -> str:
        return f"<{len(self)} weights>"

    def draw(self, key: int, numbers: Indices) -> Indices:
        """The choice of each of the draws ``numbers``; both of shape (n,).

        Args:
          key: picks the draws, in [0, 2**64).
          numbers: of the draws, counted from 0.
        """
        drawn = random_below(key, numbers, int(self._ends[-1]))
        return np.searchsorted(self._ends, drawn, side="right").astype(np.int64)
