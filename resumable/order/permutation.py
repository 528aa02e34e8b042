"""Seeded permutations, computed for any block of indices at once."""

# Every random choice of the library is a pure function of (seed, epoch, index), so no choice has to
# be saved. Only `random_bits`, integer arithmetic and a stable sort are used, so an order is the
# same everywhere; `tests/golden/orders.json` pins it. Changing a constant here breaks every
# checkpoint.

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, final

import numpy as np

from ..core.block import Indices
from .random_bits import derive, random_bits

# Up to this length a permutation is a table: the stable order of random keys is uniform over all
# permutations, unlike a network of few bits. Above, a network takes O(1) memory.
TABLE_LENGTH = 4096
ROUNDS = 6
# Up to this many indices take less time one by one than as an array.
FEW = 8


@lru_cache(maxsize=32)
def permutation(length: int, seed: int, epoch: int) -> Permutation:
    """The `Permutation` of ``length`` for (``seed``, ``epoch``), cached."""
    return Permutation(length, derive(seed, epoch))


@final
class Permutation:
    """A bijection of [0, ``length``), computed for a block of indices at once.

    Memory is O(1): a table of at most 4,096 entries, or six keyed rounds of a Feistel
    network over [0, a) x [0, 2**b) with a * 2**b barely above ``length``. The few values
    beyond ``length`` walk on along their cycle (Black and Rogaway, *Ciphers with Arbitrary
    Finite Domains*, CT-RSA 2002).

    Args:
      length: number of items, at most 2**62.
      key: 64 bits from `derive`; each gives another permutation.
    """

    def __init__(self, length: int, key: int) -> None:
        self.length = length
        self._table: Indices | None = None
        if length <= TABLE_LENGTH:
            keys = random_bits(key, np.arange(length))
            self._table = np.argsort(keys, kind="stable").astype(np.int64)
            return
        # Invariant: left < a, right < 2**b, and x == left * 2**b + right.
        self._right_bits = ((length - 1).bit_length() + 1) // 2
        left_size = -(-length >> self._right_bits)
        # In 32-bit words a product of two 16-bit halves still fits.
        self._word: Any = np.uint32 if length <= 1 << 31 else np.uint64
        width = 8 * np.dtype(self._word).itemsize
        half = width // 2
        self._numbers = half, self._right_bits, left_size, width - self._right_bits
        self._words = tuple(map(self._word, self._numbers))
        mask = (1 << width) - 1
        self._integer_keys = [
            (derive(key, turn, 0) & mask, derive(key, turn, 1) & mask | 1) for turn in range(ROUNDS)
        ]
        self._keys = [tuple(map(self._word, pair)) for pair in self._integer_keys]

    def __call__(self, indices: Indices) -> Indices:
        """Map ``indices``, int64 in [0, length), to as many different values."""
        if self._table is not None:
            taken: Indices = self._table[indices]
            return taken
        if len(indices) <= FEW:
            return np.array([self._of_one(index) for index in indices.tolist()], np.int64)
        return self._walked_home(indices, self._network)

    def inverse(self, values: Indices) -> Indices:
        """The indices that map to ``values``, int64 in [0, length); both of shape (n,)."""
        if self._table is not None:
            indices = np.empty_like(self._table)
            indices[self._table] = np.arange(self.length)
            taken: Indices = indices[values]
            return taken
        return self._walked_home(values, self._network_back)

    def _walked_home(self, values: Indices, network: Callable[[Any], Any]) -> Indices:
        """``network`` of ``values``, repeated until each value is below `length`."""
        walked = network(values.astype(self._word))
        limit = self._word(self.length)
        outside = np.flatnonzero(walked >= limit)
        while outside.size:
            further = network(walked[outside])
            walked[outside] = further
            outside = outside[further >= limit]
        home: Indices = walked.astype(np.int64)
        return home

    def _network_back(self, values: Any) -> Any:
        """The inverse of `_network`: the rounds undone, the last round first."""
        half, right_bits, left_size, right_shift = self._words
        left, right = values >> right_bits, values & self._word((1 << self._right_bits) - 1)
        for turn in reversed(range(ROUNDS)):
            offset, factor = self._keys[turn]
            mixed = ((left if turn % 2 else right) ^ offset) * factor
            mixed = (mixed ^ mixed >> half) * factor
            if turn % 2:
                right ^= mixed >> right_shift
            else:
                # Where left is less than the number, left minus it wraps to a large value.
                left -= (mixed >> half) * left_size >> half
                left = np.minimum(left, left + left_size)
        return left << right_bits | right

    def _of_one(self, value: int) -> int:
        """The value that one index maps to, computed in Python integers."""
        half, right_bits, left_size, right_shift = self._numbers
        mask = (1 << 2 * half) - 1
        while True:
            left, right = value >> right_bits, value & ((1 << right_bits) - 1)
            for turn, (offset, factor) in enumerate(self._integer_keys):
                mixed = ((left if turn % 2 else right) ^ offset) * factor & mask
                mixed = (mixed ^ (mixed >> half)) * factor & mask
                if turn % 2:
                    right ^= mixed >> right_shift
                else:
                    left += (mixed >> half) * left_size >> half
                    left -= left_size * (left >= left_size)
            value = left << right_bits | right
            if value < self.length:
                return value

    def _network(self, values: Any) -> Any:
        half, right_bits, left_size, right_shift = self._words
        left, right = values >> right_bits, values & self._word((1 << self._right_bits) - 1)
        mixed, high = np.empty_like(values), np.empty_like(values)
        for turn, (offset, factor) in enumerate(self._keys):
            np.bitwise_xor(left if turn % 2 else right, offset, out=mixed)
            np.multiply(mixed, factor, out=mixed)
            np.right_shift(mixed, half, out=high)
            np.bitwise_xor(mixed, high, out=mixed)
            np.multiply(mixed, factor, out=mixed)
            if turn % 2:
                np.right_shift(mixed, right_shift, out=mixed)
                np.bitwise_xor(right, mixed, out=right)
            else:
                # left = (left + number below a) mod a: where left < a, left - a wraps to a large
                # value.
                np.right_shift(mixed, half, out=mixed)
                np.multiply(mixed, left_size, out=mixed)
                np.right_shift(mixed, half, out=mixed)
                np.add(left, mixed, out=left)
                np.subtract(left, left_size, out=mixed)
                np.minimum(left, mixed, out=left)
        np.left_shift(left, right_bits, out=left)
        np.bitwise_or(left, right, out=left)
        return left
