"""The turns of many rounds at once, each round in a separate random order."""

# A round is a row here. The order of a row is the stable order of random keys, as in the table of a
# `Permutation`; the keys are the same, so the orders are too. Rows of which many turns are needed
# are sorted; finding one or two turns of a row takes less work.

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, final

import numpy as np

from ..core.block import Indices
from .random_bits import derive, derive_many, random_rows

# Rows are computed this many turns at a time, with 8 bytes for each key: small enough for the
# nearest caches.
TURNS_AT_ONCE: Final = 1 << 13
# Rows this short are sorted faster column by column, over all rows.
SHORT_ROUND: Final = 4


class Stretch(NamedTuple):
    """Turns with the same weights.

    Attributes:
      first: the first turn.
      stop: the first turn after the stretch; infinite for the last stretch.
      upstreams: the upstreams with turns in the stretch.
    """

    first: int
    stop: float
    upstreams: Sequence[int]


@final
class RoundKeys:
    """The key of the order of each round.

    Args:
      seed: orders the turns; None for no shuffle.
      epoch: gives the rounds different orders in each epoch; None for orders of the seed alone.
      kept: numbers of rounds that have the order of the seed alone in every epoch.
    """

    def __init__(self, seed: int | None, epoch: int | None, kept: Iterable[int]) -> None:
        self._key = self._of_seed = None if seed is None else derive(seed)
        self._kept: frozenset[int] = frozenset()
        if seed is not None and epoch is not None:
            self._key, self._kept = derive(seed, epoch), frozenset(kept)

    def of(self, numbers: Indices) -> Any:
        """The key of each round of ``numbers``, uint64 of the same shape (n,); None for no shuffle."""
        if self._key is None or self._of_seed is None:
            return None
        keys = derive_many(self._key, numbers)
        for number in self._kept:
            keys[numbers == number] = derive(self._of_seed, number)
        return keys


@final
class Rounds:
    """Rounds of equal length, in which the turns of each upstream are spread evenly.

    Args:
      parts: number of turns of each upstream in each kind of round, shape (kinds, upstreams).
    """

    def __init__(self, parts: Any) -> None:
        upstreams, ranks = zip(*map(_spread, map(tuple, parts.tolist())), strict=True)
        self._parts = parts
        self._upstreams = np.array(upstreams)
        self._ranks = np.array(ranks)
        self._length = self._upstreams.shape[1]

    def turns(
        self, kinds: Indices, keys: Any, rows: Indices, places: Indices
    ) -> tuple[Indices, Indices]:
        """The upstream of some turns, and the rank of each among the upstream's turns in the round.

        Args:
          kinds: kind of each round, shape (rounds,).
          keys: key of the order of each round, uint64, of the same shape; None for no shuffle.
          rows: for each turn the number of its round, shape (turns,).
          places: for each turn its place in the round, of the same shape.
        """
        if keys is None:
            kinds = kinds[rows]
            upstreams, ranks = self._upstreams[kinds, places], self._ranks[kinds, places]
            return upstreams.astype(np.int64), ranks.astype(np.int64)
        upstreams, ranks = np.empty_like(places), np.empty_like(places)
        order = np.argsort(rows, kind="stable")
        ascending = rows[order]
        for start, stop in self._chunks(len(keys)):
            first, last = np.searchsorted(ascending, (start, stop)).tolist()
            # Selecting takes the memory of a whole round for each turn.
            many = last - first > 2 * (stop - start)
            find = self._by_sorting if many else self._by_selecting
            here = order[first:last]
            upstreams[here], ranks[here] = find(
                kinds[start:stop], keys[start:stop], ascending[first:last] - start, places[here]
            )
        return upstreams, ranks

    def in_a_row(self, kinds: Indices, keys: Any) -> Any:
        """The upstream of each turn of whole rounds, one round after another.

        Args:
          kinds: of the rounds, shape (rounds,).
          keys: as in `turns`.

        Returns:
          numbers of the smallest dtype that holds the upstreams, shape (rounds * turns of a
          round,).
        """
        if keys is None:
            return self._upstreams[kinds].reshape(-1)
        found = np.empty((len(kinds), self._length), self._upstreams.dtype)
        for start, stop in self._chunks(len(keys)):
            order = _stable_order(random_rows(keys[start:stop], self._length))
            found[start:stop] = self._upstreams[kinds[start:stop, np.newaxis], order]
        return found.reshape(-1)

    def _chunks(self, rows: int) -> list[tuple[int, int]]:
        step = max(TURNS_AT_ONCE // self._length, 1)
        return [(start, min(start + step, rows)) for start in range(0, rows, step)]

    def _by_sorting(
        self, kinds: Indices, keys: Any, rows: Indices, places: Indices
    ) -> tuple[Indices, Indices]:
        order = _stable_order(random_rows(keys, self._length))
        upstreams = np.take_along_axis(self._upstreams[kinds], order, axis=1)
        # Sorted by upstream, the turns of one upstream in one round stand side by side.
        sizes = self._parts[kinds].T.reshape(-1)
        ranks = np.empty(order.size, np.int64)
        ranks[np.argsort(upstreams, axis=None, kind="stable")] = np.arange(order.size) - np.repeat(
            np.cumsum(sizes) - sizes, sizes
        )
        return upstreams[rows, places], ranks.reshape(order.shape)[rows, places]

    def _by_selecting(
        self, kinds: Indices, keys: Any, rows: Indices, places: Indices
    ) -> tuple[Indices, Indices]:
        bits = random_rows(keys, self._length)[rows]
        chosen = np.sort(bits, axis=1)[np.arange(len(rows)), places, np.newaxis]
        equal = bits == chosen
        if np.count_nonzero(equal) > len(rows):  # two keys of a row are equal
            return self._by_sorting(kinds, keys, rows, places)
        spread_upstreams = self._upstreams[kinds[rows]]
        upstreams = spread_upstreams[equal]
        earlier = (bits < chosen) & (spread_upstreams == upstreams[:, np.newaxis])
        return upstreams, np.count_nonzero(earlier, axis=1)


@lru_cache(maxsize=256)
def _spread(parts: tuple[int, ...]) -> tuple[Any, Any]:
    """A round in which the turns of each upstream are as far apart as can be.

    Returns:
      For each turn the upstream, and the rank of the turn among the upstream's turns. Both are
      arrays of at most 4,096 numbers of small dtypes, which take less memory and less time to sort.
    """
    upstreams = np.repeat(np.arange(len(parts)), parts)
    ranks = np.concatenate([np.arange(part) for part in parts])
    due = np.concatenate([(np.arange(part) + 0.5) / part for part in parts])
    order = np.lexsort((upstreams, due))
    kind = np.min_scalar_type(len(parts))
    return upstreams[order].astype(kind), ranks[order].astype(np.uint16)


def _stable_order(keys: Any) -> Indices:
    """The stable order of each row of ``keys``, uint64, shape (rows, length)."""
    # A number and its place in one word are sorted in a fraction of the time. The bits that the
    # place takes are missed only where the other bits of two numbers are equal.
    length = keys.shape[1]
    bits = np.uint64((length - 1).bit_length())
    places = (np.uint64(1) << bits) - np.uint64(1)
    words = keys & ~places
    words |= np.arange(length, dtype=np.uint64)
    words = _sorted_by_column(words) if length <= SHORT_ROUND else np.sort(words, axis=1)
    rest = words >> bits
    if (rest[:, 1:] == rest[:, :-1]).any():
        return np.argsort(keys, axis=1, kind="stable")
    order: Indices = (words & places).view(np.int64)
    return order


def _sorted_by_column(rows: Any) -> Any:
    """Each of ``rows`` sorted, all at once: neighbours swap places until all are in order."""
    columns = list(np.ascontiguousarray(rows.T))
    for turn in range(len(columns)):
        for left in range(turn % 2, len(columns) - 1, 2):
            pair = columns[left], columns[left + 1]
            columns[left], columns[left + 1] = np.minimum(*pair), np.maximum(*pair)
    return np.stack(columns, axis=1)
