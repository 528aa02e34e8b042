"""Percentiles of times, from a histogram of constant size."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final, TypeAlias, final

import numpy as np

PARTS: Final = 16
"""Buckets for each doubling, of equal width."""
SHORTEST: Final = -30
LONGEST: Final = 30
"""The powers of two of seconds between which times are distinguished: a nanosecond and 34 years."""
BUCKETS: Final = (LONGEST - SHORTEST) * PARTS
MOST_TIMES: Final = 1 << 60
MOST_PENDING: Final = 128

Counts: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"


@final
class WaitHistogram:
    """How often waits of each length came, in buckets whose width grows with the length.

    A percentile is the middle of its bucket, so it is wrong by at most 1/32 (3.2 %).

    >>> waits = WaitHistogram()
    >>> waits.add([hundredths / 100 for hundredths in range(100)])
    >>> round(waits.percentile(50), 2)
    0.48
    """

    def __init__(self) -> None:
        self._counts = np.zeros(BUCKETS, np.int64)
        # Waits that are not in buckets yet, and how often each came: many at once are much quicker.
        self._pending: list[tuple[tuple[float, ...], int]] = []

    def add(self, seconds: Iterable[float], times: int = 1) -> None:
        """Count each of ``seconds`` ``times`` times."""
        self._pending.append((tuple(seconds), times))
        if len(self._pending) >= MOST_PENDING:
            self._sort()

    def _sort(self) -> None:
        pending, self._pending = self._pending, []
        self._counts = _with(self._counts, pending)

    @property
    def _all(self) -> Counts:
        return _with(self._counts, self._pending.copy())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WaitHistogram) and bool((self._all == other._all).all())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"WaitHistogram({int(self._all.sum())} waits)"

    def merge(self, other: WaitHistogram) -> None:
        """Count what ``other`` has counted too."""
        self._counts = self._counts + other._all  # a new array: others may hold the old one

    def copy(self) -> WaitHistogram:
        """One of its own."""
        made = WaitHistogram()
        made.merge(self)
        return made

    def percentile(self, percent: float) -> float | None:
        """The seconds that ``percent`` of the waits do not exceed; None if there are none."""
        until = np.cumsum(self._all)
        total = int(until[-1])
        if not total:
            return None
        return _middle(int(np.searchsorted(until, max(math.ceil(total * percent / 100), 1))))

    def to_value(self) -> list[list[int]]:
        """The buckets that are not empty and their counts, to be saved."""
        counts = self._all
        found = np.flatnonzero(counts)
        pairs: list[list[int]] = np.stack([found, counts[found]], axis=1).tolist()
        return pairs

    @classmethod
    def from_value(cls, value: Any) -> WaitHistogram | None:
        """What ``to_value`` was called on; None for what it cannot have returned."""
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


def _with(counts: Counts, pending: list[tuple[tuple[float, ...], int]]) -> Counts:
    """``counts`` and those of ``pending``."""
    if not pending:
        return counts
    every = np.array([one for seconds, _ in pending for one in seconds])
    times = np.repeat([times for _, times in pending], [len(seconds) for seconds, _ in pending])
    # The mantissa lies in [0.5, 1), so the buckets of a doubling begin at a power of two.
    mantissas, powers = np.frexp(every)
    parts = ((mantissas - 0.5) * (2 * PARTS)).astype(np.int64)
    buckets = (powers.astype(np.int64) - (1 + SHORTEST)) * PARTS + parts
    buckets[every <= 0.0] = 0
    found = np.bincount(np.clip(buckets, 0, BUCKETS - 1), times, BUCKETS)
    return counts + found.astype(np.int64)


def _middle(bucket: int) -> float:
    if not bucket:
        return 0.0
    power, part = divmod(bucket, PARTS)
    return math.ldexp(1.0 + (part + 0.5) / PARTS, power + SHORTEST)
