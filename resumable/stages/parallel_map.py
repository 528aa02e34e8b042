"""Map on several workers, in order, through a bounded window of futures."""

# The consumer's thread reads upstream and submits; workers run nothing but the function. So
# upstream's position is known exactly beside each future, and nothing runs while no item is
# asked for but the calls in the window.

from __future__ import annotations

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
        self._executor: Executor | None = None
        self._finish: Callable[[], object] = lambda: None
        # Upstream's state after the last item handed out; None while nothing runs ahead.
        self._handed_out: TakenState | None = None

    def pull(self, count: int) -> Block:
        results: list[T] = []
        skips = self._stage.on_error == "skip"
        while len(results) < count and self._fill():
            future, after = self._window[0]
            try:
                result = future.result()
            except (BrokenExecutor, CancelledError) as error:
                raise WorkerError(
                    f"a worker of {self._stage!r} died before it delivered its result: {error!r}"
                ) from error
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
        self._finish()
        for future, _ in self._window:
            future.cancel()
        self._window.clear()
        super().close()

    def _fill(self) -> bool:
        """Top the window up; whether a result is to come."""
        if self._handed_out is None:
            self._handed_out = self._upstream.try_state()
        while len(self._window) < self._window_size:
            try:
                item: Any = next(self._upstream)
            except StopIteration:
                if not self._window:
                    self._handed_out = self._upstream.try_state()
                break
            after = self._upstream.try_state()
            self._window.append((self._pool().submit(self._stage.fn, item), after))
        return bool(self._window)

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
