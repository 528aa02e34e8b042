"""Counter-based random numbers: each a pure function of a key and its number."""

# Only integer arithmetic of fixed width is used: no NumPy generator takes part in an order, so an
# order is the same under every version of NumPy and Python. `tests/golden/orders.json` pins it.
# Changing a constant here breaks every checkpoint.

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..core.block import Indices

MASK64 = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
OFFSET = 0x632BE59BD9B4E019
HALF = np.uint64(32)
LOW = np.uint64((1 << 32) - 1)
FINALIZER = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))


def derive(*words: int) -> int:
    """A 64-bit key from integers: the order of ``words`` matters, so (1, 2) is not (2, 1).

    Each word is folded in with the finalizer of SplitMix64 (Steele, Lea and Flood,
    OOPSLA 2014).
    """
    key = len(words)
    for word in words:
        key = _mix64(((key ^ (word & MASK64)) * GOLDEN + OFFSET) & MASK64)
    return key


def derive_many(key: int, words: Indices) -> npt.NDArray[np.uint64]:
    """``derive(key, word)`` for each of ``words``; both of shape (n,)."""
    # As in `derive`: first the common word, then each of ``words``.
    first = _mix64(((2 ^ key & MASK64) * GOLDEN + OFFSET) & MASK64)
    keys = words.astype(np.uint64)
    keys ^= np.uint64(first)
    keys *= np.uint64(GOLDEN)
    keys += np.uint64(OFFSET)
    return _finalized(keys)


def random_bits(key: int, counters: Indices) -> npt.NDArray[np.uint64]:
    """64 random bits for each of ``counters``: SplitMix64 at these positions of its stream.

    Args:
      key: picks the stream, in [0, 2**64).
      counters: positions of any shape; the result is a uint64 array of the same shape.
    """
    bits = counters.astype(np.uint64)
    bits += np.uint64(1)
    bits *= np.uint64(GOLDEN)
    bits += np.uint64(key)
    return _finalized(bits)


def random_rows(keys: npt.NDArray[np.uint64], count: int) -> npt.NDArray[np.uint64]:
    """The first ``count`` of the `random_bits` of each of ``keys``, shape (len(keys), count)."""
    steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(GOLDEN)
    return _finalized(keys[:, np.newaxis] + steps)


def random_below(key: int, counters: Indices, bound: int) -> Indices:
    """A number in [0, ``bound``) for each of ``counters``.

    Args:
      key: picks the stream, in [0, 2**64).
      counters: positions of any shape; the result is an int64 array of the same shape.
      bound: from 1 to 2**62.
    """
    bits = random_bits(key, counters)
    if bound <= 2**31:
        bits >>= HALF
        bits *= np.uint64(bound)
        bits >>= HALF
        return bits.astype(np.int64)
    # The upper 64 of the 128 bits of the product, by halves of both factors.
    high, low = bits >> HALF, bits & LOW
    upper, lower = np.uint64(bound >> 32), np.uint64(bound & (1 << 32) - 1)
    middle = high * lower + (low * lower >> HALF)
    carried = (low * upper + (middle & LOW)) >> HALF
    product: npt.NDArray[np.uint64] = high * upper + (middle >> HALF) + carried
    return product.astype(np.int64)


def generator(key: int, index: int) -> np.random.Generator:
    """The `numpy.random.Generator` of ``index``: Philox keyed by ``key`` and ``index``."""
    low = derive(key, index)
    return np.random.Generator(np.random.Philox(key=low | (derive(low, key) << 64)))


def _finalized(bits: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """`_mix64` of each of ``bits``, in place."""
    for shift, factor in FINALIZER:
        bits ^= bits >> np.uint64(shift)
        bits *= np.uint64(factor)
    bits ^= bits >> np.uint64(31)
    return bits


def _mix64(word: int) -> int:
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 & MASK64
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB & MASK64
    return word ^ (word >> 31)
