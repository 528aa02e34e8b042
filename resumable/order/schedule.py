"""The turns of several pipelines mixed in fixed proportions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate
from operator import mul
from typing import Any, Final, final

import numpy as np

from ..core.block import Indices
from ..core.orders import MOST_ITEMS, check_reach
from .turns import TURNS_AT_ONCE, RoundKeys, Rounds, Stretch

LONGEST_ROUND: Final = 4096
KEPT_TURNS: Final = 4096


@final
class Schedule:
    """The turns of rounds with ``parts[i]`` turns for each upstream i, held as tables.

    Args:
      parts: turns of each upstream in a round, at most some thousands in all.
      seed: orders the turns of each round; None spreads the turns evenly.
      lengths: items of each upstream, where known.
      epoch: gives the rounds different orders in each epoch; None leaves the orders to the seed.
      kept: turns whose round has the order of the seed alone in every epoch.
    """

    def __init__(
        self,
        parts: tuple[int, ...],
        seed: int | None,
        lengths: Sequence[int | float],
        epoch: int | None = None,
        kept: Iterable[int] = (),
    ) -> None:
        self._parts = np.array(parts, np.int64)
        self._round = sum(parts)
        self._keys = RoundKeys(seed, epoch, (turn // self._round for turn in kept))
        self._shuffles = seed is not None
        self._rounds = Rounds(self._parts[np.newaxis])
        self._lengths = np.array(
            [MOST_ITEMS if length == math.inf else length for length in lengths], np.int64
        )
        # `next_turn` searches this many turns at a time: whole rounds.
        self._kept_turns = max(KEPT_TURNS // self._round, 1) * self._round
        self._kept = lru_cache(maxsize=16)(self._make_kept)

    def next_turn(self, turn: int, upstreams: Iterable[int]) -> int:
        """The first turn from ``turn`` on of any of ``upstreams``."""
        wanted = list(upstreams)
        number, place = divmod(turn, self._kept_turns)
        while not len(places := np.flatnonzero(np.isin(self._kept(number)[place:], wanted))):
            number, place = number + 1, 0
        return number * self._kept_turns + place + int(places[0])

    def items_of(self, turns: Indices) -> tuple[Indices, Indices]:
        """The upstream of each of ``turns`` and its item's index there, each of shape (n,)."""
        if len(turns) and turns[-1] - turns[0] == len(turns) - 1 and (np.diff(turns) == 1).all():
            return self._items_in_a_row(int(turns[0]), len(turns))
        numbers, places = np.divmod(turns, self._round)
        if self._shuffles:
            found, rows = np.unique(numbers, return_inverse=True)
        else:
            found, rows = np.zeros(1, np.int64), np.zeros_like(places)
        keys = self._keys.of(found)
        upstreams, ranks = self._rounds.turns(np.zeros_like(found), keys, rows.reshape(-1), places)
        return upstreams, numbers * self._parts[upstreams] + ranks

    def upstreams_from(self, turn: int, count: int) -> Any:
        """The upstreams of ``count`` turns from ``turn`` on: small integers, shape (count,)."""
        first, place = divmod(turn, self._round)
        return self._in_a_row(first, -(-(place + count) // self._round))[place : place + count]

    def _items_in_a_row(self, turn: int, count: int) -> tuple[Any, Indices]:
        """`items_of` for ``count`` turns from ``turn`` on."""
        first, place = divmod(turn, self._round)
        rounds = -(-(place + count) // self._round)
        upstreams = self._in_a_row(first, rounds)
        # In the order of the upstreams, the items of each are consecutive.
        sizes = self._parts * rounds
        starts = self._parts * first - (np.cumsum(sizes) - sizes)
        items = np.empty(len(upstreams), np.int64)
        items[np.argsort(upstreams, kind="stable")] = np.repeat(starts, sizes) + np.arange(
            len(items)
        )
        return upstreams[place : place + count], items[place : place + count]

    def _in_a_row(self, first: int, rounds: int) -> Any:
        """The upstreams of all turns of ``rounds`` rounds from round ``first`` on."""
        numbers = np.arange(first, first + rounds, dtype=np.int64)
        return self._rounds.in_a_row(np.zeros_like(numbers), self._keys.of(numbers))

    def turn_of(self, upstream: int, item: int) -> int:
        """The turn for item number ``item`` of ``upstream``; 2**62 or more if beyond all turns."""
        first = item // int(self._parts[upstream]) * self._round
        if first >= MOST_ITEMS:
            return first
        upstreams, items = self._items_in_a_row(first, self._round)
        return first + int(np.flatnonzero((upstreams == upstream) & (items == item))[0])

    def turns_before(self, turn: int) -> list[int]:
        """The number of each upstream's turns before ``turn``."""
        number, place = divmod(turn, self._round)
        last = np.bincount(self._in_a_row(number, 1)[:place], minlength=len(self._parts))
        counts: list[int] = (number * self._parts + last).tolist()
        return counts

    def stretch(self, turn: int) -> Stretch:
        """All turns: the weights never change."""
        return Stretch(0, math.inf, range(len(self._parts)))

    def round_end(self, turn: int) -> int:
        """The first turn after the round of ``turn``."""
        return (turn // self._round + 1) * self._round

    def turns_with_items(self, indices: Indices) -> Indices:
        """The turn of each of ``indices``, where turns without an item are not counted.

        Both have shape (n,).
        """
        numbers = self._rounds_of(indices)
        within = indices - self._items_before(numbers)
        if len(numbers):
            check_reach(int(numbers.max()) * self._round)
        turns = numbers * self._round + within
        first_short = int((self._lengths // self._parts).min())
        short = np.flatnonzero(numbers >= first_short)
        found, rows = np.unique(numbers[short], return_inverse=True)
        turns[short] = self._with_items(found, rows.reshape(-1), within[short])
        return turns

    def _with_items(self, numbers: Indices, rows: Indices, within: Indices) -> Indices:
        """The turn with item number ``within`` of round ``numbers[row]``, for each of ``rows``."""
        turns = np.empty_like(within)
        order = np.argsort(rows, kind="stable")
        ascending = rows[order]
        step = max(TURNS_AT_ONCE // self._round, 1)
        for start in range(0, len(numbers), step):
            firsts = numbers[start : start + step, np.newaxis] * self._round
            some = firsts + np.arange(self._round, dtype=np.int64)
            upstreams, items = self.items_of(some.reshape(-1))
            held = np.flatnonzero(items < self._lengths[upstreams])
            first, last = np.searchsorted(ascending, (start, start + step)).tolist()
            here, row = order[first:last], ascending[first:last] - start
            # Where the turns with items of each row begin in ``held``.
            begins = np.searchsorted(held, row * self._round)
            turns[here] = some.reshape(-1)[held[begins + within[here]]]
        return turns

    @cached_property
    def _stretches(self) -> tuple[Indices, Indices, Indices]:
        """Stretches of rounds with equally many items.

        Returns:
          for each stretch the first round, the items of one round, and the items before the
          stretch.
        """
        # In its last round an upstream may have items for only some of its turns.
        last = self._lengths // self._parts
        firsts = np.unique(np.concatenate([[0], last, last + 1]))
        held = np.zeros_like(firsts)
        for length, part, end in zip(self._lengths, self._parts, last, strict=True):
            held += np.where(firsts < end, part, np.where(firsts == end, length - end * part, 0))
        products = map(mul, np.diff(firsts).tolist(), held.tolist())
        before = [min(count, MOST_ITEMS) for count in accumulate(products, initial=0)]
        return firsts, held, np.array(before, np.int64)

    def _items_before(self, numbers: Indices) -> Indices:
        """Items of all rounds before each of ``numbers``."""
        firsts, held, before = self._stretches
        at = np.searchsorted(firsts, numbers, side="right") - 1
        return before[at] + (numbers - firsts[at]) * held[at]

    def _rounds_of(self, indices: Indices) -> Indices:
        """The round of each of ``indices``."""
        firsts, held, before = self._stretches
        at = np.searchsorted(before, indices, side="right") - 1
        rounds: Indices = firsts[at] + (indices - before[at]) // np.maximum(held[at], 1)
        return rounds

    def _make_kept(self, number: int) -> Indices:
        """The upstreams of ``_kept_turns`` turns, from turn ``number * _kept_turns`` on."""
        turns = np.arange(self._kept_turns, dtype=np.int64) + number * self._kept_turns
        return self.items_of(turns)[0]
