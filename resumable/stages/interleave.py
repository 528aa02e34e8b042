"""Take turns between pipelines."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from itertools import islice
from typing import ClassVar, TypeVar, final

import numpy as np

from ..core.arguments import check_int
from ..core.block import Block, Indices, block_length, concatenate
from ..core.combine import Combine, TurnsIterator
from ..core.derived import derived
from ..core.indexed import FIRST_BLOCK, LARGEST_BLOCK, IndexedIterator
from ..core.runs import choose, grouped
from ..core.stage import ALWAYS, Reliance
from ..core.stage_iterator import Items, StageIterator
from ..state.value import State, unpack, unpack_count

T = TypeVar("T")

NO_TURNS: Indices = np.empty(0, np.int64)


@final
@dataclass(frozen=True, eq=False, repr=False)
class Interleave(Combine[T]):
    """``block_length`` items of each upstream in turn, until all have ended.

    State: the upstreams', whose turn it is, and how far into the turn. A resume reads what the
    upstreams read.

    Args:
      upstreams: those that take turns, or one dict of them.
      block_length: consecutive items of a turn, at least 1.

    Raises:
      InvalidArgument: if there is no upstream, or ``block_length`` is less than 1.
      InvalidType: if one is not a pipeline, a name of the dict is not a string, or ``block_length`` is
        not an integer.

    >>> list(rs.interleave(rs.range(3), rs.range(7, 9)))
    [0, 7, 1, 8, 2]
    """

    identity: ClassVar[Mapping[str, Reliance]] = {"names": ALWAYS, "block_length": ALWAYS}
    state_cost = "whose turn it is"

    _: KW_ONLY
    block_length: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        length = check_int("block_length", self.block_length, minimum=1)
        object.__setattr__(self, "block_length", length)

    @derived
    def length(self) -> int | float | None:
        return self.total_length

    def start(self, epoch: int = 0) -> StageIterator[T]:
        return _InterleaveIterator(self, epoch)


class _InterleaveIterator(TurnsIterator[T]):
    _stage: Interleave[T]

    def __init__(self, stage: Interleave[T], epoch: int) -> None:
        super().__init__(stage, epoch)
        self._turn = 0
        self._taken = 0  # items of the current turn
        # Turns that `blocks` knows ahead: of each its upstream, and the place in it. The items of the
        # first `_handed_out` of them were handed out, but the upstreams have not moved by them.
        self._ahead = NO_TURNS, NO_TURNS
        self._handed_out = 0

    def pull(self, count: int) -> Block:
        self._settle()
        if not count or all(self._ended):
            return []
        numbers, within = self._turns(count)
        block, length, last = self.pull_each(numbers)
        if length:
            self._turn, self._taken = self._turn_after(int(numbers[last]), int(within[last]))
        if length == count:
            return block
        return concatenate([block, list(islice(self.items(), count - length))])

    def items(self) -> Items[T]:
        self._settle()
        return Items(self._walk())

    def blocks(self, size: int) -> Iterator[Block]:
        upstreams = [each for each in self._upstreams if isinstance(each, IndexedIterator)]
        if len(upstreams) < len(self._upstreams):
            yield from super().blocks(size)
            return
        length = size
        while length == size:
            yield from self._gathered(upstreams, size)
            block = self.pull(size)  # in which an upstream ends
            if length := block_length(block):
                yield block

    def _gathered(self, upstreams: list[IndexedIterator[T]], size: int) -> Iterator[Block]:
        """Blocks without an end of an upstream; what leads to the items of many is known at once."""
        most = FIRST_BLOCK  # and more each time, as the next end of an upstream may be near
        while not all(self._ended):
            self._settle()
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

    def _settle(self) -> None:
        """Move the upstreams to where `blocks` is."""
        if self._handed_out:
            self._turn, self._taken, passed = self._place()
            for upstream, count in zip(self._upstreams, passed, strict=True):
                upstream.skip(count)
            self._handed_out = 0

    def _place(self) -> tuple[int, int, list[int]]:
        """Whose turn it is, how far into it, and the items of each upstream that were handed out."""
        last, (numbers, within) = self._handed_out - 1, self._ahead
        passed = np.bincount(numbers[: last + 1], minlength=len(self._upstreams))
        return *self._turn_after(int(numbers[last]), int(within[last])), passed.tolist()

    def _turn_after(self, number: int, within: int) -> tuple[int, int]:
        """Whose turn it is, and how far into it, after an item of upstream ``number``."""
        if within + 1 < self._stage.block_length:
            return number, within + 1
        return (number + 1) % len(self._upstreams), 0

    def _walk(self) -> Iterator[T]:
        count, last, start = len(self._upstreams), self._stage.block_length - 1, self._turn
        turns = [
            (number, (number + 1) % count, iter(upstream.items()))
            for number, upstream in enumerate(self._upstreams)
        ]
        while not all(self._ended):
            for number, following, items in turns[start:]:
                if self._ended[number]:
                    continue
                taken = self._taken if number == self._turn else 0
                for item in items:
                    if taken == last:
                        self._turn, self._taken = following, 0
                        yield item
                        break
                    taken += 1
                    self._turn, self._taken = number, taken
                    yield item
                else:
                    self._ended[number] = True
                    self._turn, self._taken = following, 0
            start = 0

    def _turns(self, count: int) -> tuple[Indices, Indices]:
        """For the next ``count`` items the upstream, and the place in its turn.

        Of upstreams that end meanwhile there are fewer; the others' turns stay what they are.
        """
        going = [number for number, ended in enumerate(self._ended) if not ended]
        first = bisect_left(going, self._turn) % len(going)
        taken = self._taken if going[first] == self._turn else 0
        start = first * self._stage.block_length + taken
        turns, within = np.divmod(np.arange(start, start + count), self._stage.block_length)
        return np.array(going)[turns % len(going)], within

    def get_state(self) -> State:
        turn, taken, states = self._turn, self._taken, None
        if self._handed_out:
            # Nothing is moved here: an interrupt would leave some of the upstreams unmoved.
            turn, taken, passed = self._place()
            states = [
                found[0]
                for upstream, count in zip(self._upstreams, passed, strict=True)
                if (found := upstream.state_at(count))
            ]
        return {
            "turn": turn,
            "taken": taken,
            "ended": list(self._ended),
            "upstreams": self.upstream_states() if states is None else states,
        }

    def set_state(self, state: State) -> None:
        self._handed_out = 0
        names = ("turn", "taken", "ended", "upstreams")
        turn, taken, ended, states = unpack(self._stage, state, *names)
        self._turn = unpack_count(self._stage, "turn", turn, len(self._upstreams) - 1)
        self._taken = unpack_count(self._stage, "taken", taken, self._stage.block_length - 1)
        self._ended = self.check_flags("ended", ended)
        self.set_upstream_states(states)
