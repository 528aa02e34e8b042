"""The work of a worker on a chunk of items, and the way of the outcome to the loop."""

# In a thread of the loop's process, a worker runs `attempt` only. Workers in other processes, our
# own (worker_process.py) and workers of a user's executor (foreign_executor.py), work on a chunk
# for a while and send a `PickledOutcome`.

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias, final

import numpy as np
import numpy.typing as npt

from ..core.block import Block, block_items, block_length, slice_block
from ..errors import InvalidType, shorten
from .failure import Failure, dumps, sendable_errors

LONGEST_SECONDS: Final = 0.1
SLICES: Final = 16

Bytes: TypeAlias = npt.NDArray[np.uint8]
"""Of shape (n,)."""


@final
@dataclass
class Outcome:
    """The results and errors of the first items of a chunk.

    Attributes:
      results: of the items with a successful call, in order.
      failed: the error of each dropped item, by index in the chunk, in order; None if errors are
        not reported.
      failure: the error of the next item, if an error ended the outcome.
      seconds: time of the worker, for items of an executor.
      size: approximate number of bytes, for items of an executor.
    """

    results: list[Any]
    failed: dict[int, Exception | None]
    failure: Failure | None = None
    seconds: float = 0.0
    size: int = 0

    @property
    def tried(self) -> int:
        """Number of finished items of the chunk; the remaining items must be tried again."""
        return len(self.results) + len(self.failed)


@final
@dataclass
class PickledOutcome:
    """An outcome from a worker in another process.

    Attributes:
      parts: the bytes of the pickle, and of the buffers of arrays: picklers of every executor move
        arrays without making copies; None if the bytes are in shared memory.
      lengths: number of bytes of each part.
      seconds: time of the worker.
    """

    parts: list[Bytes] | None
    lengths: list[int]
    seconds: float

    def open(self, shared: list[memoryview] | None = None) -> Outcome:
        """The outcome, with new memory for its arrays; ``shared`` are parts in shared memory."""
        parts: Any = shared if self.parts is None else [part.data for part in self.parts]
        found: Outcome = pickle.loads(parts[0], buffers=map(bytearray, parts[1:]))
        return replace(found, seconds=self.seconds, size=sum(self.lengths))


def attempt(fn: Callable[[Any], Any], block: Block, drop: bool) -> Outcome:
    """Call ``fn`` with each item of ``block``, up to the first error.

    With ``drop``, an item that raises an `Exception` is dropped, and the next item follows. Any
    other error is delivered with the earlier results.
    """
    items = block_items(block)
    outcome = Outcome([], {})
    rest = iter(items)
    while outcome.tried < len(items):
        try:
            outcome.results.extend(map(fn, rest))
            if outcome.tried < len(items):  # `extend` took the error for the end
                raise RuntimeError("a user function raised StopIteration")
        except BaseException as error:  # earlier results come before a `sys.exit` too
            if drop and isinstance(error, Exception):
                # Without this frame: the frame refers to the outcome, which would be a cycle.
                inner = error.__traceback__ and error.__traceback__.tb_next
                outcome.failed[outcome.tried] = error.with_traceback(inner)
            else:
                return replace(outcome, failure=Failure(error))
    return outcome


def attempt_in_time(fn: Callable[[Any], Any], block: Block, drop: bool) -> Outcome:
    """Attempt a chunk, or as many items as `LONGEST_SECONDS` allow, but at least one item."""
    began = time.perf_counter()
    ends = began + LONGEST_SECONDS
    length = block_length(block)
    step = max(length // SLICES, 1)
    done = Outcome([], {})
    while done.failure is None and done.tried < length:
        start, stop = done.tried, min(done.tried + step, length)
        part = attempt(fn, slice_block(block, start, stop), drop)
        done.results.extend(part.results)
        done.failed.update((start + number, error) for number, error in part.failed.items())
        done.failure = part.failure
        if time.perf_counter() >= ends:
            break
    done.seconds = time.perf_counter() - began
    return done


def attempt_and_pickle(
    fn: Callable[[Any], Any], block: Block, drop: bool, tell: bool
) -> PickledOutcome:
    """Attempt a chunk for another process; errors of dropped items are left out unless ``tell``."""
    began = time.perf_counter()
    outcome = attempt_in_time(fn, block, drop)
    outcome.failed = sendable_errors(outcome.failed, tell)
    parts = [np.frombuffer(part, np.uint8) for part in _pickled(outcome)]
    return PickledOutcome(parts, [len(part) for part in parts], time.perf_counter() - began)


def _pickled(outcome: Outcome) -> list[memoryview]:
    """``outcome`` as bytes, without copying large buffers.

    If an object cannot be pickled, only the beginning of the outcome: earlier results are delivered
    first.
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
