"""Take turns between pipelines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar, final

import numpy as np

from ..core import (
    ALWAYS,
    ITEMS,
    PARTS,
    Block,
    Combine,
    Dependence,
    Held,
    IdentityFields,
    IndexedIterator,
    Indices,
    Relation,
    SavedState,
    StageIterator,
    block_length,
    check_int,
)
from ..core.arguments import check_field
from ..core.combine import NAMES, TurnsIterator
from ..core.indexed import FIRST_BLOCK, LARGEST_BLOCK
from ..core.prepared_items import choose, grouped
from ..order.rounds import NO_TURNS
from ..state.value import State, unpack, unpack_count

T = TypeVar("T")


@final
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Interleave(Combine[T]):
    """``block_length`` items of each upstream in turn, until all have ended.

    State: the upstreams' states, the turn, and the position in the turn. A resume re-reads only as
    much as the upstreams do.

    Args:
      upstreams: one or more pipelines, or a dict of pipelines.
      block_length: consecutive items in a turn, at least 1.

    Raises:
      InvalidArgument: without upstreams, or if ``block_length`` is less than 1.
      InvalidType: if an upstream is not a pipeline, a name of the dict is not a string, or
        ``block_length`` is not an integer.

    >>> list(rs.interleave(rs.range(3), rs.range(7, 9)))
    [0, 7, 1, 8, 2]
    """

    unchanged = True
    identity: ClassVar[IdentityFields] = {"names": NAMES, "block_length": ALWAYS}
    # Ranks are at the same position in their items.
    depends_on: ClassVar[Dependence] = ITEMS | PARTS
    state_cost = SavedState("whose turn it is", levels=2)

    block_length: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_field(self, "block_length", check_int, minimum=1)

    def relation(self, epoch: int) -> Relation:
        return Held(self, epoch, items=self.total_length)

    def start(self, epoch: int = 0) -> StageIterator[T]:
        return _InterleaveIterator(self, epoch)


class _InterleaveIterator(TurnsIterator[T]):
    _stage: Interleave[T]

    def __init__(self, stage: Interleave[T], epoch: int) -> None:
        super().__init__(stage, epoch)
        self._turn = 0
        self._within = 0  # items of the current turn
        # The place within its turn of each item of the last plan.
        self._planned = NO_TURNS
        # The items that `blocks` has computed ahead: the upstream of each, and its place within the
        # turn. The first `_handed_out` items were handed out; the upstreams have not moved past
        # them.
        self._ahead = NO_TURNS, NO_TURNS
        self._handed_out = 0

    def blocks(self, size: int) -> Iterator[Block]:
        upstreams = [each for each in self._upstreams if isinstance(each, IndexedIterator)]
        if len(upstreams) < len(self._upstreams):
            yield from self.turn_blocks(size)
            return
        length = size
        while length == size:
            yield from self._gathered(upstreams, size)
            block = self.pull(size)  # an upstream ends in it
            if length := block_length(block):
                yield block

    def _gathered(self, upstreams: list[IndexedIterator[T]], size: int) -> Iterator[Block]:
        """Blocks in which no upstream ends; the indices for many blocks are computed at once."""
        most = FIRST_BLOCK  # few at first, as the end of an upstream may be near
        while not all(self._ended) and size <= LARGEST_BLOCK:
            self._stop()
            numbers, within = self._turns(max(most // size, 1) * size)
            count, offsets = len(numbers), np.empty_like(numbers)
            order, groups = grouped(numbers)
            for number, first, last in groups:
                places, left = order[first:last], upstreams[number].left
                offsets[places] = np.arange(last - first)
                if left < last - first:
                    count = min(count, int(places[left]))
            count -= count % size
            if not count:
                break
            run = choose(
                numbers[:count],
                offsets[:count],
                lambda number, ahead: upstreams[number].ahead(ahead),
            )
            self._ahead = numbers, within
            for start in range(0, count, size):
                block = run.gather(range(start, start + size))
                self._handed_out = start + size
                yield block
            most = min(4 * most, LARGEST_BLOCK)

    def _stop(self) -> None:
        if self._handed_out:  # by `blocks`; the upstreams have not moved past these items yet
            self._turn, self._within, passed = self._turn_position()
            for upstream, count in zip(self._upstreams, passed, strict=True):
                upstream.skip(count)
            self._handed_out = 0
        super()._stop()

    def _turn_position(self) -> tuple[int, int, list[int]]:
        """The turn, the place within it, and how many items of each upstream were handed out."""
        last, (numbers, within) = self._handed_out - 1, self._ahead
        passed = np.bincount(numbers[: last + 1], minlength=len(self._upstreams))
        return *self._place_behind(int(numbers[last]), int(within[last])), passed.tolist()

    def _plan(self, count: int) -> Indices:
        if all(self._ended):
            return NO_TURNS
        numbers, self._planned = self._turns(count)
        return numbers

    def _place_after(self, count: int) -> tuple[int, int]:
        """The turn and the place within it after ``count`` of the planned items."""
        if not count:
            return self._turn, self._within
        return self._place_behind(self._numbers[count - 1], int(self._planned[count - 1]))

    def _place_behind(self, number: int, within: int) -> tuple[int, int]:
        """The turn and the place in it after place ``within`` of the turn of upstream ``number``."""
        if within + 1 < self._stage.block_length:
            return number, within + 1
        return (number + 1) % len(self._upstreams), 0

    def _advance_turns(self, count: int) -> None:
        self._turn, self._within = self._place_after(count)

    def _advance_those(self, numbers: Indices, there: Indices) -> None:
        last = there[-1]
        self._turn, self._within = self._place_behind(int(numbers[last]), int(self._planned[last]))

    def _advance_past_end(self, place: int) -> bool:
        number = self._numbers[place]
        self._ended[number] = True
        self._turn, self._within = (number + 1) % len(self._upstreams), 0
        return not all(self._ended)

    def _turns(self, count: int) -> tuple[Indices, Indices]:
        """The upstream of each of the next ``count`` items, and the item's place within the turn.

        An upstream that ends meanwhile delivers fewer; the turns of other upstreams do not change.
        """
        if True not in self._ended:
            return self._turns_among(len(self._ended), self._turn, self._within, count)
        going = np.flatnonzero(np.logical_not(self._ended))
        first = int(np.searchsorted(going, self._turn)) % len(going)
        within = self._within if going[first] == self._turn else 0
        numbers, places = self._turns_among(len(going), first, within, count)
        return going[numbers], places

    def _turns_among(
        self, inputs: int, first: int, within: int, count: int
    ) -> tuple[Indices, Indices]:
        """As `_turns`, among ``inputs`` upstreams, from place ``within`` in turn ``first``."""
        length = self._stage.block_length
        turns = np.arange(first * length + within, first * length + within + count)
        if length == 1:
            return turns % inputs, np.zeros_like(turns)
        turns, places = np.divmod(turns, length)
        return turns % inputs, places

    def _given_by_inputs(self, ahead: int) -> Sequence[float | None]:
        return [] if ahead else [upstream._items_delivered for upstream in self._upstreams]

    def get_state(self) -> State:
        states: list[State] | None = None
        if self._handed_out:
            # Nothing is moved here: an interrupt would leave some of the upstreams unmoved.
            turn, within, passed = self._turn_position()
            states = [
                found[0]
                for upstream, count in zip(self._upstreams, passed, strict=True)
                if (found := upstream.state_at(count))
            ]
        else:
            turn, within = self._place_after(self._taken)
        return {
            "turn": turn,
            "taken": within,
            "ended": list(self._ended),
            "upstreams": self.upstream_states() if states is None else states,
        }

    def set_state(self, state: State) -> None:
        self._handed_out = 0
        names = ("turn", "taken", "ended", "upstreams")
        turn, taken, ended, states = unpack(self._stage, state, *names)
        self._turn = unpack_count(self._stage, "turn", turn, len(self._upstreams) - 1)
        self._within = unpack_count(self._stage, "taken", taken, self._stage.block_length - 1)
        self._ended = self.check_flags("ended", ended)
        self.set_upstream_states(states)
