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
# Finalizers run at any bytecode too, of any thread, and in forked children; they take no lock,
# and do nothing in a process that did not start the threads.

from __future__ import annotations

import atexit
import threading
import time
import weakref
from _thread import get_ident, start_new_thread
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Final, Generic, TypeVar, final

from ..core.home_process import HomeProcess
from ..errors import WorkerError

R = TypeVar("R")

HEARTBEAT: Final = 1.0
"""Seconds between looks at whether the threads are still alive."""

PATIENCE: Final = 60.0
"""Seconds for which the interpreter's exit waits for calls that have to be made."""


class Answer(Generic[R]):
    """What another thread will say, once."""

    def __init__(self) -> None:
        self._given: tuple[R | None, BaseException | None] | None = None
        self._hints: SimpleQueue[None] = SimpleQueue()

    @property
    def given(self) -> bool:
        """Whether there is a value or an error."""
        return self._given is not None

    @property
    def succeeded(self) -> bool:
        """Whether there is a value."""
        return self._given is not None and self._given[1] is None

    def give(self, value: R | None, error: BaseException | None = None) -> None:
        """Answer with ``value``, or with ``error``."""
        self._given = value, error
        self._hints.put(None)

    def wait(self, seconds: float) -> bool:
        """Wait up to ``seconds``; whether the answer is given."""
        if self._given is None:
            with suppress(Empty):
                self._hints.get(timeout=seconds)
        return self._given is not None

    def result(self) -> R:
        """The value given, or raise the error."""
        assert self._given is not None
        value, error = self._given
        if error is not None:
            raise error
        return value  # type: ignore[return-value]


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


class _Desk:
    """What the threads share with the one they work for, and all that they know.

    Attributes:
      jobs: to be done, in order; None tells a thread to leave.
      dropped: whether jobs that have not begun are to be left undone.
    """

    def __init__(self) -> None:
        self.jobs: SimpleQueue[Job[Any] | None] = SimpleQueue()
        self.dropped = False

    def leave(self, drop: bool) -> None:
        """Send the threads home, before the jobs that have not begun if these are dropped."""
        self.dropped = self.dropped or drop
        self.jobs.put(None)


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
        try:
            while not desk.dropped:
                job = desk.jobs.get()
                if job is None:
                    break
                if not desk.dropped:
                    job.run()
                del job  # a call, and what it holds, ends with the answer
        finally:
            desk.jobs.put(None)  # for the other threads
            self._ended = True
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
    """

    def __init__(self, count: int, name: str, *, thorough: bool = False) -> None:
        self._count = count
        self._name = name
        self._thorough = thorough
        self._desk = _Desk()
        self._shifts: list[_Shift] = []
        self._process = HomeProcess()
        weakref.finalize(self, _leave, self._desk, self._process, not thorough)

    def submit(self, job: Job[Any]) -> None:
        """Have ``job`` done. After an interrupt it may be submitted again.

        Raises:
          RuntimeError: if no thread can be started, as while the interpreter exits.
        """
        while len(self._shifts) < self._count:
            self._begin()
        self._desk.jobs.put(job)

    def wait_for(self, job: Answer[R]) -> R:
        """The result of ``job``, which was submitted, or another answer that these threads see to."""
        while not job.wait(HEARTBEAT):
            self.check_alive()
        return job.result()

    def check_alive(self) -> None:
        """Raise an error if nobody is there who could answer.

        Raises:
          WorkerError: if all threads have ended.
        """
        if all(shift.ended() for shift in self._shifts):
            raise WorkerError(f"the thread {self._name} ended without an answer")

    def close(self, seconds: float) -> bool:
        """Send the threads home; whether they were gone within ``seconds``.

        Called by one of the threads, or in a forked child, it waits for none.
        """
        if not self._process.is_this_one():
            return True
        self._desk.leave(drop=not self._thorough)
        ends = time.monotonic() + seconds
        return all(
            shift.ended(max(ends - time.monotonic(), 0.0))
            for shift in self._shifts
            if shift.ident != get_ident()
        )

    def _begin(self) -> None:
        shift, desk = _Shift(), self._desk
        thread = threading.Thread(target=shift.work, args=(desk,), name=self._name, daemon=True)
        # Not here: `start` waits for the thread within a `Condition`.
        start_new_thread(_start, (thread, shift, desk))
        # Not before: one thread too many does no harm, one too few would.
        self._shifts.append(shift)
        if self._thorough:
            _to_finish[shift] = desk, self._process


def _start(thread: threading.Thread, shift: _Shift, desk: _Desk) -> None:
    try:
        thread.start()
    except RuntimeError:  # there can be no more threads, but this is one
        shift.work(desk)


def _leave(desk: _Desk, process: HomeProcess, drop: bool) -> None:
    if process.is_this_one():
        desk.leave(drop)


_to_finish: Final[weakref.WeakKeyDictionary[_Shift, tuple[_Desk, HomeProcess]]] = (
    weakref.WeakKeyDictionary()
)


def _finish() -> None:
    """Let the interpreter's exit wait for what has to be done."""
    for shift, (desk, process) in list(_to_finish.items()):
        if process.is_this_one():
            desk.leave(drop=False)
            shift.ended(PATIENCE)


# Before `atexit`, and also in processes of `multiprocessing`, which never come to that.
getattr(threading, "_register_atexit", atexit.register)(_finish)
