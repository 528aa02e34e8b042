"""Processes that call the function of a map, and hand back large results in shared memory."""

# The processes are loky's: they start without importing the main module, so a script needs no
# guard, and the function travels by value. One that dies breaks the pool; the map
# then raises, and the next call begins with a new one.

from __future__ import annotations

import multiprocessing
import os
import pickle
import threading
import time
import traceback
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from functools import cache
from typing import Any, Final, NamedTuple

from ..core.block import Block, block_length, slice_block
from ..errors import InvalidArgument, InvalidType, MissingDependency, WorkerError, shorten
from .arena import SHARES_MEMORY, Arena
from .executors import Outcome, Workers, attempt

CHUNK_SECONDS: Final = 0.01
LONGEST_SECONDS: Final = 0.1
SLICES: Final = 16
LARGEST_CHUNK: Final = 4096
CHUNK_BYTES: Final = 1 << 23
GROWTH: Final = 4
# Below this a pipe is as fast as shared memory.
WORTH_SHARING: Final = 1 << 15
SLOT_BYTES: Final = 1 << 28
IDLE_SECONDS: Final = 300
HEARTBEAT: Final = 1.0


class _Reply(NamedTuple):
    """An outcome on its way: in its slot of the arena, or here."""

    parts: list[bytes] | None
    lengths: list[int]
    seconds: float


def pickled(fn: Callable[[Any], Any]) -> bytes:
    """``fn`` for another process: by value where it cannot be imported there.

    Raises:
      MissingDependency: without the extra ``parallel``.
      InvalidArgument: if it cannot be pickled.
    """
    try:
        import cloudpickle
        import loky  # noqa: F401
    except ImportError as error:
        raise MissingDependency(
            "executor='process' needs the package loky: pip install 'resumable-loader[parallel]'"
        ) from error
    try:
        data: bytes = cloudpickle.dumps(fn, protocol=pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        raise InvalidArgument(
            f"fn must be picklable for processes, got {shorten(fn)} ({error})"
        ) from None
    return data


class ProcessWorkers(Workers):
    """Processes of its own.

    Each chunk takes about ten milliseconds, and its results at most some megabytes, as far
    as those before it tell; one that takes longer is cut short. A result of more than 256 MB goes through a pipe.
    """

    def __init__(self, fn: Callable[[Any], Any], drop: bool, count: int, slots: int) -> None:
        from loky.process_executor import ProcessPoolExecutor

        if multiprocessing.current_process().daemon:
            raise WorkerError(
                "a daemonic process, such as a worker of a DataLoader, may start no processes; use "
                "executor='thread' there"
            )
        self._arena = _arena_of(slots)
        self._free = list(range(slots))
        self._slot_of: dict[Future[Any], int] = {}
        self._executor = ProcessPoolExecutor(
            count,
            timeout=IDLE_SECONDS,
            initializer=_begin,
            initargs=(pickled(fn), drop, self._arena, os.getpid()),
        )
        _running.add(self._executor)
        self._finish = weakref.finalize(
            self, self._executor.shutdown, wait=False, kill_workers=True
        )

    def submit(self, block: Block) -> Future[Any]:
        slot = self._free.pop()
        future: Future[Any] = self._executor.submit(_work, block, slot)
        self._slot_of[future] = slot
        _hook_exit()  # once a pool has started
        return future

    def outcome(self, future: Future[Any]) -> Outcome:
        slot = self._slot_of.pop(future)
        try:
            reply: _Reply = future.result()
            parts = self._parts(reply, slot)
        finally:
            self._free.append(slot)
        found: Outcome = pickle.loads(parts[0], buffers=map(bytearray, parts[1:]))
        self._adapt(found.tried, reply.seconds, sum(reply.lengths))
        return found

    def close(self) -> None:
        if self._finish.detach() is not None:  # a second `shutdown` would not wait
            self._executor.shutdown(wait=True, kill_workers=True)
        if self._arena is not None:
            self._arena.close()

    def _parts(self, reply: _Reply, slot: int) -> list[Any]:
        if reply.parts is not None:
            return list(reply.parts)
        assert self._arena is not None
        return list(self._arena.read(slot, reply.lengths))

    def _adapt(self, items: int, seconds: float, size: int) -> None:
        """Choose the size of the next chunks."""
        in_time = CHUNK_SECONDS * items / max(seconds, 1e-9)
        in_bytes = CHUNK_BYTES * items / max(size, 1)
        most = min(GROWTH * self.chunk, LARGEST_CHUNK)
        self.chunk = max(int(min(in_time, in_bytes, most)), 1)


_running: weakref.WeakSet[Any] = weakref.WeakSet()


@cache
def _hook_exit() -> None:
    """Let the interpreter's exit not wait for what the workers are at.

    A pool registers a hook of its own when it starts, which waits; a later one runs earlier.
    """
    register = getattr(threading, "_register_atexit", None)
    if register is not None:
        register(_kill_running)


def _kill_running() -> None:
    for executor in list(_running):
        executor.shutdown(wait=False, kill_workers=True)


def _arena_of(slots: int) -> Arena | None:
    """Shared memory; None where there is none, or no more addresses for it."""
    if not SHARES_MEMORY:
        return None
    try:
        return Arena(slots, SLOT_BYTES)
    except OSError:
        return None


_fn: Callable[[Any], Any]
_drop: bool
_arena: Arena | None


def _begin(fn: bytes, drop: bool, arena: Arena | None, parent: int) -> None:
    """Prepare a worker."""
    global _fn, _drop, _arena
    if hasattr(os, "setpgid"):
        os.setpgid(0, 0)  # signals to the group, such as Ctrl-C, are the parent's to handle
    _fn, _drop, _arena = pickle.loads(fn), drop, arena
    threading.Thread(target=_leave_with, args=(parent,), daemon=True).start()


def _leave_with(parent: int) -> None:
    """End this process when its parent is gone, however that ended."""
    while os.getppid() == parent:
        time.sleep(HEARTBEAT)
    os._exit(1)


def _work(block: Block, slot: int) -> _Reply:
    """Attempt a chunk in a worker, and put what came of it into ``slot`` of the arena."""
    began = time.perf_counter()
    try:
        outcome = _attempt_in_time(block, began + LONGEST_SECONDS)
    except BaseException as error:
        _check_sendable(error)
        raise
    seconds = time.perf_counter() - began
    parts = _pickled_outcome(outcome)
    lengths = [len(part) for part in parts]
    if _arena is not None and WORTH_SHARING <= sum(lengths) <= SLOT_BYTES:
        _arena.write(slot, parts)
        return _Reply(None, lengths, seconds)
    return _Reply([bytes(part) for part in parts], lengths, seconds)


def _attempt_in_time(block: Block, ends: float) -> Outcome:
    """Attempt a chunk, or what can be done of it in time, which is at least one item."""
    length = block_length(block)
    step = max(length // SLICES, 1)
    done = Outcome([], [])
    while done.tried < length and (not done.tried or time.perf_counter() < ends):
        start, stop = done.tried, min(done.tried + step, length)
        try:
            part = attempt(_fn, slice_block(block, start, stop), _drop)
        except BaseException:
            if start:  # told when it is tried again
                break
            raise
        done.results.extend(part.results)
        done.failed.extend(start + number for number in part.failed)
        if done.tried < stop:
            break
    return done


def _check_sendable(error: BaseException) -> None:
    """Raise another error in place of one that would break the pool on its way."""
    import cloudpickle

    try:
        pickle.loads(cloudpickle.dumps(error))
    except Exception as reason:
        told = "".join(traceback.format_exception_only(error)).strip()
        raise WorkerError(f"{told} (this exception cannot be pickled: {reason})") from error


def _pickled_outcome(outcome: Outcome) -> list[Any]:
    """``outcome`` as bytes, the large ones of which are not copied.

    Less of it, if something cannot be pickled: what comes before that is delivered first.
    """
    while True:
        buffers: list[pickle.PickleBuffer] = []
        try:
            return [_dumps(outcome, buffers), *(buffer.raw() for buffer in buffers)]
        except Exception as error:
            if outcome.tried == 1:
                raise InvalidType(
                    "results of fn must be picklable for processes, got "
                    f"{shorten(outcome.results[0])} ({error})"
                ) from error
        tried = outcome.tried // 2
        failed = [number for number in outcome.failed if number < tried]
        outcome = Outcome(outcome.results[: tried - len(failed)], failed)


def _dumps(outcome: Outcome, buffers: list[pickle.PickleBuffer]) -> bytes:
    try:
        return pickle.dumps(outcome, 5, buffer_callback=buffers.append)
    except Exception:  # an object of the main module, which is not here
        import cloudpickle

        buffers.clear()
        data: bytes = cloudpickle.dumps(outcome, 5, buffer_callback=buffers.append)
        return data
