"""Hand out the items of a pipeline as leases, which end in any order and from any thread."""

# Two locks. `_reading` belongs to the thread that chooses and reads the next item, however long
# that takes. `_lock` guards the numbers, and is held for microseconds. So `done` and `get_state`
# never wait for data. A number is handed out in one step under `_lock`, after its item was read.
# An earlier error or interrupt changes nothing.
#
# A waiting thread or coroutine puts a wake-up function into `_waiting`, and tries again when woken.

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final, Generic, NamedTuple, TypeVar, final

from ..core.arguments import check_below, check_int, check_seconds
from ..core.merging import merge_states
from ..core.runnable import dependence_of_resume
from ..errors import InvalidArgument, InvalidType, IteratorClosed, StateMismatch, shorten
from ..pipeline import Pipeline
from ..state.encoding import dumps_frozen
from ..state.leased_numbers import LEASES, LeasedNumbers
from ..state.named import KEY, rank_key, states_in
from ..state.partitions import EPOCH_REACHED
from ..state.value import State, freeze
from .reader import NO_ITEM, NumberedReader
from .same_numbers import check_leasable, check_same_numbers

T = TypeVar("T")

NOTHING_FREE: Final[Any] = object()
"""Taken where nothing can be taken without waiting."""
DONE, DROPPED, RELEASED = "done", "dropped", "released"


class LeaseCounts(NamedTuple):
    """How many leases ended in each way, over all resumes.

    After a resume of several ranks, rank 0 continues the counts of all ranks before.

    Attributes:
      done: items that are done.
      dropped: items handled without being done.
      released: how often an item was given back.

    >>> leases = rs.Leases(rs.range(9))
    >>> leases.drop(leases.take())
    >>> leases.counts
    LeaseCounts(done=0, dropped=1, released=0)
    """

    done: int
    dropped: int
    released: int


@final
class Lease(Generic[T]):
    """An item handed out by `Leases`, until it is done, dropped or given back.

    A context manager, also asynchronous: a clean end of the block is `done`, an exception is
    `release`. A lease that was ended in the block stays as it is. A lease cannot be pickled; send
    its ``number`` and ``item`` to another process.

    Args:
      leases: the leases that hand the item out, and make all objects of this class.
      number: as the attribute.
      attempt: as the attribute.

    Attributes:
      item: the item. After `Leases.claim` it is read when first asked for.
      number: place of the item in the pipeline's order, from 0, over epochs and resumes.
      epoch: the epoch of the item.
      attempt: how often the item was handed out in this process, from 1.

    >>> leases = rs.Leases(rs.range(3))
    >>> with leases.take() as lease:
    ...     lease.number, lease.item
    (0, 0)
    >>> leases.counts.done
    1
    """

    __slots__ = ("_leases", "attempt", "epoch", "item", "number")

    item: T
    epoch: int

    def __init__(self, leases: Leases[T], number: int, attempt: int) -> None:
        self._leases = leases
        self.number = number
        self.attempt = attempt

    def __getattr__(self, name: str) -> Any:
        # Only where a slot is empty: of a claimed item that was not read yet.
        if name not in ("item", "epoch"):
            raise AttributeError(f"a lease has no attribute {name!r}", name=name, obj=self)
        self.item, self.epoch = self._leases._reader.read_alone(self.number)
        return getattr(self, name)

    def done(self) -> None:
        """Count the item as done; it is never handed out again."""
        self._leases._end((self,), DONE)

    def drop(self) -> None:
        """Count the item as dropped; it is never handed out again."""
        self._leases.drop(self)

    def release(self) -> None:
        """Give the item back; it is the next to be handed out."""
        self._leases.release(self)

    def __enter__(self) -> Lease[T]:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._leases._open.get(self.number) is self:
            (self.done if kind is None else self.release)()

    async def __aenter__(self) -> Lease[T]:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.__exit__(kind)

    def __reduce__(self) -> str:
        raise InvalidType("a lease cannot be pickled or copied; send its number and item")

    def __repr__(self) -> str:
        return f"<lease of item {self.number}, attempt {self.attempt}>"


@final
class Leases(Generic[T]):
    """The items of a pipeline, each counted once it is done, in whatever order.

    For work that finishes out of order, such as rollouts of reinforcement learning, requests to a
    model, and job queues. `take` hands out a lease; `done`, `drop` or `release` ends it. After a
    resume, every item that was open comes again, and no item that was done or dropped.

    >>> leases = rs.Leases(rs.range(10), max_open=4)
    >>> first, second, third = leases.take(), leases.take(), leases.take()
    >>> leases.done(third, first)
    >>> again = rs.Leases(rs.range(10), state=leases.get_state())
    >>> [lease.item for lease in again.available()]
    [1, 3, 4, 5, 6, 7, 8, 9]

    All methods may be called from any thread; items are read by one thread at a time. A lease never
    expires. An exception of the pipeline comes out of `take`, and the next `take` tries the same
    item again.

    State: the pipeline's position at up to 16 items before the oldest open item, and the numbers of
    the open and released items as ranges. So the size follows from the number of open items, which
    ``max_open`` limits. A resume with random access reads exactly the open items again. A stream is
    read again from the position on; ``max_ahead`` limits this.

    Args:
      pipeline: without `shard`; over `partition` only with ``ranks=1``.
      max_open: most leases open at a time; None for no limit.
      max_ahead: how far a number handed out may lie beyond the oldest open number, exclusive; None
        for no limit.
      rank: which rank this is. Rank i of r is dealt the numbers i, i + r, ... of the items left.
      ranks: number of ranks.
      state: resume here; a return value of `get_state`, of `rs.merge_states` over the states of all
        ranks, or a state of an iterator of the pipeline.

    Raises:
      StateMismatch: if ``state`` does not fit: also if a number may mean another item, as after a
        change of ``batch_size``, where an iterator would resume.
      InvalidArgument: if a limit is below 1, ``rank`` is not below ``ranks``, or the pipeline has
        `shard`, ``on_error="skip"``, or partitions and several ranks.
      InvalidType: if an argument has the wrong type.
    """

    def __init__(
        self,
        pipeline: Pipeline[T],
        *,
        max_open: int | None = None,
        max_ahead: int | None = None,
        rank: int = 0,
        ranks: int = 1,
        state: State | None = None,
    ) -> None:
        self._rank, self._ranks = check_below("rank", rank, "ranks", ranks)
        check_leasable(pipeline, self._ranks)
        for name, limit in (("max_open", max_open), ("max_ahead", max_ahead)):
            if limit is not None:
                check_int(name, limit, minimum=1)
        self._pipeline = pipeline
        self._max_open = max_open
        self._max_ahead = max_ahead
        self._reading = threading.RLock()
        self._lock = threading.RLock()
        self._waiting: list[Callable[[], object]] = []
        self._missed = False  # whether somebody found the reader busy
        self._closed = False
        self._begun = False
        # Called after a lease was done or dropped, and by `save`; set by a `Checkpointer`.
        self._after_end: Callable[[], object] | None = None
        self._save: Callable[[], str | None] | None = None
        self._begin(state)

    def _begin(self, state: State | None) -> None:
        """Begin at ``state``; a refused state changes nothing."""
        pipeline = self._pipeline
        if state is None:
            numbers, reached, iterator = LeasedNumbers(), 0, iter(pipeline)
        elif isinstance(state, dict) and LEASES in state:
            numbers, before = _unpacked(pipeline, state)
            reached, iterator = state["step"], pipeline.resume(before)
        else:
            iterator = pipeline.resume(state)
            reached = iterator.step
            numbers = LeasedNumbers(first=reached)
        try:
            numbers = numbers.dealt(self._rank, self._ranks)
            if min([*numbers.unfinished[:1], numbers.next]) < iterator.step:
                raise StateMismatch("an unfinished number of the state lies before its position")
            reader = NumberedReader(pipeline, iterator, numbers.next)
        except BaseException:
            iterator.close()
            raise
        self._reader = reader
        self._numbers = numbers
        self._next = numbers.next
        self._reached = reached  # the number after the furthest handed out
        self._epoch = iterator.epoch
        self._rest = deque(numbers.unfinished)
        self._open: dict[int, Lease[T]] = {}
        self._released: dict[int, Lease[T]] = {}
        self._oldest = 0  # at or before the oldest open number
        self._counts: dict[str, Any] = {how: getattr(numbers, how) for how in LeaseCounts._fields}
        self._ended = False

    @property
    def open(self) -> tuple[int, ...]:
        """The numbers of the open leases, ascending."""
        with self._lock:
            return tuple(sorted(self._open))

    @property
    def finished(self) -> bool:
        """Whether nothing is open, and `take` has found that nothing is left."""
        return self._ended and not self._open and not self._released

    @property
    def counts(self) -> LeaseCounts:
        """How many leases were done, dropped and released, over all resumes."""
        return LeaseCounts(**self._counts)

    def take(self, timeout: float | None = None) -> Lease[T] | None:
        """The next lease; None once all items are done or dropped.

        Released items come first, the smallest number first; then the items that were open in the
        state, in order; then new items. The call waits while ``max_open`` leases are open, while
        the next number lies ``max_ahead`` or more beyond the oldest open one, and while nothing is
        left but open leases, which may be given back.

        Args:
          timeout: seconds to wait, 0 for not at all; None to wait without limit.

        Raises:
          TimeoutError: if nothing came free in time.
          IteratorClosed: if `close` was called, also during the wait.
        """
        ends = None if timeout is None else _end_of(timeout)
        taken = self._attempt(-1 if timeout is None else timeout)
        if taken is not NOTHING_FREE:
            return taken
        woken = threading.Event()
        with self._woken_by(woken.set):
            while (taken := self._attempt(0.0)) is NOTHING_FREE:
                if not woken.wait(_left_until(ends)):
                    raise self._timed_out(timeout)
                woken.clear()
        return taken

    async def take_async(self, timeout: float | None = None) -> Lease[T] | None:
        """`take` without blocking the event loop while it waits; the item is read in the loop's thread.

        Use `prefetch` where reading takes long. A cancelled call has taken nothing.

        Raises:
          TimeoutError, IteratorClosed: as `take`.
        """
        import asyncio

        ends = None if timeout is None else _end_of(timeout)
        taken = self._attempt(0.0)
        if taken is not NOTHING_FREE:
            return taken
        woken, loop = asyncio.Event(), asyncio.get_running_loop()
        with self._woken_by(partial(loop.call_soon_threadsafe, woken.set)):
            while (taken := self._attempt(0.0)) is NOTHING_FREE:
                try:
                    await asyncio.wait_for(woken.wait(), _left_until(ends))
                except asyncio.TimeoutError:
                    raise self._timed_out(timeout) from None
                woken.clear()
        return taken

    def available(self) -> Iterator[Lease[T]]:
        """All leases that can be taken without waiting; for a controller with one thread."""
        while (taken := self._attempt(0.0)) is not NOTHING_FREE and taken is not None:
            yield taken

    def __iter__(self) -> Iterator[Lease[T]]:
        return iter(self.take, None)

    async def __aiter__(self) -> AsyncIterator[Lease[T]]:
        while (lease := await self.take_async()) is not None:
            yield lease

    def done(self, *leases: Lease[T] | int) -> None:
        """Count items as done: all leases given, or no lease if any is refused.

        Args:
          leases: leases, or their numbers.

        Raises:
          InvalidArgument: if a lease is not open, with the reason.
          InvalidType: if an argument is neither a lease nor an integer.
        """
        self._end(leases, DONE)

    def drop(self, *leases: Lease[T] | int) -> None:
        """Like `done`, counted apart: for items that were filtered out, are stale, or failed too often."""
        self._end(leases, DROPPED)

    def release(self, *leases: Lease[T] | int) -> None:
        """Give items back; `take` hands them out first. Arguments and errors as of `done`."""
        self._end(leases, RELEASED)

    def claim(self, number: int) -> Lease[T]:
        """The lease of an item that was open in the state, without handing the item out.

        For items whose results were kept elsewhere, as in a replay buffer.

        Raises:
          InvalidArgument: if ``number`` is not one that `take` would hand out again; and over a
            stream, from ``item`` of the lease.
          InvalidType: if ``number`` is not an integer.
        """
        number = check_int("number", number, minimum=0)
        with self._lock:
            if number not in self._rest or number >= self._reached:
                raise InvalidArgument(
                    f"item {number} cannot be claimed: {self._why_not_open(number)}"
                )
            self._begun = True
            self._rest.remove(number)
            lease = self._open[number] = Lease(self, number, 1)
            self._oldest = min(self._oldest, number)
            return lease

    def get_state(self, *, done: Iterable[Lease[T] | int] = ()) -> State:
        """The state as a new value; open and released items come again after a resume.

        Args:
          done: open leases, or numbers, that count as done in this state. Commit the state together
            with their results, then call `done`: so each item has its result exactly once.

        Raises:
          InvalidArgument: if one of ``done`` is not open.
          ExternalStateError: if the position of a source cannot be restored.
          UnencodableState: if a stage holds a value without an exact serialised form.
        """
        with self._lock:
            excluded = self._checked(tuple(done))
            handed_out = {*self._open, *self._released}.difference(excluded)
            unfinished = sorted([*handed_out, *self._rest])
            rounds = (self._next - self._numbers.first) // self._ranks
            counts = {**self._counts, DONE: self._counts[DONE] + len(excluded)}
            numbers = replace(self._numbers, unfinished=unfinished, rounds=rounds, **counts)
            reached, epoch = self._reached, self._epoch
            # Before the last number too: so the fingerprint has all that makes numbers.
            before = self._reader.state_before(min([reached - 1, *unfinished[:1]]))
        at = before.get(EPOCH_REACHED)
        ahead = reached - (before["step"] - before["ahead"])
        return {
            **_moved(self._pipeline, before, reached, ahead, None if at is None else epoch),
            "pipeline": freeze(before["pipeline"]),
            LEASES: replace(numbers, epoch=at).value,
        }

    def state_dict(self) -> dict[str, bytes]:
        """`get_state` by the names of torch; each of several ranks has its own key."""
        key = KEY if self._ranks == 1 else rank_key(self._rank, self._ranks)
        return {key: dumps_frozen(self.get_state())}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Begin at ``state_dict``: of this rank, or of all ranks of a run; before the first `take`.

        Raises:
          InvalidArgument: after the first `take` or `claim`.
          StateMismatch: if ``state_dict`` does not fit.
        """
        if self._begun:
            raise InvalidArgument(
                "load_state_dict must come before the first take; make new Leases"
            )
        states = states_in(state_dict)
        own = states.get(rank_key(self._rank, self._ranks), states.get(KEY))
        before = self._reader
        self._begin(merge_states(states.values()) if own is None else own)
        before.close()

    def save(self) -> str | None:
        """Save now; returns the path of the checkpoint, or None if everything done is saved.

        Raises:
          InvalidArgument: if these leases are not from `Checkpointer.leases`.
          SaveError: an OSError, if the store cannot keep the checkpoint.
        """
        if self._save is None:
            raise InvalidArgument("save() needs leases made by Checkpointer.leases(pipeline)")
        return self._save()

    def close(self) -> None:
        """Release files and end threads; waiting calls of `take` raise IteratorClosed.

        Open leases may still be ended, and the state stays readable.
        """
        self._closed = True
        self._reader.close()
        self._wake()

    def __enter__(self) -> Leases[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> str:
        raise InvalidType("leases cannot be pickled or copied; use get_state()")

    def __repr__(self) -> str:
        return f"<leases of {self._pipeline!r}: {len(self._open)} open, {self.counts.done} done>"

    # --- taking

    def _attempt(self, patience: float) -> Lease[T] | None:
        """A lease, None if nothing is left, or `NOTHING_FREE`.

        Args:
          patience: seconds to wait while another thread reads an item; -1 for no limit.
        """
        if not self._reading.acquire(True, patience):
            self._missed = True  # before the second try: the reader may have missed it
            if not self._reading.acquire(False):
                return NOTHING_FREE  # type: ignore[no-any-return]
        try:
            while True:
                if self._closed:
                    raise IteratorClosed("the leases were closed; make new ones from the state")
                if self._max_open is not None and len(self._open) >= self._max_open:
                    return NOTHING_FREE  # type: ignore[no-any-return]
                if self._released:
                    return self._take_released()
                if self._ended:
                    return NOTHING_FREE if self._open else None
                number = self._rest[0] if self._rest else self._next
                if self._max_ahead is not None and not self._is_near(number, self._max_ahead):
                    return NOTHING_FREE  # type: ignore[no-any-return]
                lease = self._take_unread(number)
                if lease is not None:
                    return lease
        finally:
            self._reading.release()
            if self._missed:
                self._missed = False
                self._wake()

    def _take_unread(self, number: int) -> Lease[T] | None:
        """The lease of ``number``; None after the end, or if ``number`` was claimed meanwhile."""
        self._begun = True
        reader = self._reader
        item = self._read(number)
        if item is NO_ITEM:
            self._ended = True
            self._wake()
            return None
        lease = Lease(self, number, 1)
        lease.item = item
        lease.epoch = epoch = reader.epoch if reader.counts_epochs else self._epoch
        with self._lock:
            if number != (self._rest[0] if self._rest else self._next):
                return None
            if self._rest:
                self._rest.popleft()
            else:
                self._next += self._ranks
            if number >= self._reached:
                self._reached, self._epoch = number + 1, epoch
            if not self._open or number < self._oldest:
                self._oldest = number
            self._open[number] = lease
            if reader.is_full:
                kept = [*self._open, *self._released, self._reached - 1, *self._rest]
                reader.forget(sorted(kept))
        return lease

    def _read(self, number: int) -> Any:
        """The item ``number``, or `NO_ITEM` if the pipeline has no further item."""
        item = self._reader.read(number)
        if item is NO_ITEM and number < self._reached:
            raise StateMismatch(
                f"the pipeline ends before item {number}, which was handed out before: the source delivers "
                "fewer items than before"
            )
        return item

    def _take_released(self) -> Lease[T]:
        with self._lock:  # only `_attempt` removes released items
            number = min(self._released)
            before = self._released[number]
        lease = Lease[T](self, number, before.attempt + 1)
        try:
            lease.item, lease.epoch = object.__getattribute__(before, "item"), before.epoch
        except AttributeError:  # claimed, never read, and given back
            lease.item = self._read(number)
            lease.epoch = self._reader.epoch if self._reader.counts_epochs else self._epoch
        with self._lock:
            del self._released[number]
            self._oldest = min(self._oldest, number)
            self._open[number] = lease
        return lease

    def _is_near(self, number: int, max_ahead: int) -> bool:
        """Whether ``number`` may be handed out beside the oldest open number."""
        if number - self._oldest >= max_ahead:
            with self._lock:
                self._oldest = min(self._open, default=number)
        return number - self._oldest < max_ahead

    @contextmanager
    def _woken_by(self, wake: Callable[[], object]) -> Iterator[None]:
        with self._lock:
            self._waiting.append(wake)
        try:
            yield
        finally:
            with self._lock:
                self._waiting.remove(wake)

    def _wake(self) -> None:
        with self._lock:
            for wake in self._waiting:
                with suppress(RuntimeError):  # the event loop of a waiting call was closed
                    wake()

    def _timed_out(self, timeout: float | None) -> TimeoutError:
        return TimeoutError(
            f"no item came free within {timeout} seconds: {len(self._open)} leases are open, with "
            f"max_open={self._max_open} and max_ahead={self._max_ahead}"
        )

    # --- ending

    def _end(self, leases: tuple[Lease[T] | int, ...], how: str) -> None:
        with self._lock:
            numbers = self._checked(leases)
            # All end in one step, since an interrupt may come between any two; a given back item
            # is then open and released, and is handed out again.
            if how is RELEASED:
                self._released.update({number: self._open[number] for number in numbers})
            if len(numbers) == 1:
                del self._open[numbers[0]]
            else:
                ended = {*numbers}
                self._open = {each: of for each, of in self._open.items() if each not in ended}
            self._counts[how] += len(numbers)
            if self._waiting:
                self._wake()
        if self._after_end is not None and how is not RELEASED:
            self._after_end()

    def _checked(self, leases: tuple[Lease[T] | int, ...]) -> list[int]:
        """The numbers of ``leases``, which must all be open."""
        # Nearly always one lease; the next lines are for speed.
        first = leases[0] if len(leases) == 1 else None
        if type(first) is Lease and self._open.get(first.number) is first:
            return [first.number]
        numbers = list[int]()
        for one in leases:
            number = one.number if type(one) is Lease else check_int("leases", one, minimum=0)
            found = self._open.get(number)
            if found is None:
                raise InvalidArgument(f"item {number} is not open: {self._why_not_open(number)}")
            if type(one) is Lease and found is not one:
                reason = "it was given back, and its item was taken again"
                if one._leases is not self:
                    reason = "it belongs to other leases"
                raise InvalidArgument(f"the lease of item {number} is not open: {reason}")
            numbers.append(number)
        if len(numbers) > 1 and len(set(numbers)) < len(numbers):
            raise InvalidArgument(f"each item can be given once, got {shorten(numbers)}")
        return numbers

    def _why_not_open(self, number: int) -> str:
        if number in self._open:
            return "it is open already"
        if number in self._released:
            return "it was given back, and not taken again"
        if number in self._rest and number < self._reached:
            return "it was open in the state, and has been neither taken nor claimed since"
        first, rank = self._numbers.first, self._numbers.rank
        if number >= self._next or (number >= first and (number - first) % self._ranks != rank):
            return "it was never handed out here"
        return "it was done or dropped before, or belongs to another rank"


def _unpacked(pipeline: Pipeline[Any], state: State) -> tuple[LeasedNumbers, State]:
    """The numbers of a ``state`` of leases, and the state of the pipeline at its position.

    Raises:
      StateMismatch: if the state does not fit ``pipeline``.
    """
    plain = {name: value for name, value in state.items() if name != LEASES}
    numbers = LeasedNumbers.of_value(state[LEASES])
    check_same_numbers(pipeline.stage, plain)
    return numbers, _moved(pipeline, plain, plain["step"] - plain["ahead"], 0, numbers.epoch)


def _moved(
    pipeline: Pipeline[Any], state: State, step: int, ahead: int, epoch: int | None
) -> State:
    """``state`` with another ``step`` and ``ahead``, and the epoch reached there if it has one."""
    needed = dependence_of_resume(ahead, state["epoch"])
    moved = {**state, "fingerprint": pipeline._runnable.fingerprint(needed)}
    moved |= {"step": step, "ahead": ahead}
    return moved if epoch is None else {**moved, EPOCH_REACHED: epoch}


def _end_of(timeout: float) -> float:
    """When ``timeout`` ends, on the monotonic clock."""
    return time.monotonic() + (check_seconds("timeout", timeout) if timeout != 0 else 0)


def _left_until(ends: float | None) -> float | None:
    return None if ends is None else max(ends - time.monotonic(), 0.0)
