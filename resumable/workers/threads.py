"""Threads that make calls for a loop which may be interrupted anywhere."""

# A signal handler may raise between any two bytecodes of the main thread. In the midst of a
# `Condition` it leaves that locked for ever, and `Thread.start`, `Thread.join`, `Event.wait` and
# `Future.result` are all built upon one. So the thread that runs the loop waits on
# `queue.SimpleQueue` alone, which is one call of C, and whatever else needs locks is done by
# threads, where no handler runs.
#
# An interrupt may also swallow what a queue has just handed over. So what is waited for stands in
# an attribute, and the queue carries only the hint to look there.
#
# Finalizers run at any moment too, in any thread, and in forked children, and an interrupt may cut
# them short. So the threads of an object learn of its end by a weak reference that calls the `put` of a queue:
# no line of Python, and no lock that anybody waits for.

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from _thread import get_ident, start_new_thread
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final, Generic, Protocol, TypeVar, final

from ..core.home_process import HomeProcess
from ..errors import WorkerError

R = TypeVar("R")

HEARTBEAT: Final = 1.0
"""Seconds between looks at whether the threads are still alive."""

EXIT_SECONDS: Final = 0.5
"""Seconds that the interpreter's exit gives threads that wait for something to end."""

IDLE_SECONDS: Final = 1.0
"""Seconds without a job after which a thread that may begin again ends."""

PATIENCE: Final = 10.0
"""Seconds that a `close` waits for calls in work."""

LONG_PATIENCE: Final = 60.0
"""Seconds that a `close`, or the interpreter's exit, waits for a call that has to be made."""


class Answer(Generic[R]):
    """What another thread will say, once.

    Attributes:
      given: whether there is a value or an error.
      value: None unless it is given.
      error: that came instead.
    """

    def __init__(self) -> None:
        self.given = False
        self.value: R | None = None
        self.error: BaseException | None = None
        self._hints: SimpleQueue[None] = SimpleQueue()

    @property
    def succeeded(self) -> bool:
        """Whether there is a value."""
        return self.given and self.error is None

    def give(self, value: R | None, error: BaseException | None = None) -> None:
        """Answer with ``value``, or with ``error``."""
        self.value, self.error = value, error
        self.given = True
        self._hints.put(None)

    def wait(self, seconds: float) -> bool:
        """Wait up to ``seconds``; whether the answer is given."""
        if not self.given:
            with suppress(Empty):
                self._hints.get(timeout=max(seconds, 0.0))
        return self.given

    def result(self) -> R:
        """The value given, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.value  # type: ignore[return-value]


@final
class Job(Answer[R]):
    """A call that is made once at most, however often it is handed in."""

    def __init__(self, call: Callable[[], R]) -> None:
        super().__init__()
        self._call = [call]

    def cancel(self) -> bool:
        """Let nobody make the call any more; whether nobody had begun."""
        try:
            self._call.pop()
        except IndexError:
            return False
        return True

    def run(self) -> None:
        """Make the call, unless somebody else does."""
        try:
            call = self._call.pop()
        except IndexError:
            return
        try:
            value = call()
        except BaseException as error:
            self.give(None, error)
        else:
            self.give(value)


class Leaves(Protocol):
    """Something that threads wait for, or that they work for."""

    def leave(self) -> None:
        """Let these threads end, without waiting for them."""


def leaves_at_exit(one: Leaves) -> None:
    """Call ``one.leave()`` as the interpreter exits, which a waiting thread should not outlive."""
    _open.add(one)


def when_gone(owner: Any, queue: SimpleQueue[Any]) -> weakref.ref[Any]:
    """A reference to ``owner`` that puts None into ``queue`` when that is gone; it must be kept."""
    return weakref.ref(owner, partial(queue.put, None))


class _Desk:
    """What the threads share with the one they work for, and all that they know.

    Attributes:
      jobs: to be done, in order; None tells a thread to leave.
    """

    def __init__(self, owner: Threads, thorough: bool) -> None:
        self.jobs: SimpleQueue[Job[Any] | None] = SimpleQueue()
        self._owner = when_gone(owner, self.jobs)
        self._thorough = thorough
        self._closed = False
        self._idle_seconds = IDLE_SECONDS if thorough else None

    @property
    def dropped(self) -> bool:
        """Whether jobs that have not begun are to be left undone."""
        return not self._thorough and (self._closed or self._owner() is None)

    def leave(self) -> None:
        """Send the threads home."""
        self._closed = True
        self.jobs.put(None)

    def next_job(self) -> Job[Any] | None:
        """Wait for it; None if the thread that asks is to leave.

        Raises:
          Empty: if there has been nothing to do for long.
        """
        job = self.jobs.get(timeout=self._idle_seconds)
        if job is None or self.dropped:
            self.jobs.put(None)  # for the other threads
            return None
        return job


class _Shift:
    """One thread at work.

    Attributes:
      ident: of the thread, once it works.
    """

    def __init__(self) -> None:
        self.ident: int | None = None
        self._ended = False
        self._hints: SimpleQueue[None] = SimpleQueue()

    def work(self, desk: _Desk) -> None:
        """The thread."""
        self.ident = get_ident()
        while not self._ended:
            try:
                job = desk.next_job()
            except Empty:
                # First the one, then the other: whoever submits a job looks for a thread afterwards.
                self._ended = True
                self._ended = desk.jobs.empty()
                continue
            if job is None:
                self._ended = True
            else:
                job.run()
            del job  # a call, and what it holds, ends with the answer
        self._hints.put(None)

    def ended(self, seconds: float = 0.0) -> bool:
        """Whether the thread is through with its work within ``seconds``."""
        if not self._ended and seconds > 0:
            with suppress(Empty):
                self._hints.get(timeout=seconds)
        return self._ended


@final
class Threads:
    """Up to ``count`` threads, which start with the first job.

    They end with `close`, or once this object is dropped.

    Args:
      count: number of threads.
      name: of each.
      thorough: whether what was submitted is done in any case, also while the interpreter exits.
        Such threads also end when there is nothing to do, and begin again with the next job.
    """

    def __init__(self, count: int, name: str, *, thorough: bool = False) -> None:
        self._count = count
        self._name = name
        self._thorough = thorough
        self._desk = _Desk(self, thorough)
        self._shifts: list[_Shift] = []
        self._process = HomeProcess()
        leaves_at_exit(self)

    def submit(self, job: Job[Any]) -> None:
        """Have ``job`` done. After an interrupt it may be submitted again.

        Raises:
          WorkerError: if no thread can be started, as while the interpreter exits.
        """
        self._desk.jobs.put(job)
        self._shifts = [shift for shift in self._shifts if not shift.ended()]
        while len(self._shifts) < self._count:
            self._begin()

    def wait_for(self, job: Answer[R]) -> R:
        """The result of ``job``, which was submitted, or another answer that these threads see to."""
        while not job.wait(HEARTBEAT):
            self.check_alive()
        return job.result()

    @property
    def alive(self) -> bool:
        """Whether there is a thread that could answer."""
        return not all(shift.ended() for shift in self._shifts)

    def check_alive(self) -> None:
        """Raise an error if nobody is there who could answer.

        Raises:
          WorkerError: if all threads have ended.
        """
        if not self.alive:
            raise WorkerError(f"the thread {self._name} ended without an answer")

    def leave(self) -> None:
        """Send the threads home."""
        self._desk.leave()

    def close(self, seconds: float) -> bool:
        """Send the threads home; whether they were gone within ``seconds``.

        Called by one of the threads, or in a forked child, it waits for none.
        """
        if not self._process.is_this_one():
            return True
        self._desk.leave()
        ends = time.monotonic() + seconds
        for shift in self._shifts:
            if shift.ident != get_ident() and not shift.ended(ends - time.monotonic()):
                return False
        return True

    def abandon(self) -> None:
        """Let the interpreter's exit not wait for what the threads are at."""
        for shift in self._shifts:
            _to_finish.pop(shift, None)

    def _begin(self) -> None:
        shift, desk = _Shift(), self._desk
        thread = threading.Thread(target=shift.work, args=(desk,), name=self._name, daemon=True)
        _at_work.add(shift)
        if self._thorough:
            _to_finish[shift] = desk
        try:
            # Not here: `start` waits for the thread within a `Condition`.
            start_new_thread(_start, (thread, shift, desk))
        except RuntimeError as error:
            if "new thread" not in str(error):  # a handler's own
                raise
            _to_finish.pop(shift, None)
            raise WorkerError(f"{self._name} has no thread: {error}") from error
        # Not before: one thread too many does no harm, one too few would.
        self._shifts.append(shift)


def _start(thread: threading.Thread, shift: _Shift, desk: _Desk) -> None:
    try:
        thread.start()
    except RuntimeError:  # there can be no more threads, but this is one
        shift.work(desk)


_open: Final[weakref.WeakSet[Leaves]] = weakref.WeakSet()
_at_work: Final[weakref.WeakSet[_Shift]] = weakref.WeakSet()
_to_finish: Final[weakref.WeakKeyDictionary[_Shift, _Desk]] = weakref.WeakKeyDictionary()


def _finish() -> None:
    """Let the interpreter's exit wait for what has to be done."""
    for shift, desk in list(_to_finish.items()):
        desk.leave()
        shift.ended(LONG_PATIENCE)
    # A thread that waits while the interpreter takes itself apart may crash it. Those that are at a
    # call are not waited for.
    for one in list(_open):
        one.leave()
    ends = time.monotonic() + EXIT_SECONDS
    for shift in list(_at_work):
        shift.ended(ends - time.monotonic())


def _forget() -> None:
    """In a forked child there are no threads."""
    for known in (_open, _at_work, _to_finish):
        known.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


# Before `atexit`, and also in processes of `multiprocessing`, which never come to that.
getattr(threading, "_register_atexit", atexit.register)(_finish)
