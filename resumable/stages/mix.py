"""Draw from several pipelines in fixed proportions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import lru_cache
from itertools import chain, islice
from typing import ClassVar, Final, TypeVar, final

import numpy as np

from ..core.arguments import check_choice, check_seed
from ..core.block import Block, Indices, concatenate
from ..core.combine import FEW_TURNS, TURNS_AHEAD, Combine, TurnsIterator
from ..core.derived import derived
from ..core.indexed import LookedUp, check_reach, countable
from ..core.random_access import Indexed
from ..core.stage import ALWAYS, MOST_ITEMS, Reliance
from ..core.stage_iterator import StageIterator, in_blocks
from ..order.long_schedule import LongSchedule
from ..order.schedule import LONGEST_ROUND, Schedule, Weights, integer_weights
from ..state.value import State, unpack, unpack_count

T = TypeVar("T")

MOST_TURNS: Final = 8192
NO_TURNS: Final[Indices] = np.empty(0, np.int64)


@final
@dataclass(frozen=True, eq=False, repr=False)
class Mix(LookedUp[T], Combine[T]):
    """Items of all upstreams, each in its own order, in the proportions of ``weights``.

    The weights are reduced to the smallest whole numbers w in the same proportions, with sum W.
    Each round of W turns has exactly w[i] items of upstream i. Within a round the turns are spread
    evenly or, with a ``seed``, come in an order drawn from (seed, round). A round of more than
    4,096 turns is cut into sections of 1,024; each has its share of every upstream, to within two
    items, and an order of its own. Every epoch has the same turns, and so the same length.

    State: the turn and the upstreams' states. If all upstreams have random access, it is kept, and
    the state is the position, O(1).

    Args:
      upstreams: one or more, or one dict of them.
      weights: one positive number each, equal by default, and none less than one part in 2**31 of
        their sum. A float stands for the simplest fraction that rounds to it. The proportions are
        kept exactly.
      seed: in [0, 2**64), or None for evenly spread turns.
      stop: ``"first"`` ends when an upstream has no item for its turn; ``"all"`` leaves out
        the turns of upstreams that have ended, until all have.

    Raises:
      InvalidArgument: if there is no upstream, or ``weights``, ``seed`` or ``stop`` breaks its
        rule.
      InvalidType: if one is not a pipeline, a name of the dict is not a string, or another argument
        has the wrong type.

    >>> list(rs.mix(rs.range(9), rs.range(70, 73), weights=[2, 1]))
    [0, 70, 1, 2, 71, 3, 4, 72, 5, 6]
    """

    identity: ClassVar[Mapping[str, Reliance]] = dict.fromkeys(
        ("names", "parts", "seed", "stop", "layout"), ALWAYS
    )
    shown_as: ClassVar[Mapping[str, str]] = {
        **Combine.shown_as,
        "parts": "weights",
        "layout": "layout of weights",
    }

    _: KW_ONLY
    weights: Weights | None = None
    seed: int | None = None
    stop: str = "first"
    parts: tuple[int, ...] = field(init=False, repr=False)
    # 2 if rounds are cut into sections; earlier versions rounded such weights instead.
    layout: int = field(init=False, repr=False, default=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "parts", integer_weights(self.weights, len(self.upstreams)))
        if sum(self.parts) > LONGEST_ROUND:
            object.__setattr__(self, "layout", 2)
        if self.seed is not None:
            object.__setattr__(self, "seed", check_seed("seed", self.seed))
        check_choice("stop", self.stop, ("first", "all"))

    @derived
    def length(self) -> int | float | None:
        if None in self.lengths or self.stop == "all":
            return self.total_length
        if all(length == math.inf for length in self.lengths):
            return math.inf
        return countable(self.schedule().turns_before_end())

    @property
    def state_cost(self) -> str:
        return "the position" if self.random_access else "the turn"

    def start(self, epoch: int = 0) -> StageIterator[T]:
        return super().start(epoch) if self.random_access else _MixIterator(self, epoch)

    def indexed(self, epoch: int = 0) -> Indexed[T] | None:
        inputs = self.indexed_upstreams(epoch)
        if inputs is None:
            return None
        schedule = self.schedule()

        def route(indices: Indices) -> tuple[Indices, Indices]:
            turns = indices if self.stop == "first" else schedule.turns_with_items(indices)
            return schedule.items_of(turns)

        return Indexed.chosen(inputs.__getitem__, route)

    def schedule(self) -> Schedule | LongSchedule:
        """The turns; upstreams of unknown length count as endless."""
        lengths = tuple(math.inf if length is None else length for length in self.lengths)
        return _schedule(
            LongSchedule if self.layout == 2 else Schedule, self.parts, self.seed, lengths
        )


@lru_cache(maxsize=64)
def _schedule(
    kind: type[Schedule | LongSchedule],
    parts: tuple[int, ...],
    seed: int | None,
    lengths: tuple[int | float, ...],
) -> Schedule | LongSchedule:
    return kind(parts, seed, lengths)


class _MixIterator(TurnsIterator[T]):
    _stage: Mix[T]

    def __init__(self, stage: Mix[T], epoch: int) -> None:
        super().__init__(stage, epoch)
        self._schedule = stage.schedule()
        self._turn = 0
        # The turns that were planned last.
        self._planned: Sequence[int] | Indices = NO_TURNS
        # The turn at which the first upstream ends, where that is the end and known.
        self._last = None if stage.stop == "all" or None in stage.lengths else stage.length
        # The mix ends at a turn not known beforehand, and no upstream may be read for a later one.
        self._goes_singly = stage.stop == "first" and self._last is None
        # The upstreams of the turns from `_known_from` on, as far as they were computed.
        self._known: Indices = np.empty(0, np.int64)
        self._known_from = 0

    def pull(self, count: int) -> Block:
        self._stop()
        if self._goes_singly:
            return list(islice(chain.from_iterable(self._runs(min(count, TURNS_AHEAD))), count))
        blocks: list[Block] = []
        missing = count
        while missing:
            turns, numbers = self._next_turns(missing)
            if not len(turns):
                break
            block, length, last = self.pull_each(numbers)
            blocks.append(block)
            missing -= length
            if length:
                self._turn = int(turns[last]) + 1
            if length < len(turns):
                blocks.append(list(islice(self.items(), missing)))
                break
        return concatenate(blocks)

    def blocks(self, size: int) -> Iterator[Block]:
        return in_blocks(self.items(), size) if self._goes_singly else super().blocks(size)

    def _plan(self, count: int) -> list[int]:
        self._planned, numbers = self._next_turns(count)
        planned: list[int] = numbers.tolist()
        return planned

    def _turn_after(self, count: int) -> int:
        return int(self._planned[count - 1]) + 1 if count else self._turn

    def _pass_turns(self, count: int) -> None:
        self._turn = self._turn_after(count)

    def _pass_end(self, place: int) -> bool:
        goes_on = self._stage.stop == "all"
        if goes_on:
            self._ended[self._numbers[place]] = True
        self._turn = self._turn_after(place + goes_on)
        return goes_on

    def _next_turns(self, count: int) -> tuple[Sequence[int] | Indices, Indices]:
        """Up to ``count`` of the next turns of upstreams that have not ended, and those upstreams.

        Both are empty only at the end.
        """
        going = [number for number, ended in enumerate(self._ended) if not ended]
        # The upstreams left may be rare: look at few turns, then go to their next one.
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

    def get_state(self) -> State:
        return {
            "turn": self._turn_after(self._taken),
            "ended": list(self._ended),
            "upstreams": self.upstream_states(),
        }

    def set_state(self, state: State) -> None:
        turn, ended, states = unpack(self._stage, state, "turn", "ended", "upstreams")
        self._turn = unpack_count(self._stage, "turn", turn)
        self._ended = self.check_flags("ended", ended)
        self.set_upstream_states(states)
