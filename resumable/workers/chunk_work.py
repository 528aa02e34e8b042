"""What a worker in another process does with a chunk: work on it for a while, and pack what came of it."""

# Both kinds of such workers do the same: our own processes (worker_process.py), and those of an executor that
# was passed in (foreign_executor.py). They differ in how the packed outcome travels.

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, Final, NamedTuple

from ..core.block import Block, block_length, slice_block
from ..errors import InvalidType, shorten
from .failure import Failure, sendable_errors
from .workers import Outcome, attempt

LONGEST_SECONDS: Final = 0.1
SLICES: Final = 16


class Packed(NamedTuple):
    """An outcome as bytes.

    Attributes:
      parts: those of its pickle, and of the buffers of its arrays.
      seconds: how long the items took.
    """

    parts: list[memoryview]
    seconds: float


def attempt_and_pack(fn: Callable[[Any], Any], block: Block, drop: bool, tell: bool) -> Packed:
    """Attempt a chunk, and pack its outcome; errors of dropped items are left out unless ``tell``."""
    began = time.perf_counter()
    outcome = attempt_in_time(fn, block, drop)
    outcome = outcome._replace(failed=sendable_errors(outcome.failed, tell, dumps))
    return Packed(_packed_outcome(outcome), time.perf_counter() - began)


def attempt_in_time(fn: Callable[[Any], Any], block: Block, drop: bool) -> Outcome:
    """Attempt a chunk, or as many of its items as `LONGEST_SECONDS` allow, but at least one."""
    ends = time.perf_counter() + LONGEST_SECONDS
    length = block_length(block)
    step = max(length // SLICES, 1)
    done = Outcome([], {})
    while done.tried < length and (not done.tried or time.perf_counter() < ends):
        start, stop = done.tried, min(done.tried + step, length)
        part = attempt(fn, slice_block(block, start, stop), drop)
        done.results.extend(part.results)
        done.failed.update((start + number, error) for number, error in part.failed.items())
        if part.failure is not None:
            return done._replace(failure=part.failure)
    return done


def unpacked_outcome(parts: list[Any]) -> Outcome:
    """The outcome in ``parts``; its arrays get memory of their own."""
    found: Outcome = pickle.loads(parts[0], buffers=map(bytearray, parts[1:]))
    return found


def dumps(value: Any, buffers: list[pickle.PickleBuffer] | None = None) -> bytes:
    """``value`` as bytes, by cloudpickle where pickle cannot; large buffers are put into ``buffers``."""
    keep = None if buffers is None else buffers.append
    try:
        return pickle.dumps(value, 5, buffer_callback=keep)
    except Exception:  # such as an object of the main module, which is not imported here
        if find_spec("cloudpickle") is None:
            raise
        import cloudpickle

        if buffers is not None:
            buffers.clear()
        data: bytes = cloudpickle.dumps(value, 5, buffer_callback=keep)
        return data


def _packed_outcome(outcome: Outcome) -> list[memoryview]:
    """``outcome`` as bytes, without copying large buffers.

    If something in it cannot be pickled, only its beginning: what comes before is delivered first.
    """
    while True:
        buffers: list[pickle.PickleBuffer] = []
        try:
            return [memoryview(dumps(outcome, buffers)), *(buffer.raw() for buffer in buffers)]
        except Exception as error:
            if outcome.tried <= 1:
                outcome = Outcome([], {}, Failure(_unpicklable(outcome, error)))
                continue
        tried = outcome.tried // 2
        failed = {number: error for number, error in outcome.failed.items() if number < tried}
        outcome = Outcome(outcome.results[: tried - len(failed)], failed)


def _unpicklable(outcome: Outcome, error: Exception) -> InvalidType:
    result = shorten(outcome.results[0])
    raised = InvalidType(f"results of fn must be picklable for processes, got {result} ({error})")
    raised.__cause__ = error
    return raised
