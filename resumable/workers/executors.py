"""What calls the function of a map: threads, processes, or somebody else's executor."""

# A map hands its workers chunks of items. `attempt` is all that runs in a worker. It never tells
# of an error beside results: what a worker did before an item failed is delivered first, and
# the item is tried again when its turn comes, alone and so with an error of its own.

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, NamedTuple

from ..core.block import Block, block_items


class Outcome(NamedTuple):
    """What became of the first items of a chunk.

    Attributes:
      results: of the items whose call returned, in order.
      failed: indices of the items, counted in the chunk, that were dropped.
    """

    results: list[Any]
    failed: list[int]

    @property
    def tried(self) -> int:
        """How many items of the chunk were tried; the call for the next one raised."""
        return len(self.results) + len(self.failed)


def attempt(fn: Callable[[Any], Any], block: Block, drop: bool) -> Outcome:
    """Call ``fn`` with each item of ``block``, up to the first whose call raises.

    With ``drop``, such an item is dropped. Otherwise the error is raised if it is the first.
    """
    items = block_items(block)
    outcome = Outcome([], [])
    rest = iter(items)
    while outcome.tried < len(items):
        try:
            outcome.results.extend(map(fn, rest))
            if outcome.tried < len(items):  # `map` takes it for the end of its items
                raise RuntimeError("a user function raised StopIteration")
        except BaseException as error:  # a `sys.exit` too comes after what was done before it
            if drop and isinstance(error, Exception):
                outcome.failed.append(outcome.tried)
            elif outcome.tried:
                break
            else:
                raise
    return outcome


class Workers(ABC):
    """Workers that belong to one running iterator."""

    chunk = 1
    """How many items are best submitted at once."""

    @abstractmethod
    def submit(self, block: Block) -> Future[Any]:
        """Let a worker `attempt` the items of ``block``."""

    def outcome(self, future: Future[Any]) -> Outcome:
        """Wait for what was submitted, and return what became of it, once."""
        found: Outcome = future.result()
        return found

    @abstractmethod
    def close(self) -> None:
        """End what was started here; may be called again."""


class ExecutorWorkers(Workers):
    """An executor that is used, and left running."""

    def __init__(self, fn: Callable[[Any], Any], drop: bool, executor: Executor) -> None:
        self._fn = fn
        self._drop = drop
        self._executor = executor

    def submit(self, block: Block) -> Future[Any]:
        return self._executor.submit(attempt, self._fn, block, self._drop)

    def close(self) -> None:
        pass  # it is somebody else's


class ThreadWorkers(ExecutorWorkers):
    """Threads of its own."""

    def __init__(self, fn: Callable[[Any], Any], drop: bool, count: int) -> None:
        executor = ThreadPoolExecutor(count, "resumable-map")
        super().__init__(fn, drop, executor)
        # Also at garbage collection. close() waits, collection must not; the interpreter's exit
        # waits for the calls in the window.
        self._finish = weakref.finalize(self, executor.shutdown, False, cancel_futures=True)

    def close(self) -> None:
        self._finish()
        self._executor.shutdown(wait=True, cancel_futures=True)
