"""Percentiles of times, from a histogram of constant size."""

from __future__ import annotations

import math
from typing import Any, Final, TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike

PART_BITS: Final = 4
PARTS: Final = 1 << PART_BITS
"""Buckets for each doubling, of equal width."""
SHORTEST: Final = -30
LONGEST: Final = 30
"""The powers of two of seconds between which times are distinguished: a nanosecond and 34 years."""
BUCKETS: Final = (LONGEST - SHORTEST) * PARTS
SHIFT: Final = 52 - PART_BITS
FIRST: Final = (1023 + SHORTEST) * PARTS
"""The upper bits of the floats in the first bucket: 1023 stands for the power 0."""
MOST_TIMES: Final = 1 << 60

Counts: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"


@final
class WaitHistogram:
    """Counts of waits by length, in buckets whose width grows with the length.

    A percentile is the middle of its bucket, so its error is at most 1/32 (3.2 %).

    A histogram is a value: adding makes a new histogram.

    >>> waits = WaitHistogram().with_waits([hundredths / 100 for hundredths in range(100)])
    >>> round(waits.percentile(50), 2)
    0.48
    """

    def __init__(self, counts: Counts | None = None) -> None:
        self._counts: Counts = np.zeros(BUCKETS, np.int64) if counts is None else counts

    def with_waits(self, seconds: ArrayLike) -> WaitHistogram:
        """A copy with one more wait for each of ``seconds``."""
        # The exponent of a float is followed by the mantissa, whose first bits give the part of the
        # doubling.
        buckets = (np.asarray(seconds, np.float64).view(np.int64) >> SHIFT) - FIRST
        found = np.bincount(np.clip(buckets, 0, BUCKETS - 1), minlength=BUCKETS)
        return WaitHistogram(self._counts + found)

    def __add__(self, other: WaitHistogram) -> WaitHistogram:
        return WaitHistogram(self._counts + other._counts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WaitHistogram) and bool((self._counts == other._counts).all())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"WaitHistogram({int(self._counts.sum())} waits)"

    def percentile(self, percent: float) -> float | None:
        """The seconds not exceeded by ``percent`` of the waits; None without waits."""
        until = np.cumsum(self._counts)
        total = int(until[-1])
        if not total:
            return None
        return _middle(int(np.searchsorted(until, max(math.ceil(total * percent / 100), 1))))

    def to_value(self) -> list[list[int]]:
        """(bucket, count) pairs of the buckets that are not empty, to be saved."""
        found = np.flatnonzero(self._counts)
        pairs: list[list[int]] = np.stack([found, self._counts[found]], axis=1).tolist()
        return pairs

    @classmethod
    def from_value(cls, value: Any) -> WaitHistogram | None:
        """The inverse of ``to_value``; None for a value that ``to_value`` cannot return."""
        made = cls()
        if not isinstance(value, list) or len(value) > BUCKETS:
            return None
        for pair in value:
            if not isinstance(pair, list) or [type(one) for one in pair] != [int, int]:
                return None
            bucket, times = pair
            if not (0 <= bucket < BUCKETS and 0 < times < MOST_TIMES // BUCKETS):
                return None
            made._counts[bucket] += times
        return made


def _middle(bucket: int) -> float:
    if not bucket:
        return 0.0
    power, part = divmod(bucket, PARTS)
    return math.ldexp(1.0 + (part + 0.5) / PARTS, power + SHORTEST)
