"""Replies of worker processes, in pipes or in shared memory, until the loop opens them."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, final

from .arena import SHARES_MEMORY, SLOT_BYTES, Arena
from .chunk_work import unpacked_outcome
from .executor_thread import Submission
from .worker_process import Reply
from .workers import Outcome


@final
class Slots:
    """The free slots of an arena.

    A chunk has no slot if none is free, or where no memory can be shared.
    """

    def __init__(self, count: int) -> None:
        self.arena = _arena_of(count)
        self._free = deque(range(count) if self.arena is not None else ())
        self._count = len(self._free)
        self._closed = False

    def take(self) -> int | None:
        """A slot to write to; None if none is free."""
        try:
            return self._free.popleft()
        except IndexError:
            return None

    def give_back(self, slot: int) -> None:
        """Free ``slot``, which nobody reads or writes any more."""
        self._free.append(slot)
        self._release_if_done()

    def close(self) -> None:
        """Release the memory, once no slot holds an answer that is still to be opened."""
        self._closed = True
        self._release_if_done()

    def _release_if_done(self) -> None:
        if self._closed and self.arena is not None and len(self._free) == self._count:
            self.arena.close()


@final
class PoolParcel:
    """A reply, and the slot that may hold it until it is opened or thrown away."""

    def __init__(self, reply: Reply, slots: Slots, slot: int | None) -> None:
        self.reply = reply
        self._slots = slots
        self._slot = [] if slot is None else [slot]

    @property
    def seconds(self) -> float:
        """How long the worker took."""
        return self.reply.seconds

    @property
    def size(self) -> int:
        """Number of bytes of the outcome."""
        return sum(self.reply.lengths)

    def open(self) -> Outcome:
        """The outcome in it; called once."""
        try:
            return unpacked_outcome(self._parts())
        finally:
            self.throw_away()

    def throw_away(self) -> None:
        """Free the slot; may be called again, by any thread."""
        with suppress(IndexError):
            self._slots.give_back(self._slot.pop())

    def _parts(self) -> list[Any]:
        if self.reply.parts is not None:
            return list(self.reply.parts)
        assert self._slots.arena is not None
        return list(self._slots.arena.read(self._slot[0], self.reply.lengths))


def answer_with_parcel(
    submission: Submission, slots: Slots, slot: int | None, future: Future[Any]
) -> None:
    """Answer ``submission``; called in a thread of the pool or in that of the executor."""
    error = future.exception()
    if error is not None:
        submission.give(None, error)
        if slot is not None:
            slots.give_back(slot)
        return
    submission.give(PoolParcel(future.result(), slots, slot))
    if submission.abandoned:
        clear_away(submission)


def clear_away(submission: Submission) -> None:
    """Free the slot of an abandoned submission, if it is answered."""
    if submission.given:
        with suppress(BaseException):
            submission.result().throw_away()


def _arena_of(slots: int) -> Arena | None:
    """Shared memory of ``slots`` slots; None where there is none, or not enough."""
    if not SHARES_MEMORY or not slots:
        return None
    try:
        return Arena(slots, SLOT_BYTES)
    except OSError:
        return None
