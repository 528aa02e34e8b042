"""Counter-based random numbers: each a pure function of a key and its own number."""

# Only integer arithmetic of fixed width is used: no NumPy generator takes part in an order, so an
# order is the same under every version of NumPy and Python. `tests/golden/orders.json` pins it.
# Changing a constant here breaks every checkpoint.

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..core.block import Indices

MASK64 = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def derive(*words: int) -> int:
    """A 64-bit key from integers: the order of ``words`` matters, so (1, 2) is not (2, 1).

    Each word is folded in with the finalizer of SplitMix64 (Steele, Lea and Flood,
    OOPSLA 2014).
    """
    key = len(words)
    for word in words:
        key = _mix64(((key ^ (word & MASK64)) * GOLDEN + 0x632BE59BD9B4E019) & MASK64)
    return key


def random_bits(key: int, counters: Indices) -> npt.NDArray[np.uint64]:
    """64 random bits for each of ``counters``: SplitMix64 at those positions of its stream."""
    bits = counters.astype(np.uint64)
    bits += np.uint64(1)
    bits *= np.uint64(GOLDEN)
    bits += np.uint64(key)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits ^= bits >> np.uint64(shift)
        bits *= np.uint64(factor)
    bits ^= bits >> np.uint64(31)
    return bits


def random_below(key: int, counters: Indices, bound: int) -> Indices:
    """A number in [0, ``bound``) for each of ``counters``; ``bound`` is at most 2**31."""
    bits = random_bits(key, counters)
    bits >>= np.uint64(32)
    bits *= np.uint64(bound)
    bits >>= np.uint64(32)
    return bits.astype(np.int64)


def generator(key: int, index: int) -> np.random.Generator:
    """The `numpy.random.Generator` that belongs to ``index``: Philox keyed by it."""
    low = derive(key, index)
    return np.random.Generator(np.random.Philox(key=low | (derive(low, key) << 64)))


def _mix64(word: int) -> int:
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 & MASK64
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB & MASK64
    return word ^ (word >> 31)
