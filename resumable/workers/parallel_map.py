"""Map on several workers, in order, through a bounded window of chunks."""

# The consumer's thread reads upstream and submits; workers run nothing but the function. So
# upstream's position is known exactly, and nothing runs while no item is asked for but the
# calls in the window. Where upstream is looked up by index, the state of any item in the
# window is a matter of counting back; of a stream, the state after each item is kept.

from __future__ import annotations

from collections import deque
from concurrent.futures import BrokenExecutor, CancelledError, Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from ..core.block import Block, block_length, slice_block
from ..core.home_process import HomeProcess
from ..core.transform import Transform, TransformIterator
from ..errors import WorkerError
from ..state.value import State, TakenState, copy_taken, take_state, unpack, unpack_count
from .executors import Outcome, Workers
from .hiring import Calls, hired

T = TypeVar("T")

CHUNKS_PER_WORKER = 2


class _Position(NamedTuple):
    """Where upstream stands, and in which epoch."""

    state: TakenState
    epoch: int


@dataclass
class _Chunk:
    """Items that workers are at, or have done.

    Attributes:
      positions: of a stream, upstream's position after each item.
      outcome: once it has been waited for.
      passed: how many of the items were handed out or dropped.
    """

    block: Block
    future: Future[Any]
    positions: list[_Position] = field(default_factory=list)
    outcome: Outcome | None = None
    passed: int = 0


class ParallelMapIterator(TransformIterator[T]):
    """Motion of a map with workers; its state is that of the same map without them."""

    def __init__(self, stage: Transform[T], epoch: int, calls: Calls) -> None:
        super().__init__(stage, epoch)
        self._calls = calls
        self._dropped = 0
        self._window: deque[_Chunk] = deque()
        self._window_size = CHUNKS_PER_WORKER * calls.workers
        self._process = HomeProcess()
        self._failure: Exception | None = None  # of upstream, to come after the window
        self._workers: Workers | None = None
        # How many items were read from upstream and not handed out.
        self._in_work = 0
        # Upstream's position after the last item handed out, once workers run; of one that is
        # looked up by index, where they began.
        self._handed_out: _Position | None = None
        # Upstream's position once it has ended; it is not asked again, which may move it.
        self._end: _Position | None = None

    def pull(self, count: int) -> Block:
        if not self._process.is_this_one():
            raise WorkerError(
                f"the workers of {self._stage!r} stayed in the process that was forked; iterate "
                "the pipeline in this one"
            )
        results: list[T] = []
        while len(results) < count and self._fill():
            chunk = self._window[0]
            if chunk.outcome is None:
                chunk.outcome = self._outcome(chunk)
            results += self._hand_out(chunk, chunk.outcome, count - len(results))
            if chunk.passed == block_length(chunk.block):
                self._window.popleft()
            elif chunk.passed == chunk.outcome.tried:
                self._try_again(chunk)
        return results

    def get_state(self) -> State:
        found = self._upstream.state_at(-self._in_work)
        if found is not None:
            before, _ = found
        else:
            taken = self._handed_out
            before = self._upstream.get_state() if taken is None else copy_taken(taken.state)
        if self._calls.drop:
            return {"skipped": self._dropped, "upstream": before}
        return {"upstream": before}

    def set_state(self, state: State) -> None:
        if self._calls.drop:
            upstream, skipped = unpack(self._stage, state, "upstream", "skipped")
            self._dropped = unpack_count(self._stage, "skipped", skipped)
        else:
            (upstream,) = unpack(self._stage, state, "upstream")
        self._upstream.set_state(upstream)

    @property
    def epoch(self) -> int:
        return self._upstream.epoch if self._handed_out is None else self._handed_out.epoch

    def close(self) -> None:
        if not self._process.is_this_one():
            return  # neither the workers nor their locks are ours after a fork
        if self._workers is not None:
            self._workers.close()
        for chunk in self._window:  # not before: a pool of processes cannot end with them cancelled
            chunk.future.cancel()
        super().close()

    def _fill(self) -> bool:
        """Top the window up; whether a result is to come."""
        if self._workers is None:
            self._workers = hired(self._calls, self._window_size)
            self._handed_out = self._position()
        while self._end is None and self._failure is None and len(self._window) < self._window_size:
            count = self._workers.chunk
            block, positions = self._read(count)
            if block_length(block) < count and self._failure is None:
                self._end = self._position()
            if block_length(block):
                self._window.append(_Chunk(block, self._submit(block), positions))
        if self._end is not None and not self._window:
            self._handed_out = self._end
            self._workers.close()
        if self._failure is not None and not self._window:
            raise self._failure
        return bool(self._window)

    def _read(self, count: int) -> tuple[Block, list[_Position]]:
        """Up to ``count`` items of upstream, and of a stream the position after each.

        An error is kept for when the items before it are handed out. Upstream may have lost the
        item that it failed on, so it is not asked again.
        """
        before = self._upstream.state_at(0)
        if before is not None:
            try:
                block = self._upstream.pull(count)
            except Exception:
                self._upstream.set_state(before[0])  # and item by item, as far as it goes
            else:
                self._in_work += block_length(block)
                return block, []
        items: list[Any] = []
        positions = []
        while len(items) < count:
            before = self._upstream.state_at(0)
            try:
                items.append(next(self._upstream))
            except StopIteration:
                break
            except Exception as error:
                if before is not None:
                    self._upstream.set_state(before[0])  # where `state_at` counts from
                self._failure = error
                break
            if before is None:
                positions.append(self._position())
        self._in_work += len(items)
        return items, positions

    def _position(self) -> _Position:
        return _Position(take_state(self._upstream.get_state), self._upstream.epoch)

    def _hand_out(self, chunk: _Chunk, outcome: Outcome, count: int) -> list[T]:
        """Up to ``count`` results, past those dropped before the last of them."""
        start = chunk.passed - sum(number < chunk.passed for number in outcome.failed)
        results: list[T] = outcome.results[start : start + count]
        dropped = 0
        stop = chunk.passed + len(results)
        for number in outcome.failed:
            if chunk.passed <= number < stop or (number == stop and len(results) < count):
                dropped += 1
                stop += 1
        self._dropped += dropped
        self._in_work -= stop - chunk.passed
        chunk.passed = stop
        if chunk.positions and stop:
            self._handed_out = chunk.positions[stop - 1]
        return results

    def _try_again(self, chunk: _Chunk) -> None:
        """Submit the rest of a chunk, whose first item could not be done before."""
        rest = slice_block(chunk.block, chunk.passed, block_length(chunk.block))
        self._window[0] = _Chunk(rest, self._submit(rest), chunk.positions[chunk.passed :])

    def _submit(self, block: Block) -> Future[Any]:
        assert self._workers is not None
        try:
            return self._workers.submit(block)
        except BrokenExecutor as error:
            raise self._died(error) from error

    def _outcome(self, chunk: _Chunk) -> Outcome:
        assert self._workers is not None
        try:
            return self._workers.outcome(chunk.future)
        except (BrokenExecutor, CancelledError) as error:
            raise self._died(error) from error

    def _died(self, error: BaseException) -> WorkerError:
        return WorkerError(
            f"a worker of {self._stage!r} died before it delivered its result: {error!r}"
        )
