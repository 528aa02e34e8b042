"""Processes that call the function of a map, or run partitions; large results use shared memory."""

# The processes are loky's. They start without importing the main module: a script needs no guard,
# and a function of the main module is sent by value. A dead process breaks the pool, and the next
# submitted chunk starts a new pool.

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future
from functools import partial
from typing import Any, Final, final

from ..core.home_process import in_forked_children
from ..core.process_counts import process_counts
from ..core.weak_sets import members
from ..errors import InvalidArgument, MissingDependency, WorkerError, shorten
from . import worker_process
from .arena import Arena, new_arena
from .chunk_work import PickledOutcome
from .executor_thread import ChunkJob, ExecutorService, ExecutorWorkers
from .fork_server import CAN_FORK
from .worker_deaths import MOST_STARTS
from .worker_process import ProcessSetup
from .workers import WorkerCall

IDLE_SECONDS: Final = 300
FEEDER_SECONDS: Final = 1.0


def pickled(fn: Callable[[Any], Any]) -> bytes:
    """``fn`` as bytes for another process of this machine.

    Raises:
      MissingDependency: without the extra ``parallel``.
      InvalidArgument: if ``fn`` cannot be pickled.
    """
    check_loky()
    from . import function_pickler

    try:
        return function_pickler.dumps(fn)
    except Exception as error:
        raise InvalidArgument(
            f"fn must be picklable for processes, got {shorten(fn)} ({error})"
        ) from None


def check_loky() -> None:
    """Refuse to start processes without the extra ``parallel``.

    Raises:
      MissingDependency: without the extra.
    """
    try:
        import loky  # noqa: F401
    except ImportError as error:
        raise MissingDependency(
            "executor='process' needs the package loky: pip install 'resumable-loader[parallel]'"
        ) from error


class ProcessWorkers(ExecutorWorkers):
    """Processes of a pool for one map.

    A small outcome, or an outcome larger than 256 MB, goes through a pipe.
    """

    die_together = True

    def __init__(self, call: WorkerCall, slots: int) -> None:
        if multiprocessing.current_process().daemon:
            raise WorkerError(
                "a daemonic process, such as a worker of a DataLoader, may not start processes; "
                "use executor='thread' there"
            )
        super().__init__(_PoolService(call, slots))
        _running.add(self)


@final
class _PoolService(ExecutorService):
    """A pool of processes, and a new pool after each broken one."""

    def __init__(self, call: WorkerCall, slots: int) -> None:
        self._call = call
        self._slots = slots
        self._executor: Any = None
        self._has_exit_hook = False
        self._sent = b""  # the pickled function of the processes
        self._arena: Arena | None = None

    def send(self, request: ChunkJob) -> None:
        may_differ = request.begins_epoch and self._executor is not None
        if may_differ and pickled(self._call.fn) != self._sent:
            self.close()  # the function has changed since the start
        if self._executor is None:
            self._start()
        try:
            self._submit(request)
        except BrokenExecutor:
            self._restart()
            self._submit(request)

    def close(self) -> None:
        if self._executor is not None:
            queue = self._executor._call_queue
            self._executor.shutdown(wait=True, kill_workers=True)
            # Otherwise the queue's thread may continue to write a large chunk to dead processes.
            # The thread also holds semaphores, to be removed before the interpreter exits.
            queue._reader.close()
            if queue._thread is not None:
                queue._thread.join(FEEDER_SECONDS)
            if self._arena is not None:
                self._arena.close()
            self._executor = None

    def _start(self) -> None:
        from loky.process_executor import ProcessPoolExecutor

        context = _context()
        # New memory too: an old process being killed may still write to the old memory.
        self._arena = new_arena(self._slots)
        # Pickled in this thread: in the loop, an interrupt would look like a failure of pickling.
        self._sent = pickled(self._call.fn)
        call = self._call
        setup = ProcessSetup(self._sent, call.drop, call.tell, self._arena, os.getpid())
        self._executor = ProcessPoolExecutor(
            call.workers,
            timeout=IDLE_SECONDS,
            context=context,
            initializer=worker_process.begin,
            initargs=(setup,),
        )
        self._has_exit_hook = False

    def _restart(self) -> None:
        """Start a pool of live processes: if a process dies later, its items are the cause."""
        process_counts.worker_restarts += 1
        for starts in range(MOST_STARTS, 0, -1):
            self.close()
            self._start()
            try:
                self._executor.submit(worker_process.ping).result()
            except BrokenExecutor as error:
                if starts == 1:
                    raise WorkerError(
                        f"processes died {MOST_STARTS} times before they were given an item: "
                        f"{error!r}"
                    ) from error
            else:
                return

    def _submit(self, request: ChunkJob) -> None:
        slot = None if self._arena is None else self._arena.take()
        future = self._executor.submit(worker_process.work, request.block, slot)
        future.add_done_callback(partial(_answer, request, self._arena, slot))
        if not self._has_exit_hook:  # only now has the pool started
            self._has_exit_hook = True
            if not _hook_exit():
                self.close()


def _answer(request: ChunkJob, arena: Arena | None, slot: int | None, future: Future[Any]) -> None:
    """Answer ``request``; called in a thread of the pool or of the executor."""
    try:
        reply: PickledOutcome = future.result()
        shared = None
        if reply.parts is None:
            assert arena is not None
            assert slot is not None
            shared = arena.read(slot, reply.lengths)
        request.give(reply.open(shared))
    except BaseException as error:
        # The traceback of the error would hold the pool, and the pool's semaphores must be freed
        # with it.
        request.give(None, error.with_traceback(None))
    finally:
        if arena is not None and slot is not None:
            arena.give_back(slot)


_running: weakref.WeakSet[ProcessWorkers] = weakref.WeakSet()


def _hook_exit() -> bool:
    """Let the interpreter's exit not wait for calls in work; False if the exit has begun.

    loky registers a waiting hook at the start of each pool. A later hook runs earlier.
    """
    register = getattr(threading, "_register_atexit", None)
    if register is not None:
        try:
            register(_end_running)
        except RuntimeError:
            return False
    return True


def _end_running() -> None:
    for workers in members(_running):
        workers.close()


def _context() -> Any:
    """The start method of processes; None for loky's own."""
    if not CAN_FORK:
        return None
    from .forking import forking_context

    return forking_context()


@in_forked_children
def _forget_pools() -> None:
    """Drop the parent's pools in a forked child, before its exit hooks meet the pools.

    The hook of loky would take locks that a thread of the parent may have held at the fork, and the
    hook of multiprocessing would join processes that are not children of this process.
    """
    executors = sys.modules.get("loky.process_executor")
    if executors is not None:
        executors._threads_wakeups.clear()
        started = multiprocessing.process._children  # type: ignore[attr-defined]
        for process in list(started):
            if isinstance(process, sys.modules["loky.backend.process"].LokyProcess):
                started.discard(process)
