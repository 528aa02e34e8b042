"""The code that runs in a worker process of a map, or of partitions."""

from __future__ import annotations

import os
import pickle
import threading
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from ..core.block import Block, block_length, slice_block
from ..errors import InvalidType, shorten
from .arena import SLOT_BYTES, Arena
from .failure import Failure, sendable, sendable_errors
from .workers import Outcome, attempt

LONGEST_SECONDS: Final = 0.1
SLICES: Final = 16
# Below this a pipe is as fast as shared memory.
WORTH_SHARING: Final = 1 << 15
HEARTBEAT: Final = 1.0


class ProcessSetup(NamedTuple):
    """What every process gets when it starts.

    Attributes:
      fn: the function, pickled. It is loaded with the first chunk, so that an error in loading is
        reported as any other, and does not end the process.
      drop: whether an item whose call raises is dropped.
      tell: whether its error is sent back.
      arena: memory for large results, if there is any.
      parent: the process id of the process that has the pool.
    """

    fn: bytes
    drop: bool
    tell: bool
    arena: Arena | None
    parent: int


class Reply(NamedTuple):
    """A pickled outcome, in its slot of the arena or in ``parts``."""

    parts: list[bytes] | None
    lengths: list[int]
    seconds: float


_setup: ProcessSetup
_fn: Callable[[Any], Any] | None = None
forked_by: int | None = None
"""The process id of the server that forked this process, if one did; it ends with the parent."""


def begin(setup: ProcessSetup) -> None:
    """Prepare a worker."""
    global _setup
    if hasattr(os, "setpgid"):
        os.setpgid(0, 0)  # signals to the group, such as Ctrl-C, are the parent's to handle
    _setup = setup
    parent = setup.parent if forked_by is None else forked_by
    threading.Thread(target=_exit_with, args=(parent,), daemon=True).start()


def ping() -> None:
    """Do nothing: the call shows that processes start and live."""


def _exit_with(parent: int) -> None:
    """End this process when ``parent`` is gone, however that ended."""
    while os.getppid() == parent:
        time.sleep(HEARTBEAT)
    os._exit(1)


def work(block: Block, slot: int | None) -> Reply:
    """Attempt a chunk; a large outcome goes into ``slot`` of the arena, if there is one."""
    global _fn
    import cloudpickle

    try:
        if _fn is None:
            _fn = pickle.loads(_setup.fn)
        began = time.perf_counter()
        outcome = _attempt_in_time(_fn, block, began + LONGEST_SECONDS)
    except BaseException as error:
        # An error that cannot be unpickled would break the pool.
        if (sent := sendable(error, cloudpickle.dumps)) is not error:
            raise sent from error
        raise
    failed = sendable_errors(outcome.failed, _setup.tell, cloudpickle.dumps)
    outcome = outcome._replace(failed=failed)
    seconds = time.perf_counter() - began
    parts = _pickled_outcome(outcome)
    lengths = [len(part) for part in parts]
    arena = _setup.arena
    if arena is not None and slot is not None and WORTH_SHARING <= sum(lengths) <= SLOT_BYTES:
        arena.write(slot, parts)
        return Reply(None, lengths, seconds)
    return Reply([bytes(part) for part in parts], lengths, seconds)


def _attempt_in_time(fn: Callable[[Any], Any], block: Block, ends: float) -> Outcome:
    """Attempt a chunk, or its first items until the time ``ends``, but at least one of them."""
    length = block_length(block)
    step = max(length // SLICES, 1)
    done = Outcome([], {})
    while done.tried < length and (not done.tried or time.perf_counter() < ends):
        start, stop = done.tried, min(done.tried + step, length)
        try:
            part = attempt(fn, slice_block(block, start, stop), _setup.drop)
        except BaseException as error:
            if start:
                return done._replace(failure=Failure(error))
            raise
        done.results.extend(part.results)
        done.failed.update((start + number, error) for number, error in part.failed.items())
        if part.failure is not None:
            return done._replace(failure=part.failure)
    return done


def _pickled_outcome(outcome: Outcome) -> list[Any]:
    """``outcome`` as bytes, without copying large buffers.

    If something in it cannot be pickled, only its beginning: what comes before is delivered first.
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
        failed = {number: error for number, error in outcome.failed.items() if number < tried}
        outcome = Outcome(outcome.results[: tried - len(failed)], failed)


def _dumps(outcome: Outcome, buffers: list[pickle.PickleBuffer]) -> bytes:
    try:
        return pickle.dumps(outcome, 5, buffer_callback=buffers.append)
    except Exception:  # such as an object of the main module, which is not imported here
        import cloudpickle

        buffers.clear()
        data: bytes = cloudpickle.dumps(outcome, 5, buffer_callback=buffers.append)
        return data
