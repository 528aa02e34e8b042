"""Map on several workers, in order, through a bounded window of chunks."""

# The consumer's thread reads the upstream and submits chunks; workers only call the function. So
# the position of the upstream is known exactly, and between two items nothing runs but the calls in
# the window. If the upstream is looked up by index, the state at any item in the window is computed
# by counting back. If the upstream is a stream, the state after each item is kept.
#
# When a worker dies, the chunks in work are tried again at once: the cause may lie outside. After a
# second death a chunk is tried item by item, with nothing else in work. So each further death
# belongs to one item, and the earlier items are handed out.

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor
from functools import partial
from itertools import chain
from operator import length_hint
from typing import Any, Final, NoReturn, TypeVar

from ..core.block import Block, block_length
from ..core.failed_item import note_item
from ..core.home_process import HomeProcess
from ..core.lookup import looked_up_for
from ..core.skipped import CountsSkipped
from ..core.source_item import SourceItem
from ..core.stage import Stage
from ..core.stage_iterator import Items, state_deferrer
from ..core.transform import Transform, TransformIterator
from ..errors import WorkerError
from ..state.value import State
from .after_item import AfterItem
from .chunk import Chunk
from .chunk_work import Outcome
from .failure import Failure
from .idle_workers import NEW_WORKERS, WorkerSource
from .tally import Tally
from .worker_deaths import DROPPING_MAP, RAISING_MAP, Deaths, death_error, lost_error
from .workers import WorkerCall, Workers, WorkersLost, warn_still_busy

T = TypeVar("T")

CHUNKS_PER_WORKER: Final = 2
REST_SECONDS: Final = 0.1
"""Seconds that an epoch ending early waits for calls in work, to keep its workers for the next."""


class ParallelMapIterator(TransformIterator[T], CountsSkipped[T]):
    """Motion of a map with workers; the state is the state of the same map without workers."""

    def __init__(
        self, stage: Transform[T], epoch: int, calls: WorkerCall, reads: Stage[Any] | None = None
    ) -> None:
        super().__init__(stage, epoch, reads)
        # The iterator looked up by index with one item for each item of the upstream; None if none.
        self._looked_up = looked_up_for(self._upstream)
        self._calls = calls
        self._tally = Tally(calls.skip_listener, by_index=stage.upstream.random_access)
        self._no_deaths = Deaths(DROPPING_MAP if calls.drop else RAISING_MAP)
        self._window: deque[Chunk] = deque()
        self._waiting = False  # whether chunks may wait for submission
        self._window_size = CHUNKS_PER_WORKER * calls.workers
        self._process = HomeProcess()
        self._failure: Exception | None = None  # upstream's, raised after the window
        self._workers: Workers | None = None
        self._source: WorkerSource = NEW_WORKERS  # keeps the workers after this epoch
        self._arriving: Iterator[Any] | None = None
        # How many items were read from upstream and not handed out.
        self._in_work = 0
        # The results of the first chunk while `items` hands them out. Results taken from this
        # iterator count as handed out; `_settle` passes them.
        self._run: Iterator[T] | None = None
        # Position of the upstream after the last item handed out, once workers run. Outdated if the
        # upstream is looked up by index: `state_at` then gives the state, and `_looked_up` the
        # epoch.
        self._handed_out: AfterItem | None = None
        # Final position of the upstream. The upstream is not pulled again: a pull may move it.
        self._end: AfterItem | None = None

    def pull(self, count: int) -> Block:
        self._settle()
        results: list[T] = []
        while len(results) < count and self._fill():
            chunk = self._window[0]
            if (outcome := self._wait_for_outcome(chunk)) is not None:
                results += self._hand_out(chunk, outcome, count - len(results))
                self._retire(chunk)
        return results

    def items(self) -> Items[T]:
        if self._calls.drop:
            return super().items()
        return Items(chain.from_iterable(self._runs()))

    def skip(self, count: int) -> int:
        if self._calls.drop:
            return super().skip(count)  # only calls reveal dropped items
        self._settle()
        missing = count
        while missing and self._window:
            missing -= self._advance_over(missing)
        return count - missing + (self._skip_upstream(missing) if missing else 0)

    def get_state(self) -> State:
        found = self._upstream.state_at(self._taken - self._in_work)
        if found is not None:
            before, _ = found
        else:
            taken = self._last_position
            before = self._upstream.get_state() if taken is None else taken.state()
        return self._tally.get_state(before) if self._calls.drop else {"upstream": before}

    def set_state(self, state: State) -> None:
        unpack = self._tally.set_state if self._calls.drop else self._tally.set_plain_state
        unpack(self._stage, state, self._upstream)

    def _use_workers_of(self, source: WorkerSource) -> WorkerSource:
        self._source = source
        return source

    def origin(self, back: int) -> SourceItem | None:
        if self._calls.drop:
            return None
        return self._upstream.origin(self._in_work - self._taken + back)

    @property
    def skipped(self) -> int | None:
        return self._tally.skipped if self._calls.drop else None

    @property
    def epoch(self) -> int:
        if (looked_up := self._looked_up) is not None:
            place = looked_up.position + self._taken - self._in_work
            return looked_up.epoch_at(place - 1) if place else looked_up.first_epoch
        last = self._last_position
        return self._upstream.epoch if last is None else last.epoch

    def close(self) -> None:
        if not self._process.is_this_one():
            return  # after a fork, the workers and their locks are the parent's
        self._release_workers()
        super().close()

    def _runs(self) -> Iterator[Iterator[T]]:
        """The results of each chunk; `chain` walks them without Python work for each item."""
        self._settle()
        while self._fill():
            chunk = self._window[0]
            if (outcome := self._wait_for_outcome(chunk)) is None:
                continue
            self._run = iter(outcome.results[chunk.passed :])
            yield self._run
            self._settle()

    @property
    def _taken(self) -> int:
        """How many results of the first chunk were taken and not passed."""
        if self._run is None:
            return 0
        chunk = self._window[0]
        assert chunk.outcome is not None
        return len(chunk.outcome.results) - length_hint(self._run) - chunk.passed

    @property
    def _last_position(self) -> AfterItem | None:
        """Position of the upstream after the last item handed out, if known."""
        if self._taken and (positions := self._window[0].positions):
            return positions[self._window[0].passed + self._taken - 1]
        return self._handed_out

    def _settle(self) -> None:
        """Pass the results handed out by `items`, in the process of the workers only."""
        self._process.check_workers_of(self._stage)
        if self._run is not None:
            chunk, taken = self._window[0], self._taken
            self._run = None
            self._tally.pass_over(taken)
            self._pass(chunk, chunk.passed + taken)
            self._retire(chunk)

    def _release_workers(self) -> None:
        if self._workers is None:
            return
        if not self._source.closed and self._await_calls():
            workers, self._workers = self._workers, None  # now the next iterator's
            self._source.put(self._stage, workers)
        elif not self._workers.close():
            warn_still_busy(self._stage, "their calls return")

    def _await_calls(self) -> bool:
        """Wait a little for the calls in work; returns whether all ended."""
        ends = time.monotonic() + REST_SECONDS
        answers = [chunk.answer for chunk in self._window if chunk.answer is not None]
        return all(answer.wait(ends - time.monotonic()) for answer in answers)

    def _fill(self) -> bool:
        """Top up the window; returns whether a result is to come."""
        if self._workers is None and self._end is not None:
            return False
        if self._workers is None:
            self._workers = self._source.take(self._stage, self._calls, self._window_size)
            self._handed_out = self._position()
        if self._waiting and not self._submit_waiting():
            return True
        while self._end is None and self._failure is None and len(self._window) < self._window_size:
            count = self._workers.chunk_size
            block, positions = self._read(count)
            if block_length(block) < count and self._failure is None:
                self._end = self._position()
            if block_length(block):
                answer = self._workers.submit(block)
                self._window.append(Chunk(block, positions, self._no_deaths, answer))
        if self._end is not None and not self._window:
            self._handed_out = self._end
            self._release_workers()
        if self._failure is not None and not self._window:
            raise self._failure
        return bool(self._window)

    def _read(self, count: int) -> tuple[Block, list[AfterItem]]:
        """Up to ``count`` items of the upstream, and the position after each item of a stream.

        An error is kept until the earlier items are handed out. Then the upstream is not pulled
        again, since it may have lost the failed item.
        """
        before, in_a_block = self._upstream.state_at(0), None
        if before is not None:
            try:
                block = self._upstream.pull(count)
            except Exception as raised:
                in_a_block = raised
                self._upstream.set_state(before[0])  # then item by item, up to the error
            else:
                self._in_work += block_length(block)
                return block, []
        items: list[Any] = []
        positions = []
        while len(items) < count:
            before = self._upstream.state_at(0)
            try:
                items.append(next(self._upstream if before is not None else self._stream()))
            except StopIteration:
                break
            except Exception as error:
                if before is not None:
                    self._upstream.set_state(before[0])  # `state_at` counts from this state
                self._failure = error
                break
            if before is None:
                positions.append(self._position())
        if in_a_block is not None and self._failure is None:
            raise in_a_block  # not raised again, so from a signal handler
        self._in_work += len(items)
        return items, positions

    def _stream(self) -> Iterator[Any]:
        """The items of an upstream without lookup by index."""
        if self._arriving is None:
            self._arriving = iter(self._upstream.items())
        return self._arriving

    def _position(self) -> AfterItem:
        return AfterItem(state_deferrer(self._upstream)(), self._upstream.epoch)

    def _hand_out(self, chunk: Chunk, outcome: Outcome, count: int) -> list[T]:
        """Pass up to ``count`` results and the dropped items in between; returns the results."""
        start = chunk.passed - sum(number < chunk.passed for number in outcome.failed)
        results: list[T] = outcome.results[start : start + count]
        at, stop = chunk.passed, chunk.passed + len(results)
        for number, error in outcome.failed.items():
            if at <= number < stop or (number == stop and len(results) < count):
                self._tally.pass_over(number - at)
                origin = partial(self._upstream.origin, self._in_work - (number - chunk.passed))
                self._tally.drop(error, origin, partial(chunk.item, number))
                at, stop = number + 1, stop + 1
        self._tally.pass_over(stop - at)
        self._pass(chunk, stop)
        return results

    def _pass(self, chunk: Chunk, stop: int) -> None:
        """Count the items of ``chunk`` before ``stop`` as passed."""
        self._in_work -= stop - chunk.passed
        chunk.passed = stop
        if chunk.positions and stop:
            self._handed_out = chunk.positions[stop - 1]

    def _retire(self, chunk: Chunk) -> None:
        """Remove the first chunk if fully passed, or keep only the items to be tried again."""
        if not chunk.left:
            self._window.popleft()
        elif chunk.outcome is None or chunk.passed >= chunk.outcome.tried:
            rest = self._window[0] = chunk.rest()
            self._waiting = True
            if chunk.outcome is not None and chunk.passed == chunk.outcome.tried:
                rest.failure = chunk.outcome.failure

    def _advance_over(self, count: int) -> int:
        """Pass up to ``count`` items of the first chunk without waiting for the chunk."""
        chunk = self._window[0]
        count = min(count, chunk.left)
        self._tally.pass_over(count)
        self._pass(chunk, chunk.passed + count)
        self._retire(chunk)
        if chunk.outcome is None:
            self._requeue(chunk)
        return count

    def _skip_upstream(self, count: int) -> int:
        if self._failure is not None:
            if self._upstream.state_at(0) is None:
                raise self._failure
            self._failure = None  # upstream is at the failed item
        if self._end is not None:
            return 0
        self._arriving = None  # `skip` moves upstream, so this is not valid any more
        passed = self._upstream.skip(count)
        self._tally.pass_over(passed)
        if self._handed_out is not None:
            self._handed_out = self._position()
        if passed < count:
            self._end = self._position()
        return passed

    def _submit_waiting(self) -> bool:
        """Submit the waiting chunks; returns whether other chunks may be in work too."""
        assert self._workers is not None
        for chunk in list(self._window):
            if chunk.failure is not None:
                return False  # raised before anything is tried again
            if chunk.deaths.go_alone:
                if chunk is self._window[0]:
                    self._submit_alone(chunk)
                return False
            if chunk.answer is None:
                chunk.answer = self._workers.submit(chunk.block)
        self._waiting = False
        return True

    def _submit_alone(self, chunk: Chunk) -> None:
        """Submit the first item of ``chunk``, the first chunk in the window."""
        assert self._workers is not None
        if chunk.answer is None and chunk.left > 1:
            self._window[0] = chunk.part(1, chunk.left)
            chunk = chunk.part(0, 1)
            self._window.appendleft(chunk)
        if chunk.answer is None:
            for other in self._window:
                if other.answer is not None:
                    self._workers.wait(other.answer, self._at)
            chunk.answer = self._workers.submit_alone(chunk.block)

    def _requeue(self, chunk: Chunk) -> None:
        """Give up the answer to ``chunk``, so the chunk is submitted again."""
        if chunk.answer is not None:
            chunk.answer.cancel()
            chunk.answer = None
            self._waiting = True

    def _wait_for_outcome(self, chunk: Chunk) -> Outcome | None:
        """The outcome of the first chunk, awaited once; None if the chunk must be tried again."""
        if chunk.outcome is None:
            chunk.outcome = self._receive_outcome(chunk)
        return chunk.outcome

    def _receive_outcome(self, chunk: Chunk) -> Outcome | None:
        """Wait for the outcome of the first chunk; None if the chunk must be tried again."""
        assert self._workers is not None
        if chunk.failure is not None:
            failure, chunk.failure = chunk.failure, None
            self._raise(failure, chunk)
        assert chunk.answer is not None
        try:
            return self._workers.outcome(chunk.answer, self._at)
        except BrokenExecutor as error:
            return self._after_death(chunk, error)
        except WorkersLost as lost:
            self._requeue(chunk)
            is_silent = isinstance(lost.reason, TimeoutError)
            work = self._work() if is_silent else self._tally.described_number()
            raise lost_error(self._stage, work, lost) from lost.reason
        except Exception as error:
            if chunk.answer.error is not error:
                raise  # raised by a signal handler
            if chunk.left > 1 and not isinstance(error, WorkerError):
                # One of the items prevented the arrival of the chunk or of its outcome.
                self._requeue(chunk)
                chunk.deaths = chunk.deaths.suspected()
                return None
            self._raise(Failure(error), chunk)

    def _at(self) -> str:
        return f"{self._stage!r}, at {self._work()}"

    def _work(self) -> str:
        """The first item not handed out, and the number of further items sent in the same chunk."""
        number, others = self._tally.described_number(), self._window[0].left - 1
        return f"{number}, or one of the {others} after it" if others else number

    def _raise(self, failure: Failure, chunk: Chunk) -> NoReturn:
        """Raise the error of the first item of ``chunk``, the first chunk in the window."""
        try:
            failure.throw()
        except Exception as error:
            number, origin = self._tally.known_number, self._upstream.origin(self._in_work)
            note_item(error, self._stage, number, origin, chunk.item(0))
            raise

    def _after_death(self, chunk: Chunk, error: BrokenExecutor) -> Outcome | None:
        """The outcome of the first chunk after a worker's death; None if work is tried again."""
        assert self._workers is not None
        if not chunk.deaths.go_alone:
            for other in self._window if self._workers.die_together else [chunk]:
                if other.answer is None or not other.answer.succeeded:
                    self._requeue(other)
                    other.deaths = other.deaths.and_one(alone=False)
            return None
        deaths = chunk.deaths = chunk.deaths.and_one(alone=True)
        work = f"{self._tally.described_number()}, the last time with nothing else in work"
        died = death_error(self._stage, work, error, deaths.count)
        if deaths.too_many and not self._calls.drop:
            raise died from error
        self._requeue(chunk)
        if not deaths.too_many:
            return None
        for other in self._window:
            other.deaths = self._no_deaths  # this item caused the deaths
        return Outcome([], {0: died})
