"""End all ranks after the same number of steps; needs partitions of known length."""

# Invariant: `_left`, the number of steps left, is the same on all ranks, which advance together.
# `_left` follows from the positions of all partitions. The next repeated item follows from `_left`,
# so the position of the repetition is not saved. `_left` is saved only for a rank that resumes from
# its own state alone (tests/stages/test_partition_uneven.py:
# test_other_ranks_in_mid_epoch_end_together_and_lose_no_more_than_the_last_ones_drop).

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from ..core import Block, Items, StageIterator, block_length
from ..core.block import concatenate
from ..core.reach import Reach, reached_all
from ..errors import InvalidArgument, StateMismatch
from ..state.partitions import OF_EVEN_STEPS, PARTITIONS
from ..state.value import State, unpack, unpack_count

T = TypeVar("T")


class EvenIterator(StageIterator[T]):
    """Iterates over the partitions of a rank, and ends after the same step as all ranks."""

    _stage: Any  # a `Partition`, which starts it

    def __init__(self, stage: Any, epoch: int) -> None:
        self._stage = stage
        self._start_epoch = epoch
        self._own: StageIterator[T] = stage.start_own(epoch)
        self._again: StageIterator[T] | None = None
        self._left = stage.steps_after({})
        # Steps left when the current source ends; below 0 if the source has more items than steps.
        self._left_at_end = self._left - stage.own_total()
        # Whether `_left` follows from the positions of all partitions.
        self._knows_all = True
        self._may_repeat = False

    @property
    def inputs(self) -> Sequence[StageIterator[Any]]:
        return (self._own,) if self._again is None else (self._own, self._again)

    def pull(self, count: int) -> Block:
        blocks: list[Block] = []

        def pull(source: StageIterator[T], count: int) -> int:
            blocks.append(source.pull(count))
            return block_length(blocks[-1])

        self._advance(count, pull)
        return concatenate(blocks)

    def items(self) -> Items[T]:
        return Items(self._walk())

    def _walk(self) -> Iterator[T]:
        source = self._again or self._own
        while self._left:
            for item in source.items():
                self._left -= 1
                yield item
                if not self._left:
                    break
            else:
                source = self._repeating()
        self._end_if_done()

    def skip(self, count: int) -> int:
        return self._advance(count, lambda source, missing: source.skip(missing))

    def _advance(self, count: int, move: Callable[[StageIterator[T], int], int]) -> int:
        """``move`` the rank's iterator, then the repetitions, by ``count`` steps, or to the end."""
        count = missing = min(count, self._left)
        source = self._again or self._own
        while missing:
            passed = move(source, missing)
            self._left -= passed
            missing -= passed
            if missing:
                source = self._repeating()
        self._end_if_done()
        return count

    def _end_if_done(self) -> None:
        """Close after the last step: workers may still hold unneeded items."""
        if not self._left:
            self.close()

    def _repeating(self) -> StageIterator[T]:
        """The rank's items again, begun so that the last item comes at the last step."""
        total = self._stage.own_total()
        if (missing := self._left - max(self._left_at_end, 0)) > 0:
            raise InvalidArgument(
                f"uneven={self._stage.uneven!r} needs partitions of as many items as their length says, got "
                f"{missing} fewer of {total}; is the length of each stage of yours in the partition right?"
            )
        again, self._again = self._again, None
        if again is not None:
            again.close()
        self._again = self._stage.start_own(self._start_epoch, plainly=True)
        passed = -self._left % total
        self._again.skip(passed)
        self._left_at_end = self._left - (total - passed)
        return self._again

    def _reached(self) -> Iterator[Reach]:
        if not self._knows_all:
            raise StateMismatch(
                "weights that change also change how many steps are left on all ranks, and that needs the state "
                f"of all {self._stage.count} partitions; join the states of all ranks with merge_states",
                self._stage,
            )
        # The repeated items of a rank follow from the number of steps left.
        return reached_all(self._stage.upstream) if self._may_repeat else self._own._reached()

    def get_state(self) -> State:
        stage = self._stage
        values = self._left, stage.ranks, stage.uneven, self._own.get_state()
        return dict(zip(OF_EVEN_STEPS, values, strict=True))

    def set_state(self, state: State) -> None:
        left, ranks, uneven, own = None, None, None, state
        if isinstance(state, dict) and PARTITIONS not in state:
            left, ranks, uneven, own = unpack(self._stage, state, *OF_EVEN_STEPS)
        self._own.set_state(own)
        positions = dict(zip(own[PARTITIONS], own["positions"], strict=True))
        done = sum(positions[number] for number in self._stage.numbers)
        rest = self._stage.own_total() - done
        self._may_repeat = self._stage.uneven == "pad" and rest <= 0
        self._knows_all = len(positions) == self._stage.count
        of_as_many = type(ranks) is int and ranks == self._stage.ranks
        if self._knows_all:
            self._left = self._stage.steps_after(positions)
        elif of_as_many and type(uneven) is str and uneven == self._stage.uneven:
            most = self._stage.steps_after({})
            self._left = unpack_count(self._stage, "left", left, most, f"{most} steps")
        else:
            raise StateMismatch(
                "another number of ranks, or another way to even out their steps, needs the state of all "
                f"partitions, got that of {len(own[PARTITIONS])} of {self._stage.count}; join the states "
                "of all ranks with merge_states",
                self._stage,
            )
        self._left_at_end = self._left - rest
