"""Draw from several pipelines in fixed proportions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cache, lru_cache, partial
from typing import ClassVar, TypeVar, final

import numpy as np

from ..core import (
    ALWAYS,
    EPOCHS,
    ITEMS,
    NOTHING,
    PARTS,
    SEED,
    Combine,
    Dependence,
    IdentityField,
    IdentityFields,
    Indices,
    InputItems,
    Length,
    LookedUp,
    Relation,
    Routed,
    SavedState,
    StageIterator,
    TurnOrder,
    check_seed,
)
from ..core.arguments import check_bool, check_choice, check_field
from ..core.identity import SO_FAR
from ..core.orders import MOST_ITEMS, countable
from ..errors import InvalidArgument, shorten
from ..order.changing import AnySchedule, ChangingSchedule, schedule_of
from ..order.schedule import LONGEST_ROUND
from ..order.weights import (
    Parts,
    Weights,
    WeightsByItem,
    weights_by_item,
)
from .cycle import CyclingMixIterator, without_items
from .mix_changes import WEIGHTS_MAY_CHANGE
from .mix_iterator import MixIterator
from .repeat import Repeat, check_later_epochs

T = TypeVar("T")


@final
@dataclass(frozen=True, eq=False, repr=False)
class Mix(LookedUp[T], Combine[T]):
    """Items of all upstreams, each upstream in order, in the proportions of ``weights``.

    The weights are reduced to the smallest whole numbers w in the same proportions, with sum W.
    Each round of W turns has exactly w[i] items of upstream i. Within a round the turns are spread
    evenly or, with a ``seed``, come in an order drawn from (seed, round). A round of more than
    4,096 turns is cut into sections of 1,024; each has a share of every upstream, to within two
    items, and a separate order. Every epoch has the same length and, without ``reshuffle``, the
    same turns.

    State: the turn and the upstreams' states, with ``"cycle"`` also the epoch of each. If all
    upstreams have random access, so has the mix, with a state of O(1), the position.

    Args:
      upstreams: one or more pipelines, or a dict of pipelines.
      weights: one positive number each, equal by default, and none less than one part in 2**31 of
        the sum. A float stands for the simplest fraction that rounds to it. The proportions are
        kept exactly. A dict such as ``{0: (7, 3), 1000: (3, 7)}`` gives the weights from each item
        of the mix on; rounds begin again where the weights change. In a dict a weight may be 0, but
        not all may. Names left out have weight 0, but no name may be left out everywhere. At a
        resume the weights must be equal for the items already read; otherwise the error shows the
        right argument. Upstreams without weight for the items already read may join, after the
        earlier upstreams.
      seed: in [0, 2**64), or None for evenly spread turns.
      stop: ``"first"`` ends when an upstream has no item for its turn; ``"all"`` leaves out the
        turns of ended upstreams, until all have ended. With ``"cycle"`` an ended upstream begins
        again, in a new epoch counted per upstream, like an endless `repeat`. The mix ends once each
        upstream that still has turns has ended, at the turn where the last upstream has no item. An
        endless upstream means an endless mix. No upstream may be empty: an empty upstream cannot
        keep its weight.
      reshuffle: draw the order of each round from the epoch too. A round in which the mix ends, or
        the weights change, is drawn from the seed alone, so all epochs have the same length.

    Raises:
      InvalidArgument: without upstreams, if ``weights``, ``seed`` or ``stop`` breaks its rule, if
        ``reshuffle`` has no seed, or if the weights change or a weight is 0 and ``stop`` is
        ``"all"``, since a turn then need not be an item. With ``"cycle"``, also while iterating, if
        an upstream has no items.
      InvalidType: if an upstream is not a pipeline, a name of the dict is not a string, or another
        argument has the wrong type.

    >>> list(rs.mix(rs.range(9), rs.range(70, 73), weights=[2, 1]))
    [0, 70, 1, 2, 71, 3, 4, 72, 5, 6]
    """

    _run_changes = WEIGHTS_MAY_CHANGE
    identity: ClassVar[IdentityFields] = {
        "names": IdentityField(
            ALWAYS,
            shown_as="names of pipelines",
            hint="was one renamed, or put in another order? Inputs that join stand after those that were "
            "there, and one that has left stays without a weight",
        ),
        "parts": IdentityField(ALWAYS | SO_FAR, shown_as="weights"),
        "changes": IdentityField(ALWAYS | SO_FAR, shown_as="changes of weights"),
        "seed": SEED,
        "stop": ALWAYS,
        "reshuffle": ALWAYS,
        "layout": IdentityField(
            ALWAYS | SO_FAR,
            shown_as="layout of weights",
            hint="an earlier version rounded weights that need a long round, so its order differs",
        ),
    }

    _: KW_ONLY
    weights: Weights | WeightsByItem | None = None
    seed: int | None = None
    stop: str = "first"
    reshuffle: bool = False
    # The weights as whole numbers, and the weights from later items on.
    parts: Parts = field(init=False, repr=False)
    changes: tuple[tuple[int, Parts], ...] = field(init=False, repr=False, default=())
    # 2 if rounds are cut into sections; earlier versions rounded such weights instead.
    layout: int = field(init=False, repr=False, default=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("stop", self.stop, ("first", "all", "cycle"))
        for upstream in self.upstreams if self.stop == "cycle" else ():
            if upstream._changes:
                raise InvalidArgument(
                    "stop must not be 'cycle' over pipelines that change with the epoch, as from by_epoch, since "
                    f"the mix counts epochs of its own for each, got {upstream!r}; repeat() them instead"
                )
        if self.stop == "cycle" and 0 in self.lengths:
            raise InvalidArgument(without_items(self.upstreams[self.lengths.index(0)]))
        if self.stop == "cycle":
            for upstream in self.upstreams:
                check_later_epochs(upstream)
        parts, changes = weights_by_item(self.weights, len(self.upstreams))
        object.__setattr__(self, "parts", parts)
        object.__setattr__(self, "changes", changes)
        if changes and self.stop == "all":
            raise InvalidArgument(
                "weights that change count the items of all upstreams, so stop must be 'first' or "
                f"'cycle', got 'all', which leaves out turns, and weights={shorten(self.weights)}"
            )
        if 0 in parts and self.stop == "all":
            raise InvalidArgument(
                "each weight must be above 0 where stop is 'all', since an upstream without turns never ends, got "
                f"weights={shorten(self.weights)}"
            )
        if sum(self.parts) > LONGEST_ROUND:
            object.__setattr__(self, "layout", 2)
        check_field(self, "seed", check_seed, optional=True)
        if check_bool("reshuffle", self.reshuffle) and self.seed is None:
            raise InvalidArgument(
                "reshuffle draws the order of the turns anew, so it needs a seed, got seed=None"
            )

    def relation(self, epoch: int) -> Relation:
        lengths = self.lengths
        return Routed(
            self,
            epoch,
            total=self._total,
            turns=cache(lambda: self._turns(epoch)),  # it may need the length
            cycles=self.stop == "cycle",
            sees_ends=self.stop == "all" and None in lengths,
            input_at=partial(self._cycled, epoch) if self.stop == "cycle" else None,
        )

    def _turns(self, epoch: int) -> TurnOrder:
        schedule = self.schedule(epoch)
        return TurnsWithItems(schedule, self.lengths) if self.stop == "all" else schedule

    def _cycled(self, epoch: int, number: int) -> InputItems:
        """Upstream ``number``, endlessly repeated; unchanged if already endless."""
        upstream = self.upstreams[number]
        repeat: Repeat[T] = Repeat(upstream)
        if upstream.length == math.inf:
            return InputItems(upstream, repeat.epoch_of(epoch, 0))
        return InputItems(repeat, epoch)

    def _total(self) -> Length:
        if self.stop == "all":
            return self.total_length
        if self.stop == "cycle":
            return self._cycling_length()
        if set(self.lengths) == {math.inf}:
            return math.inf
        schedule = self.schedule()
        known = [number for number, length in enumerate(self.lengths) if length is not None]
        end = min(self._ends(known), default=math.inf)
        # An upstream that joins later counts only with a turn before the others end. So a run in
        # the last round still ends there if further upstreams are planned.
        from_start = schedule.stretch(0).upstreams
        for number in set(range(len(self.upstreams))).difference(known):
            if number in from_start or schedule.turn_of(number, 0) < min(end, MOST_ITEMS):
                return None
        return end if end == math.inf else countable(end)

    def _cycling_length(self) -> Length:
        """The first turn at which all upstreams that still have turns have ended."""
        schedule, first = self.schedule(), 0.0
        while first != math.inf:
            stretch = schedule.stretch(int(first))
            known = [number for number in stretch.upstreams if self.lengths[number] is not None]
            end = max([first, *self._ends(known)])
            if end < stretch.stop:
                return countable(end) if len(known) == len(stretch.upstreams) else None
            first = stretch.stop
        return math.inf

    def _ends(self, numbers: Iterable[int]) -> list[float]:
        """The turns at which upstreams of known length have no item; infinite if never."""
        schedule = self.schedule()
        at_last = schedule.stretch(MOST_ITEMS).upstreams
        ends: list[float] = []
        for number in numbers:
            length = self.lengths[number]
            if length is not None:
                end = length if length == math.inf else schedule.turn_of(number, int(length))
                has_left = end >= MOST_ITEMS and number not in at_last
                ends.append(math.inf if has_left else end)
        return ends

    @property
    def state_cost(self) -> SavedState:
        if self.random_access:
            return SavedState("the position")
        own = "the turn" if self.stop != "cycle" else "the turn, and the epoch of each upstream"
        return SavedState(own, levels=2)

    @property
    def depends_on(self) -> Dependence:  # type: ignore[override]
        """Ranks are at the same turn; epochs are numbered as in a repeat."""
        return ITEMS | PARTS | (EPOCHS if self.stop == "cycle" else NOTHING)

    def start(self, epoch: int = 0) -> StageIterator[T]:
        if self.random_access:
            return super().start(epoch)
        leaves_out = self.stop == "all"
        kind = CyclingMixIterator if self.stop == "cycle" else MixIterator
        last = None if leaves_out else self.length
        return kind(self, epoch, self.schedule(epoch), leaves_out, last)

    def schedule(self, epoch: int | None = None) -> AnySchedule:
        """The turns in ``epoch``, or the turns by the seed alone; both end at the same turn.

        Upstreams of unknown length count as endless.
        """
        lengths = tuple(math.inf if length is None else length for length in self.lengths)
        if epoch is None or not self.reshuffle:
            return _schedule(self.parts, self.changes, self.seed, lengths)
        return _schedule(self.parts, self.changes, self.seed, lengths, epoch, self.end)

    @property
    def end(self) -> int | None:
        """The turn at which the mix ends, if known and dependent on the order of a round."""
        return None if self.stop == "all" or self.length in (None, math.inf) else int(self.length)


_schedule = lru_cache(maxsize=64)(schedule_of)


class TurnsWithItems:
    """The turns of a schedule without the turns of ended inputs.

    Args:
      schedule: with all turns.
      lengths: of the inputs; at least one length is known.
    """

    def __init__(self, schedule: AnySchedule, lengths: Sequence[Length]) -> None:
        assert not isinstance(schedule, ChangingSchedule)  # weights that change leave out no turns
        self._schedule = schedule
        self._lengths = [math.inf if length is None else length for length in lengths]

    def items_of(self, outputs: Indices) -> tuple[Indices, Indices]:
        """As `TurnOrder.items_of`; all of shape (n,)."""
        return self._schedule.items_of(self._schedule.turns_with_items(outputs))

    def turns_before(self, count: int) -> Sequence[int | float]:
        """As `TurnOrder.turns_before`."""
        if not count:
            return [0] * len(self._lengths)
        if count > sum(self._lengths):
            return [length + 1 for length in self._lengths]
        last = int(self._schedule.turns_with_items(np.array([count - 1], np.int64))[0])
        turns = zip(self._schedule.turns_before(last + 1), self._lengths, strict=True)
        return [min(items, length + 1) for items, length in turns]

    def turn_of(self, number: int, item: int) -> int:
        """As `TurnOrder.turn_of`."""
        turns = self._schedule.turns_before(self._schedule.turn_of(number, item))
        return int(sum(map(min, turns, self._lengths)))
