"""Motion from turn to turn of a mix."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, Final, TypeVar

import numpy as np

from ..core import Block, Combine, Indices, Length, StageIterator
from ..core.combine import FEW_TURNS, TURNS_AHEAD, TurnsIterator
from ..core.orders import MOST_ITEMS, check_reach
from ..core.reach import Reach
from ..core.stage_iterator import in_blocks
from ..order.changing import AnySchedule
from ..order.rounds import NO_TURNS
from ..state.value import State, unpack, unpack_count

T = TypeVar("T")

MOST_TURNS: Final = 8192


class MixIterator(TurnsIterator[T]):
    """Motion of a mix that ends with an upstream, or leaves out ended upstreams.

    Args:
      stage: the mix.
      epoch: the epoch of the mix.
      schedule: the turns.
      leaves_out: whether the turns of ended upstreams are left out.
      last: the turn at which the mix ends, if known and decided by one upstream.
    """

    _stage: Combine[T]

    def __init__(
        self,
        stage: Combine[T],
        epoch: int,
        schedule: AnySchedule,
        leaves_out: bool,
        last: Length,
    ) -> None:
        self._leaves_out = leaves_out
        # The last turn is not known beforehand, and no upstream may be read beyond it.
        self._goes_singly = not leaves_out and last is None
        super().__init__(stage, epoch)
        self._schedule = schedule
        self._last = last
        self._turn = 0
        # The turns planned last.
        self._planned: Sequence[int] | Indices = NO_TURNS
        # The upstreams of the turns from `_known_from` on, as far as computed.
        self._known: Indices = np.empty(0, np.int64)
        self._known_from = 0

    def pull(self, count: int) -> Block:
        if not self._goes_singly:
            return super().pull(count)
        self._stop()
        return list(islice(chain.from_iterable(self._runs(min(count, TURNS_AHEAD))), count))

    def blocks(self, size: int) -> Iterator[Block]:
        return in_blocks(self.items(), size) if self._goes_singly else self.turn_blocks(size)

    def _plan(self, count: int) -> Indices:
        self._planned, numbers = self._next_turns(count)
        return numbers

    def _turn_after(self, count: int) -> int:
        return int(self._planned[count - 1]) + 1 if count else self._turn

    def _advance_turns(self, count: int) -> None:
        self._turn = self._turn_after(count)

    def _advance_those(self, numbers: Indices, there: Indices) -> None:
        self._turn = self._turn_after(int(there[-1]) + 1)

    def _advance_past_end(self, place: int) -> bool:
        self._ended[self._numbers[place]] = self._leaves_out
        self._turn = self._turn_after(place + self._leaves_out)
        return self._leaves_out

    def _next_turns(self, count: int) -> tuple[Sequence[int] | Indices, Indices]:
        """Up to ``count`` of the next turns of upstreams that have not ended, and their upstreams.

        Both arrays are empty only at the end.
        """
        going = [number for number, ended in enumerate(self._ended) if not ended]
        # The remaining upstreams may have turns seldom: look at few turns, then go to their next
        # turn.
        looked_at = count if len(going) == len(self._ended) else FEW_TURNS
        while going and (self._last is None or self._turn < self._last):
            known = self._upstreams_from(self._turn, looked_at)
            if self._last is not None:
                known = known[: int(min(self._last - self._turn, len(known)))]
            if len(going) == len(self._ended):
                return range(self._turn, self._turn + len(known)), known
            places = np.flatnonzero(~np.array(self._ended)[known])[:count]
            if len(places):
                return self._turn + places, known[places]
            self._turn = self._schedule.next_turn(self._turn + len(known), going)
        return NO_TURNS, NO_TURNS

    def _upstreams_from(self, turn: int, count: int) -> Indices:
        """The upstreams of ``count`` turns from ``turn`` on; fewer only at the largest turn."""
        check_reach(turn)
        start = turn - self._known_from
        if start < 0 or start + count > len(self._known):
            follows = 0 <= start <= len(self._known)
            size = min(2 * len(self._known), MOST_TURNS) if follows else 0
            size = min(max(count, size), MOST_ITEMS - turn)
            self._known = self._schedule.upstreams_from(turn, size)
            self._known_from, start = turn, 0
        return self._known[start : start + count]

    def _given_by_inputs(self, ahead: int) -> Sequence[float | None]:
        turn, last = self._turn_after(self._taken), self._stage.length
        if ahead:
            if last is None or self._leaves_out:
                return []
            turn = int(min(turn + ahead, last))
        turns = self._schedule.turns_before(turn)
        if not self._leaves_out:
            return turns
        found = zip(self._ended, self._upstreams, turns, strict=True)
        return [upstream._items_delivered if ended else turn for ended, upstream, turn in found]

    def _reached(self) -> Iterator[Reach]:
        yield Reach(self._stage, self._turn_after(self._taken))
        for upstream in self._upstreams:
            yield from upstream._reached()

    def get_state(self) -> State:
        return {
            "turn": self._turn_after(self._taken),
            "ended": list(self._ended),
            "upstreams": self.upstream_states(),
        }

    def set_state(self, state: State) -> None:
        turn, ended, states = unpack(self._stage, state, "turn", "ended", "upstreams")
        self._turn = unpack_count(self._stage, "turn", turn)
        ended = self._with_new(ended, lambda _: False)
        self._ended = self.check_flags("ended", ended)
        self.set_upstream_states(self._with_new(states, lambda each: each.get_state()))

    def _with_new(self, saved: Any, value_of: Callable[[StageIterator[T]], Any]) -> Any:
        """``saved``, extended by an entry for each upstream that has joined since the save.

        Args:
          saved: the saved value, unchecked; one entry for each upstream at the save.
          value_of: gives the entry of a joined upstream at its start.
        """
        upstreams = self._upstreams
        if not isinstance(saved, list) or len(saved) >= len(upstreams):
            return saved
        had_turns = self._schedule.turns_before(self._turn)
        if any(had_turns[len(saved) :]):
            return saved  # refused for its length
        return [*saved, *map(value_of, upstreams[len(saved) :])]
