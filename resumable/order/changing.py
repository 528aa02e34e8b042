"""Turns in proportions with changes at given items of a mix."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, TypeAlias, final

import numpy as np

from ..core.block import Indices
from ..core.orders import MOST_ITEMS
from ..core.prepared_items import grouped
from .long_schedule import LongSchedule
from .random_bits import derive
from .schedule import LONGEST_ROUND, Schedule
from .some_inputs import SomeInputs
from .turns import Stretch
from .weights import Parts

AnyRounds: TypeAlias = "Schedule | LongSchedule | SomeInputs"
AnySchedule: TypeAlias = "Schedule | LongSchedule | ChangingSchedule"


@final
class ChangingSchedule:
    """Several schedules in sequence, each with rounds counted from its first turn.

    Args:
      firsts: the first turn of each schedule, ascending from 0.
      schedules: one for each of ``firsts``, over the same upstreams.
    """

    def __init__(self, firsts: Sequence[int], schedules: Sequence[AnyRounds]) -> None:
        self._firsts = list(firsts)
        self._stops = [*self._firsts[1:], 2 * MOST_ITEMS]
        self._schedules = schedules

    def next_turn(self, turn: int, upstreams: Iterable[int]) -> int:
        """The first turn from ``turn`` on of any of ``upstreams``."""
        wanted = list(upstreams)
        for part in range(self._part_of(turn), len(self._firsts)):
            first = self._firsts[part]
            found = first + self._schedules[part].next_turn(max(turn - first, 0), wanted)
            if found < self._stops[part]:
                break
        return found

    def items_of(self, turns: Indices) -> tuple[Indices, Indices]:
        """The upstream of each of ``turns`` and its item's index there, each of shape (n,)."""
        upstreams, items = np.empty_like(turns), np.empty_like(turns)
        order, groups = grouped(np.searchsorted(self._firsts, turns, side="right") - 1)
        for part, start, stop in groups:
            here = order[start:stop]
            own, within = self._schedules[part].items_of(turns[here] - self._firsts[part])
            upstreams[here], items[here] = own, within + self._before[part, own]
        return upstreams, items

    def upstreams_from(self, turn: int, count: int) -> Any:
        """The upstreams of ``count`` turns from ``turn`` on: integers, shape (count,)."""
        pieces = []
        for part in range(self._part_of(turn), self._part_of(turn + count - 1) + 1):
            first = self._firsts[part]
            begin, stop = max(turn, first), min(turn + count, self._stops[part])
            pieces.append(self._schedules[part].upstreams_from(begin - first, stop - begin))
        return np.concatenate(pieces)

    def turn_of(self, upstream: int, item: int) -> int:
        """The turn for item number ``item`` of ``upstream``; 2**62 or more if beyond all turns."""
        before = self._before[:, upstream]
        part = int(np.searchsorted(before, item, side="right")) - 1
        within = self._schedules[part].turn_of(upstream, item - int(before[part]))
        return self._firsts[part] + within

    def turns_before(self, turn: int) -> list[int]:
        """The number of each upstream's turns before ``turn``."""
        part = self._part_of(turn)
        within = self._schedules[part].turns_before(turn - self._firsts[part])
        counts: list[int] = (self._before[part] + within).tolist()
        return counts

    def round_end(self, turn: int) -> int:
        """The first turn without effect on the order of the round of ``turn``.

        A change of weights within the round affects the order, since the round then has the order
        of the seed alone.
        """
        part = self._part_of(turn)
        first = self._firsts[part]
        return min(first + self._schedules[part].round_end(turn - first), self._stops[part] + 1)

    def _part_of(self, turn: int) -> int:
        return bisect_right(self._firsts, turn) - 1

    def stretch(self, turn: int) -> Stretch:
        """The turns around ``turn`` with the same weights."""
        part = self._part_of(turn)
        first, is_last = self._firsts[part], part + 1 == len(self._firsts)
        upstreams = self._schedules[part].stretch(turn - first).upstreams
        return Stretch(first, math.inf if is_last else self._stops[part], upstreams)

    @cached_property
    def _before(self) -> Indices:
        """The number of each upstream's turns before each part, shape (parts, upstreams)."""
        lengths = np.diff(self._firsts).tolist()
        turns = [
            schedule.turns_before(length)
            for schedule, length in zip(self._schedules, lengths, strict=False)
        ]
        return np.cumsum([self._schedules[0].turns_before(0), *turns], axis=0)


def schedule_of(
    parts: Parts,
    changes: Iterable[tuple[int, Parts]],
    seed: int | None,
    lengths: Sequence[int | float],
    epoch: int | None = None,
    end: int | None = None,
) -> AnySchedule:
    """The turns of a mix.

    Args:
      parts: turns of each upstream in a round.
      changes: ``parts`` from a turn on, for ascending turns.
      seed: orders the turns of each round; None spreads the turns evenly.
      lengths: items of each upstream, where known; needed only by ``turns_with_items``.
      epoch: gives the rounds different orders in each epoch; None leaves the orders to the seed.
        Rounds with a change of weights, or with ``end``, keep the order of the seed alone: so each
        upstream has equally many items before the change or end in every epoch.
      end: the turn where the mix ends, if the end depends on the order of a round.
    """
    parts_from = {0: parts, **dict(changes)}
    firsts = list(parts_from)
    schedules: list[AnyRounds] = []
    for first, stop in zip(firsts, [*firsts[1:], None], strict=True):
        kept = [turn - first for turn in (stop, end) if turn is not None and turn >= first]
        own_seed = derive(seed, first) if seed is not None and first else seed
        schedules.append(_rounds_of(parts_from[first], own_seed, lengths, epoch, kept))
    only = schedules[0]
    if schedules[1:] or isinstance(only, SomeInputs):
        return ChangingSchedule(firsts, schedules)
    return only


def _rounds_of(
    parts: Parts,
    seed: int | None,
    lengths: Sequence[int | float],
    epoch: int | None,
    kept: Iterable[int],
) -> AnyRounds:
    """Rounds with turns only for upstreams whose ``parts`` are not 0."""
    numbers = [number for number, part in enumerate(parts) if part]
    own = tuple(parts[number] for number in numbers)
    kind = LongSchedule if sum(own) > LONGEST_ROUND else Schedule
    rounds = kind(own, seed, [lengths[number] for number in numbers], epoch, kept)
    return rounds if len(numbers) == len(parts) else SomeInputs(rounds, numbers, len(parts))
