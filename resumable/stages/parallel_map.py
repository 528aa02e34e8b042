"""Map on several workers, in order, through a bounded window of futures."""

# The consumer's thread reads upstream and submits; workers run nothing but the function. So
# upstream's position is known exactly beside each future, and nothing runs while no item is
# asked for but the calls in the window.

from __future__ import annotations

import os
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from ..block import Block
from ..errors import WorkerError
from ..stage import TransformIterator
from ..state import State, TakenState, settled, unpack, unpack_count

if TYPE_CHECKING:
    from .map import Map

__all__ = ["ParallelMapIterator"]

T = TypeVar("T")

ITEMS_PER_WORKER = 2


class ParallelMapIterator(TransformIterator[T]):
    """Motion of a `Map` with workers; its state is that of the same map without them."""

    _stage: Map[T]

    def __init__(self, stage: Map[T], epoch: int) -> None:
        super().__init__(stage, epoch)
        self._skipped = 0
        self._window: deque[tuple[Future[T], TakenState]] = deque()
        self._window_size = ITEMS_PER_WORKER * stage.workers
        self._process = os.getpid()
        self._failure: Exception | None = None  # of upstream, to come after the window
        self._executor: Executor | None = None
        self._finish: Callable[[], object] = lambda: None
        # Upstream's state after the last item handed out; None while nothing runs ahead.
        self._handed_out: TakenState | None = None

    def pull(self, count: int) -> Block:
        results: list[T] = []
        skips = self._stage.on_error == "skip"
        if self._process != os.getpid():
            raise WorkerError(
                f"the workers of {self._stage!r} stayed in the process that was forked; iterate "
                "the pipeline in this one"
            )
        while len(results) < count and self._fill():
            future, after = self._window[0]
            try:
                result = future.result()
            except (BrokenExecutor, CancelledError) as error:
                raise self._died(error) from error
            except Exception:
                if not skips:
                    raise
                self._skipped += 1
            else:
                results.append(result)
            self._window.popleft()
            self._handed_out = after
        return results

    def get_state(self) -> State:
        upstream = self._handed_out
        state: State = {
            "upstream": self._upstream.get_state() if upstream is None else settled(upstream)
        }
        if self._stage.on_error == "skip":
            state["skipped"] = self._skipped
        return state

    def set_state(self, state: State) -> None:
        if self._stage.on_error == "skip":
            upstream, skipped = unpack(self._stage, state, "upstream", "skipped")
            self._skipped = unpack_count(self._stage, "skipped", skipped)
        else:
            (upstream,) = unpack(self._stage, state, "upstream")
        self._upstream.set_state(upstream)

    def close(self) -> None:
        if self._process != os.getpid():
            return  # neither the workers nor their locks are ours after a fork
        self._finish()
        for future, _ in self._window:
            future.cancel()
        self._window.clear()
        super().close()

    def _fill(self) -> bool:
        """Top the window up; whether a result is to come."""
        if self._handed_out is None:
            self._handed_out = self._upstream.try_state()
        if self._failure is not None and not self._window:
            raise self._failure
        while self._failure is None and len(self._window) < self._window_size:
            try:
                item: Any = next(self._upstream)
            except StopIteration:
                if not self._window:
                    self._handed_out = self._upstream.try_state()
                break
            except Exception as error:
                if self._window:  # what came before it is handed out first
                    self._failure = error
                    break
                raise
            after = self._upstream.try_state()
            try:
                future = self._pool().submit(self._stage.fn, item)
            except BrokenExecutor as error:
                raise self._died(error) from error
            self._window.append((future, after))
        return bool(self._window)

    def _died(self, error: BaseException) -> WorkerError:
        return WorkerError(
            f"a worker of {self._stage!r} died before it delivered its result: {error!r}"
        )

    def _pool(self) -> Executor:
        if self._executor is None:
            if isinstance(self._stage.executor, Executor):
                self._executor = self._stage.executor
            else:
                self._executor = ThreadPoolExecutor(self._stage.workers, "resumable-map")
                # Also at garbage collection and at exit; close() waits, collection must not.
                finish = weakref.finalize(self, self._executor.shutdown, False, cancel_futures=True)
                self._finish = _joining(self._executor, finish)
        return self._executor


def _joining(executor: Executor, finish: Callable[[], object]) -> Callable[[], object]:
    def join() -> None:
        finish()
        executor.shutdown(wait=True, cancel_futures=True)

    return join
