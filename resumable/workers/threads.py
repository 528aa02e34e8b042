"""Threads that make calls for a loop which may be interrupted anywhere."""

# A signal handler may raise between any two bytecodes of the main thread. In the middle of a
# `Condition` it leaves that locked for ever, and `Thread.start`, `Thread.join`, `Event.wait` and
# `Future.result` are all built on one. So the thread that runs the loop waits only on
# `queue.SimpleQueue`, by one call of C. Whatever else needs locks is done by other threads, where
# no handler runs.
#
# Finalizers also run at any moment, in any thread and in forked children, and an interrupt may cut
# them short. So the threads of an object learn of its end by a weak reference that calls the `put`
# of a queue: this runs no line of Python and waits for no lock.

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from _thread import get_ident, start_new_thread
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final, Protocol, TypeVar, final

from ..core.home_process import HomeProcess
from ..errors import WorkerError
from .answers import Answer, Job

R = TypeVar("R")

HEARTBEAT: Final = 1.0
"""Seconds between checks that the threads are still alive."""

EXIT_SECONDS: Final = 0.5
"""Seconds that the interpreter's exit waits for its threads to end."""

IDLE_SECONDS: Final = 1.0
"""Seconds without a job after which a thorough thread ends; the next job starts a new one."""

PATIENCE: Final = 10.0
"""Seconds that a `close` waits for calls in work."""

LONG_PATIENCE: Final = 60.0
"""Seconds that a `close`, or the interpreter's exit, waits for a call that must be made."""


class Leaves(Protocol):
    """Something that threads wait for or work for."""

    def leave(self) -> None:
        """Let these threads end, without waiting for them."""


def leaves_at_exit(one: Leaves) -> None:
    """Call ``one.leave()`` as the interpreter exits, so that no thread waits any longer."""
    _open.add(one)


def when_gone(owner: Any, queue: SimpleQueue[Any]) -> weakref.ref[Any]:
    """A weak reference to keep; it puts None into ``queue`` when ``owner`` is gone."""
    return weakref.ref(owner, partial(queue.put, None))


class _Desk:
    """What `Threads` and its threads share; the threads do not refer to the `Threads`.

    Attributes:
      jobs: to be done, in order; None lets a thread end.
    """

    def __init__(self, owner: Threads, thorough: bool) -> None:
        self.jobs: SimpleQueue[Job[Any] | None] = SimpleQueue()
        self._owner = when_gone(owner, self.jobs)
        self._thorough = thorough
        self._closed = False
        self._idle_seconds = IDLE_SECONDS if thorough else None

    @property
    def dropped(self) -> bool:
        """Whether jobs that have not begun are no longer to be done."""
        return not self._thorough and (self._closed or self._owner() is None)

    def leave(self) -> None:
        """Let the threads end."""
        self._closed = True
        self.jobs.put(None)

    def next_job(self) -> Job[Any] | None:
        """Wait for the next job; None if the calling thread is to end.

        Raises:
          Empty: if a thorough thread has been idle for `IDLE_SECONDS`.
        """
        job = self.jobs.get(timeout=self._idle_seconds)
        if job is None or self.dropped:
            self.jobs.put(None)  # for the other threads
            return None
        return job


class _Shift:
    """One thread at work.

    Attributes:
      ident: the thread's, once it runs.
      leaving: whether it may do no further job. It stays if it finds one in the last moment.
    """

    def __init__(self) -> None:
        self.ident: int | None = None
        self.leaving = False
        self._ended = False
        self._hints: SimpleQueue[None] = SimpleQueue()

    def work(self, desk: _Desk) -> None:
        """Do jobs until the thread is to end; called in the thread."""
        self.ident = get_ident()
        while not self.leaving:
            try:
                job = desk.next_job()
            except Empty:
                # In this order, since `submit` first puts the job and then counts the threads.
                self.leaving = True
                self.leaving = desk.jobs.empty()
                continue
            if job is None:
                self.leaving = True
            else:
                job.run()
            del job  # so that the call and what it refers to are freed with the answer
        self._ended = True
        self._hints.put(None)

    def ended(self, seconds: float = 0.0) -> bool:
        """Wait up to ``seconds``; returns whether the thread has ended its work."""
        if not self._ended and seconds > 0:
            with suppress(Empty):
                self._hints.get(timeout=seconds)
        return self._ended


@final
class Threads:
    """Up to ``count`` threads, which start with the first job.

    They end with `close`, or when this object is gone.

    Args:
      count: number of threads.
      name: of each.
      thorough: whether every job submitted is done, also while the interpreter exits. Such threads
        also end when they are idle; the next job starts new ones.
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
        """Let a thread do ``job``. After an interrupt it may be submitted again.

        Raises:
          WorkerError: if no thread can be started, as while the interpreter exits.
        """
        self._desk.jobs.put(job)
        self._shifts = [shift for shift in self._shifts if not shift.ended()]
        # One that is leaving may stay: a thread too many does no harm.
        while sum(not shift.leaving for shift in self._shifts) < self._count:
            self._begin()

    def wait_for(self, job: Answer[R]) -> R:
        """Wait for ``job`` or another answer that these threads will give; returns its value."""
        while not job.wait(HEARTBEAT):
            self.check_alive()
        return job.result()

    @property
    def alive(self) -> bool:
        """Whether a thread is left that could answer."""
        return not all(shift.ended() for shift in self._shifts)

    def check_alive(self) -> None:
        """Raise an error if no thread is left that could answer.

        Raises:
          WorkerError: if all threads have ended.
        """
        if not self.alive:
            raise WorkerError(f"the thread {self._name} ended without an answer")

    def leave(self) -> None:
        """Let the threads end, without waiting for them."""
        if self._process.is_this_one():
            self._desk.leave()

    def close(self, seconds: float) -> bool:
        """Let the threads end; returns whether they have ended within ``seconds``.

        It does not wait for the calling thread, nor, in a forked child, for the parent's threads.
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
        """Let the interpreter's exit not wait for the jobs of thorough threads."""
        for shift in self._shifts:
            _to_finish.pop(shift, None)

    def _begin(self) -> None:
        shift, desk = _Shift(), self._desk
        thread = threading.Thread(target=shift.work, args=(desk,), name=self._name, daemon=True)
        _at_work.add(shift)
        if self._thorough:
            _to_finish[shift] = desk
        try:
            # `thread.start` is called in the new thread, since it waits within a `Condition`.
            start_new_thread(_start, (thread, shift, desk))
        except RuntimeError as error:
            if "new thread" not in str(error):  # raised by a signal handler
                raise
            _to_finish.pop(shift, None)
            raise WorkerError(f"{self._name} has no thread: {error}") from error
        # Not before: after an interrupt, one thread too many does no harm, one too few would.
        self._shifts.append(shift)


def _start(thread: threading.Thread, shift: _Shift, desk: _Desk) -> None:
    try:
        thread.start()
    except RuntimeError:  # no more threads are possible, but this is one
        shift.work(desk)


_open: Final[weakref.WeakSet[Leaves]] = weakref.WeakSet()
_at_work: Final[weakref.WeakSet[_Shift]] = weakref.WeakSet()
_to_finish: Final[weakref.WeakKeyDictionary[_Shift, _Desk]] = weakref.WeakKeyDictionary()


def _finish() -> None:
    """Let the threads end as the interpreter exits; wait for jobs that must be done."""
    for shift, desk in list(_to_finish.items()):
        desk.leave()
        shift.ended(LONG_PATIENCE)
    # A thread that wakes up while the interpreter is being finalized may crash it. Threads in a
    # call are waited for no longer than `EXIT_SECONDS`.
    for one in list(_open):
        one.leave()
    ends = time.monotonic() + EXIT_SECONDS
    for shift in list(_at_work):
        shift.ended(ends - time.monotonic())


def _forget() -> None:
    """Forget the parent's threads, which a forked child does not have."""
    for known in (_open, _at_work, _to_finish):
        known.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


# It runs before `atexit`, and also in processes of `multiprocessing`, which never run `atexit`.
getattr(threading, "_register_atexit", atexit.register)(_finish)
