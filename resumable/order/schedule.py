"""Whose turn it is when several pipelines are mixed in fixed proportions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeAlias, final

import numpy as np

from ..core.arguments import check_positive
from ..core.block import Indices
from ..errors import InvalidArgument, InvalidType, shorten
from .permutation import permutation
from .random_bits import derive

Weights: TypeAlias = Sequence[float]

LONGEST_ROUND = 4096
BEYOND_ANY_LENGTH = 2**62


def integer_weights(weights: Weights | None, count: int) -> tuple[int, ...]:
    """``weights`` as the smallest whole numbers in the same proportions.

    Where their sum would exceed 4,096, the nearest proportions that do not.

    Raises:
      InvalidArgument: unless there are ``count`` positive finite numbers.
    """
    if weights is None:
        return (1,) * count
    try:
        numbers = list(weights)
    except TypeError:
        raise InvalidType(f"weights must be several numbers, got {shorten(weights)}") from None
    if len(numbers) != count:
        raise InvalidArgument(
            f"weights must be one for each of {count} pipelines, got {shorten(numbers)}"
        )
    for weight in numbers:
        check_positive("weights", weight, "numbers")
    # The decimal that was written, 0.7, rather than the binary fraction nearest to it.
    exact = [w if isinstance(w, Fraction) else Fraction(str(w)) for w in numbers]
    scale = math.lcm(*(weight.denominator for weight in exact))
    parts = [int(weight * scale) for weight in exact]
    divisor = math.gcd(*parts)
    parts = [part // divisor for part in parts]
    if sum(parts) <= LONGEST_ROUND:
        return tuple(parts)
    total = sum(exact)
    return tuple(max(1, round(weight / total * LONGEST_ROUND)) for weight in exact)


@final
class Schedule:
    """The turns of rounds in which each upstream i has ``parts[i]`` of them.

    Args:
      parts: turns of each upstream in a round.
      seed: orders the turns of each round; None spreads them evenly.
      lengths: items of each upstream, where known.
    """

    def __init__(
        self, parts: tuple[int, ...], seed: int | None, lengths: Sequence[int | float]
    ) -> None:
        self._parts = np.array(parts, np.int64)
        self._round = sum(parts)
        self._seed = None if seed is None else derive(seed)
        self._even = _spread(parts)
        self._lengths = np.array(
            [BEYOND_ANY_LENGTH if length == math.inf else length for length in lengths], np.int64
        )
        self.turns_of_round = lru_cache(maxsize=64)(self._turns_of_round)

    def upstream_of(self, turn: int) -> int:
        """Which upstream has ``turn``."""
        number, place = divmod(turn, self._round)
        return int(self.turns_of_round(number if self._seed is not None else 0)[0][place])

    def items_of(self, turns: Indices) -> tuple[Indices, Indices]:
        """For each of ``turns`` the upstream, and the index of the item in it."""
        numbers, places = np.divmod(turns, self._round)
        if self._seed is None:
            upstreams, ranks = (table[places] for table in self._even)
        else:
            upstreams, ranks = np.empty_like(turns), np.empty_like(turns)
            for number in np.unique(numbers).tolist():
                here = numbers == number
                tables = self.turns_of_round(number)
                upstreams[here], ranks[here] = (table[places[here]] for table in tables)
        return upstreams, numbers * self._parts[upstreams] + ranks

    def turns_before_end(self) -> int:
        """The first turn for which its upstream has no item."""
        firsts = []
        for upstream, (length, part) in enumerate(zip(self._lengths, self._parts, strict=True)):
            number, rank = divmod(int(length), int(part))
            upstreams, ranks = self.turns_of_round(number if self._seed is not None else 0)
            place = np.flatnonzero((upstreams == upstream) & (ranks == rank))[0]
            firsts.append(number * self._round + int(place))
        return min(firsts)

    def turns_with_items(self, indices: Indices) -> Indices:
        """The ``indices``-th turns among those for which the upstream has an item."""
        numbers = self._rounds_of(indices)
        within = indices - self._items_before(numbers)
        turns = numbers * self._round + within
        first_short = int((self._lengths // self._parts).min())
        for number in np.unique(numbers[numbers >= first_short]).tolist():
            here = numbers == number
            upstreams, items = self.items_of(
                np.arange(self._round, dtype=np.int64) + number * self._round
            )
            places = np.flatnonzero(items < self._lengths[upstreams])
            turns[here] = number * self._round + places[within[here]]
        return turns

    def _items_before(self, numbers: Indices) -> Indices:
        """Items of all rounds before each of ``numbers``."""
        before = np.zeros_like(numbers)
        for length, part in zip(self._lengths, self._parts, strict=True):
            # The comparison keeps the product within int64.
            before += np.where(numbers > length // part, length, numbers * part)
        return before

    def _rounds_of(self, indices: Indices) -> Indices:
        """The round that each of ``indices`` falls into, by bisection."""
        low = np.zeros_like(indices)
        # Every round has an item until the longest upstream has ended.
        high = np.minimum(indices, int((self._lengths // self._parts).max())) + 1
        while np.any(high - low > 1):
            middle = (low + high) // 2
            reached = self._items_before(middle) <= indices
            low, high = np.where(reached, middle, low), np.where(reached, high, middle)
        return low

    def _turns_of_round(self, number: int) -> tuple[Indices, Indices]:
        """For each turn of round ``number`` the upstream, and which of its turns this is."""
        if self._seed is None:
            return self._even
        order = permutation(self._round, self._seed, number)(np.arange(self._round, dtype=np.int64))
        upstreams = self._even[0][order]
        ranks = np.empty_like(upstreams)
        for upstream, part in enumerate(self._parts.tolist()):
            ranks[upstreams == upstream] = np.arange(part, dtype=np.int64)
        return upstreams, ranks


def _spread(parts: tuple[int, ...]) -> tuple[Any, Any]:
    """A round in which the turns of each upstream are as far apart as can be."""
    upstreams = np.repeat(np.arange(len(parts)), parts)
    ranks = np.concatenate([np.arange(part, dtype=np.int64) for part in parts])
    due = np.concatenate([(np.arange(part) + 0.5) / part for part in parts])
    order = np.lexsort((upstreams, due))
    return upstreams[order].astype(np.int64), ranks[order].astype(np.int64)
