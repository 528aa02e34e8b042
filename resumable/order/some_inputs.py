"""Turns of only some of the upstreams of a mix."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, final

import numpy as np

from ..core.block import Indices
from ..core.orders import MOST_ITEMS
from .long_schedule import LongSchedule
from .schedule import Schedule
from .turns import Stretch

NEVER = 2 * MOST_ITEMS


@final
class SomeInputs:
    """A schedule of the upstreams with turns, under their numbers among all upstreams.

    Args:
      schedule: of the upstreams with turns.
      numbers: of the upstreams with turns, among all upstreams, ascending.
      count: number of all upstreams.
    """

    def __init__(
        self, schedule: Schedule | LongSchedule, numbers: Sequence[int], count: int
    ) -> None:
        self._schedule = schedule
        self._numbers = np.array(numbers, np.int64)
        self._places = {number: place for place, number in enumerate(numbers)}
        self._count = count

    def stretch(self, turn: int) -> Stretch:
        """All turns: the weights never change."""
        return Stretch(0, math.inf, list(self._places))

    def next_turn(self, turn: int, upstreams: Iterable[int]) -> int:
        """The first turn from ``turn`` on of any of ``upstreams``."""
        wanted = [self._places[number] for number in upstreams if number in self._places]
        return self._schedule.next_turn(turn, wanted) if wanted else NEVER

    def items_of(self, turns: Indices) -> tuple[Indices, Indices]:
        """The upstream of each of ``turns`` and its item's index there, each of shape (n,)."""
        places, items = self._schedule.items_of(turns)
        return self._numbers[places], items

    def upstreams_from(self, turn: int, count: int) -> Any:
        """The upstreams of ``count`` turns from ``turn`` on: integers, shape (count,)."""
        return self._numbers[self._schedule.upstreams_from(turn, count)]

    def turn_of(self, upstream: int, item: int) -> int:
        """The turn for item number ``item`` of ``upstream``; 2**62 or more if beyond all turns."""
        place = self._places.get(upstream)
        return NEVER if place is None else self._schedule.turn_of(place, item)

    def turns_before(self, turn: int) -> list[int]:
        """The number of each upstream's turns before ``turn``."""
        counts = np.zeros(self._count, np.int64)
        counts[self._numbers] = self._schedule.turns_before(turn)
        before: list[int] = counts.tolist()
        return before

    def round_end(self, turn: int) -> int:
        """The first turn after the round of ``turn``."""
        return self._schedule.round_end(turn)
