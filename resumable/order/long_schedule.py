"""The turns of rounds too long for a table."""

# As in a short round, item k of an upstream with w of the turns is due at (2k + 1) / 2w of the
# round, and the turns follow these times. The number of items of each upstream among the first t
# turns follows by exact arithmetic with integers of any size. So a round can be cut into sections,
# each with its numbers of turns, which are spread or shuffled as in a short round.

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from operator import add
from typing import Any, Final, NamedTuple, final

import numpy as np

from ..core.block import Indices
from ..core.orders import MOST_ITEMS, check_reach, last_up_to
from .turns import RoundKeys, Rounds, Stretch

SECTION: Final = 1024
SECTIONS_AT_ONCE: Final = 1024  # these take some megabytes


class _Section(NamedTuple):
    """Consecutive turns: the number of the first, and the upstream and the item of each."""

    start: int
    upstreams: Indices
    items: Indices


@final
class LongSchedule:
    """As `Schedule`, for rounds of any length.

    One or two turns of a section take some ten microseconds each. For more turns the whole section
    is computed.

    Args:
      parts: turns of each upstream in a round.
      seed: orders the turns of each section; None spreads the turns evenly.
      lengths: items of each upstream, where known.
      epoch: gives the sections different orders in each epoch; None leaves the orders to the seed.
      kept: turns whose section has the order of the seed alone in every epoch.
    """

    def __init__(
        self,
        parts: tuple[int, ...],
        seed: int | None,
        lengths: Sequence[int | float],
        epoch: int | None = None,
        kept: Iterable[int] = (),
    ) -> None:
        self._parts = parts
        self._round = sum(parts)
        self._sections = -(-self._round // SECTION)  # in a round
        self._keys = RoundKeys(seed, epoch, map(self._section_of, kept))
        self._lengths: list[int] = [int(min(length, MOST_ITEMS)) for length in lengths]
        self._section = lru_cache(maxsize=256)(self._make_section)
        self._before = lru_cache(maxsize=1024)(self._count_before)

    def next_turn(self, turn: int, upstreams: Iterable[int]) -> int:
        """The first turn from ``turn`` on of any of ``upstreams``."""
        wanted = list(upstreams)
        number = self._section_of(turn)
        section = self._section(number)
        places = np.flatnonzero(np.isin(section.upstreams[turn - section.start :], wanted))
        if len(places):
            return turn + int(places[0])

        def turns_before(number: int) -> int:
            return sum(self._before(number)[upstream] for upstream in wanted)

        section = self._section(last_up_to(turns_before(number + 1), turns_before, number + 1))
        return section.start + int(np.flatnonzero(np.isin(section.upstreams, wanted))[0])

    def items_of(self, turns: Indices) -> tuple[Indices, Indices]:
        """The upstream of each of ``turns`` and its item's index there, each of shape (n,)."""
        rounds, within = np.divmod(turns, min(self._round, MOST_ITEMS))
        places = within % SECTION
        if len(turns):
            check_reach(int((turns - places).max()))
        numbers = rounds * min(self._sections, MOST_ITEMS) + within // SECTION
        found, rows = np.unique(numbers, return_inverse=True)
        rows = rows.reshape(-1)
        order = np.argsort(rows, kind="stable")
        upstreams, items = np.empty_like(turns), np.empty_like(turns)
        for start in range(0, len(found), SECTIONS_AT_ONCE):
            stop = start + SECTIONS_AT_ONCE
            first, last = np.searchsorted(rows[order], (start, stop)).tolist()
            here = order[first:last]
            upstreams[here], items[here] = self._items_in(
                found[start:stop], rows[here] - start, places[here]
            )
        return upstreams, items

    def upstreams_from(self, turn: int, count: int) -> Any:
        """The upstreams of ``count`` turns from ``turn`` on, shape (count,)."""
        return self.items_of(np.arange(turn, turn + count, dtype=np.int64))[0]

    def _items_in(
        self, numbers: Indices, rows: Indices, places: Indices
    ) -> tuple[Indices, Indices]:
        """As `items_of`, for ``places`` in sections ``numbers[rows]``, where ``numbers`` ascend."""
        edges = np.union1d(numbers, numbers + 1)
        counts = self._counts_before(edges).astype(np.int64)
        before = counts[np.searchsorted(edges, numbers)]
        parts = counts[np.searchsorted(edges, numbers + 1)] - before
        sizes = parts.sum(axis=1)
        keys = self._keys.of(numbers)
        upstreams, ranks = np.empty_like(places), np.empty_like(places)
        for size in np.unique(sizes).tolist():  # the last section of a round may be shorter
            alike = np.flatnonzero(sizes == size)
            here = np.flatnonzero(sizes[rows] == size)
            kinds, kind_of = np.unique(parts[alike], axis=0, return_inverse=True)
            upstreams[here], ranks[here] = Rounds(kinds).turns(
                kind_of.reshape(-1),
                None if keys is None else keys[alike],
                np.searchsorted(alike, rows[here]),
                places[here],
            )
        return upstreams, before[rows, upstreams] + ranks

    def turn_of(self, upstream: int, item: int) -> int:
        """The turn for item number ``item`` of ``upstream``; 2**62 or more if beyond all turns."""

        def items_before(number: int) -> int:
            return self._before(number)[upstream]

        first = item // self._parts[upstream] * self._sections
        number = last_up_to(item, items_before, first)
        if self._start(number) >= MOST_ITEMS:
            return MOST_ITEMS
        section = self._section(number)
        place = np.flatnonzero((section.upstreams == upstream) & (section.items == item))[0]
        return section.start + int(place)

    def turns_before(self, turn: int) -> list[int]:
        """The number of each upstream's turns before ``turn``."""
        number = self._section_of(turn)
        section = self._section(number)
        last = np.bincount(section.upstreams[: turn - section.start], minlength=len(self._parts))
        return list(map(add, self._before(number), last.tolist()))

    def stretch(self, turn: int) -> Stretch:
        """All turns: the weights never change."""
        return Stretch(0, math.inf, range(len(self._parts)))

    def round_end(self, turn: int) -> int:
        """The first turn after the section of ``turn``."""
        return self._start(self._section_of(turn) + 1)

    @cached_property
    def _first_without_item(self) -> int:
        firsts = [
            self.turn_of(upstream, length)
            for upstream, length in enumerate(self._lengths)
            if length < MOST_ITEMS
        ]
        return min(firsts, default=MOST_ITEMS)

    def turns_with_items(self, indices: Indices) -> Indices:
        """The turn of each of ``indices``, where turns without an item are not counted.

        Both have shape (n,).
        """
        order = np.argsort(indices, kind="stable")
        ascending = indices[order]
        turns: Indices = indices.copy()
        lengths = np.array(self._lengths, np.int64)
        # Until the first turn without an item, items and turns have the same numbers.
        done, number = int(np.searchsorted(ascending, self._first_without_item)), 0
        while done < len(indices):
            first = int(ascending[done])
            number = last_up_to(first, self._items_before, max(number, first // SECTION))
            section, before = self._section(number), self._items_before(number)
            places = np.flatnonzero(section.items < lengths[section.upstreams])
            stop = int(np.searchsorted(ascending, before + len(places)))
            turns[order[done:stop]] = section.start + places[ascending[done:stop] - before]
            done = stop
        return turns

    def _items_before(self, number: int) -> int:
        """Items of all sections before ``number``."""
        return sum(map(min, self._before(number), self._lengths))

    def _section_of(self, turn: int) -> int:
        rounds, within = divmod(turn, self._round)
        return rounds * self._sections + within // SECTION

    def _start(self, number: int) -> int:
        rounds, section = divmod(number, self._sections)
        return rounds * self._round + section * SECTION

    def _count_before(self, number: int) -> list[int]:
        """The number of each upstream's turns before section ``number``."""
        counts: list[int] = self._counts_before(np.array([number]))[0].tolist()
        return counts

    def _counts_before(self, numbers: Any) -> Any:
        """`_count_before` of each of ``numbers``: Python integers, shape (numbers, upstreams)."""
        numbers = numbers.astype(object)
        due = _due(self._parts, self._round, numbers % self._sections * SECTION)
        rounds = numbers[:, np.newaxis] // self._sections
        return due + rounds * np.array(self._parts, object)

    def _make_section(self, number: int) -> _Section:
        start, stop = self._start(number), self._start(number + 1)
        check_reach(start)
        return _Section(start, *self.items_of(np.arange(start, stop, dtype=np.int64)))


def _due(parts: Sequence[int], total: int, turns: Any) -> Any:
    """The number of items of each upstream in the first t turns of a round, for t in ``turns``.

    Arrays of Python integers, since products exceed 64 bits; shape (turns, upstreams).
    """
    # The items due by the time t / total, rounded for each upstream, may not sum up to t. Then the
    # items due next are added, or the items due last removed. If items are due at the same time,
    # the items of the first upstream come first.
    weights = np.array(parts, object)
    counts = (2 * turns[:, np.newaxis] * weights + total) // (2 * total)
    missing = turns - counts.sum(axis=1)
    for step in (1, -1):
        rows = np.flatnonzero(missing * step > 0)
        while len(rows):
            # Different times differ by more than 1 / (total + 1)**2, so rounding keeps their order.
            times = (2 * counts[rows] + step) * (total + 1) ** 2 // weights
            if step > 0:
                upstreams = np.argmin(times, axis=1)
            else:
                upstreams = len(parts) - 1 - np.argmax(times[:, ::-1], axis=1)
            counts[rows, upstreams] += step
            missing[rows] -= step
            rows = rows[missing[rows] * step > 0]
    return counts
