"""The moving half of a stage: a position, and what is done with it."""

# An iterator is a position and nothing else. The contract between iterators is `pull`: a stage
# asks its upstream for exactly the items it needs to deliver what it was asked for, so between
# two calls every position in the graph is exact.
#
# Restoring is starting: `set_state` is called on an iterator that `start` has just made.
# The outermost iterator (iterator.py) builds on this rule to make restoring atomic, and to
# undo a call that an exception interrupted, for every stage at once.

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Final, Generic, TypeVar

from ..state.value import State, TakenState
from .block import Block, block_items, block_length

__all__ = ["StageIterator"]

T = TypeVar("T")

SKIPPED_AT_ONCE: Final = 1024


class StageIterator(ABC, Generic[T]):
    """Motion through one stage: it owns a position and nothing else.

    A subclass implements `pull`, `get_state` and `set_state`; `close` too if it holds
    threads or files.
    """

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        """The next item."""
        try:
            block = self.pull(1)
        except StopIteration as error:
            raise RuntimeError("a user function raised StopIteration") from error
        if not block_length(block):
            raise StopIteration
        return block_items(block)[0]  # type: ignore[no-any-return]

    @abstractmethod
    def pull(self, count: int) -> Block:
        """The next ``count`` items as a block, with fewer items only at the end.

        Nothing is read from upstream beyond what these items need.
        """

    def skip(self, count: int) -> int:
        """Pass over up to ``count`` items and return how many; fewer only at the end.

        The position is then as after a `pull` of as many. A subclass that knows how does it
        without making the items.
        """
        skipped = 0
        while skipped < count:
            wanted = min(count - skipped, SKIPPED_AT_ONCE)
            length = block_length(self.pull(wanted))
            skipped += length
            if length < wanted:
                break
        return skipped

    @abstractmethod
    def get_state(self) -> State:
        """The position, as a new value: starts nothing, creates nothing, shares nothing."""

    @abstractmethod
    def set_state(self, state: State) -> None:
        """Move this iterator, just started, to ``state``; reads nothing from a source.

        Raises:
          StateMismatch: if ``state`` cannot have come from this stage.
        """

    def state_after(self, count: int) -> tuple[State, int] | None:
        """The state after up to ``count`` more items, and how many those are; nothing moves.

        None where only moving tells.
        """
        return None

    def state_before(self, count: int) -> State | None:
        """The state ``count`` items ago, of those this iterator has given; nothing moves.

        None where it is not known. One that answers may be given that state again in mid-pass.
        """
        return None

    def try_state(self) -> TakenState:
        """The state, or the error that `get_state` raised.

        For a stage that takes states ahead of need: one that cannot be saved can still run.
        """
        try:
            return self.get_state()
        except Exception as error:
            return error

    def settle(self) -> None:
        """Carry out what a restore left for the first item; called when no item will come."""

    def close(self) -> None:
        """End threads and release files; may be called again."""

    def items(self) -> Iterator[T]:
        """The remaining items as the fastest iterator there is, moving this one along.

        It is valid until the next `pull` or `set_state`. A subclass that returns a built-in
        iterator over a user function tells by `exhausted` what its end means.
        """
        return self

    def blocks(self, size: int) -> Iterator[Block]:
        """The remaining items in blocks of ``size``, fewer only in the last, moving this one along.

        What repeated calls of `pull` give, and valid as long as `items`. A subclass may do it with
        less work a block.
        """
        while length := block_length(block := self.pull(size)):
            yield block
            if length < size:
                break

    @property
    def exhausted(self) -> bool:
        """Whether a `StopIteration` out of `items` was the end, not a user function's."""
        return True

    @property
    def epoch(self) -> int:
        """The epoch of the last item handed out; before any, the first one."""
        return 0

    @property
    def reread(self) -> int:
        """Of a source: how many items it read again only to come to a restored position."""
        return 0
