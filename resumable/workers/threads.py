"""Threads that make calls for a loop, so interrupts of the loop do no harm."""

# A signal handler may raise between any two bytecodes of the main thread. In the middle of a
# `Condition` the exception leaves the condition locked for ever, and `Thread.start`, `Thread.join`,
# `Event.wait` and `Future.result` are all built on a `Condition`. So the thread of the loop waits
# only on `queue.SimpleQueue`, by one call of C. All other work with locks is done by other threads,
# without signal handlers.
#
# Finalizers also run at any moment, in any thread and in forked children, and an interrupt may cut
# them short. So the threads of an object learn of its end by a weak reference that calls the `put`
# of a queue: the call runs no line of Python and waits for no lock.

from __future__ import annotations

import atexit
import threading
import time
import weakref
from _thread import get_ident, start_new_thread
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final, Protocol, TypeVar, final

from ..core.home_process import HomeProcess, in_forked_children
from ..core.weak_sets import members
from ..errors import WorkerError
from .answers import Answer, Job

R = TypeVar("R")

HEARTBEAT: Final = 1.0
"""Seconds between checks whether the threads are alive."""

EXIT_SECONDS: Final = 0.5
"""Seconds that the interpreter's exit waits for its threads."""

IDLE_SECONDS: Final = 1.0
"""Seconds without a job after which a thorough thread ends; the next job starts a new thread."""

PATIENCE: Final = 10.0
"""Seconds that `close` waits for calls in work."""

LONG_PATIENCE: Final = 60.0
"""Seconds that `close`, or the interpreter's exit, waits for a mandatory call."""


class Stoppable(Protocol):
    """An object that threads wait for or work for."""

    def stop(self) -> None:
        """Let the threads end, without waiting."""


def stop_at_exit(one: Stoppable) -> None:
    """Call ``one.stop()`` as the interpreter exits, so no thread waits any longer."""
    _to_stop.add(one)


def when_gone(owner: Any, queue: SimpleQueue[Any]) -> weakref.ref[Any]:
    """A weak reference to keep; puts None into ``queue`` when ``owner`` is gone."""
    return weakref.ref(owner, partial(queue.put, None))


class _JobQueue:
    """Data shared by `Threads` and its threads; the threads do not refer to the `Threads`.

    Attributes:
      jobs: to be done, in order; None lets a thread end.
      last: done by the first thread to end.
      awaited_at_exit: whether the interpreter's exit waits for the jobs.
    """

    def __init__(self, owner: Threads, thorough: bool, last: Job[Any] | None) -> None:
        self.last = last
        self.jobs: SimpleQueue[Job[Any] | None] = SimpleQueue()
        self._owner = when_gone(owner, self.jobs)
        self._thorough = self.awaited_at_exit = thorough
        self._closed = False
        self._idle_seconds = IDLE_SECONDS if thorough else None

    @property
    def dropped(self) -> bool:
        """Whether jobs not yet begun are dropped."""
        return not self._thorough and (self._closed or self._owner() is None)

    def stop(self) -> None:
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


class _WorkerThread:
    """One of the threads.

    Attributes:
      queue: the argument.
      ident: of the running thread.
      ended: given once the thread has done its last job.
      stopping: whether the thread may do no further job. The thread stays if a job comes at the
        last moment.
    """

    def __init__(self, queue: _JobQueue) -> None:
        self.queue = queue
        self._start_once = [None]
        self.ident: int | None = None
        self.stopping = False
        self.ended: Answer[None] = Answer()

    def run(self) -> None:
        """Do jobs until the thread is to end; called in the thread, or in two after an interrupt."""
        try:
            self._start_once.pop()
        except IndexError:
            return
        self.ident = get_ident()
        while not self.stopping:
            try:
                job = self.queue.next_job()
            except Empty:
                # In this order, since `submit` first puts the job and then counts the threads.
                self.stopping = True
                self.stopping = self.queue.jobs.empty()
                continue
            if job is None:
                self.stopping = True
            else:
                job.run()
            del job  # so the call is freed with the answer
        if self.queue.last is not None:
            self.queue.last.run()
        self.ended.give(None)


@final
class Threads:
    """Up to ``count`` threads, started with the first job.

    The threads end with `close`, or when this object is gone.

    Args:
      count: number of threads.
      name: of each thread.
      thorough: whether every submitted job is done, also while the interpreter exits. Thorough
        threads also end when idle; the next job starts new threads.
      last: done once as the threads end, if any thread has started.
    """

    def __init__(
        self, count: int, name: str, *, thorough: bool = False, last: Job[Any] | None = None
    ) -> None:
        self._count = count
        self._name = name
        self._queue = _JobQueue(self, thorough, last)
        self._workers: list[_WorkerThread] = []
        self._next = _WorkerThread(self._queue)
        self._process = HomeProcess()
        stop_at_exit(self)

    def submit(self, job: Job[Any]) -> None:
        """Let a thread do ``job``. After an interrupt the job may be submitted again.

        Raises:
          WorkerError: if no thread can be started, as while the interpreter exits.
        """
        self._queue.jobs.put(job)
        self._workers = [worker for worker in self._workers if not worker.ended.given]
        # A stopping thread may stay: a thread too many does no harm.
        while sum(not worker.stopping for worker in self._workers) < self._count:
            self._start_thread()

    def wait_for(self, job: Answer[R]) -> R:
        """Wait for ``job`` or another answer from these threads; returns the value."""
        self.wait(job)
        return job.result()

    def wait(self, job: Answer[Any]) -> None:
        """Wait for ``job`` without taking the value."""
        while not job.wait(HEARTBEAT):
            self.check_alive()

    @property
    def alive(self) -> bool:
        """Whether a thread is left to answer."""
        return not all(worker.ended.given for worker in self._workers)

    def check_alive(self) -> None:
        """Raise an error if no thread is left to answer.

        Raises:
          WorkerError: if all threads have ended.
        """
        if not self.alive:
            raise WorkerError(f"the thread {self._name} ended without an answer")

    def stop(self) -> None:
        """Let the threads end, without waiting."""
        if self._process.is_this_one():
            self._queue.stop()

    def close(self, seconds: float) -> bool:
        """Let the threads end; returns whether all have ended within ``seconds``.

        Does not wait for the calling thread, nor, in a forked child, for the parent's threads.
        """
        if not self._process.is_this_one():
            return True
        self._queue.stop()
        ends = time.monotonic() + seconds
        for worker in self._workers:
            if worker.ident != get_ident() and not worker.ended.wait(ends - time.monotonic()):
                return False
        return True

    def forget_jobs(self) -> None:
        """Let the interpreter's exit not wait for the jobs of thorough threads."""
        self._queue.awaited_at_exit = False

    def _start_thread(self) -> None:
        worker = self._next
        thread = threading.Thread(target=worker.run, name=self._name, daemon=True)
        _at_work.add(worker)
        try:
            # `thread.start` is called in the new thread, since `start` waits within a `Condition`.
            start_new_thread(_start, (thread, worker))
        except RuntimeError as error:
            if "new thread" not in str(error):  # raised by a signal handler
                raise
            _at_work.discard(worker)
            raise WorkerError(f"{self._name} has no thread: {error}") from error
        # After an interrupt before this line, the next job starts the same worker again, which runs
        # once.
        self._workers.append(worker)
        self._next = _WorkerThread(self._queue)


def _start(thread: threading.Thread, worker: _WorkerThread) -> None:
    try:
        thread.start()
    except RuntimeError:  # no further thread, but this thread exists
        worker.run()


_to_stop: Final[weakref.WeakSet[Stoppable]] = weakref.WeakSet()
_at_work: Final[weakref.WeakSet[_WorkerThread]] = weakref.WeakSet()


def _finish() -> None:
    """Let the threads end as the interpreter exits; wait for mandatory jobs."""
    for worker in members(_at_work):
        if worker.queue.awaited_at_exit:
            worker.queue.stop()
            worker.ended.wait(LONG_PATIENCE)
    # A thread waking up while the interpreter is being finalized may crash it. Threads in a call
    # are waited for no longer than `EXIT_SECONDS`.
    for one in members(_to_stop):
        one.stop()
    ends = time.monotonic() + EXIT_SECONDS
    for worker in members(_at_work):
        worker.ended.wait(ends - time.monotonic())


@in_forked_children
def _forget() -> None:
    """Forget the parent's threads, absent in a forked child."""
    for known in (_to_stop, _at_work):
        known.clear()


# Runs before `atexit`, and also in processes of `multiprocessing`, which never run `atexit`.
getattr(threading, "_register_atexit", atexit.register)(_finish)
