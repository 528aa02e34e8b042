"""What calls the function of a map: threads of its own, or workers elsewhere."""

# A map hands its workers chunks of items. `attempt` is all that runs in a worker. It never tells
# of an error beside results: what a worker did before an item failed is delivered first, and
# the item is tried again when its turn comes, alone and so with an error of its own.

from __future__ import annotations

import pickle
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from ..core.block import Block, block_items
from ..errors import WorkerError
from .threads import PATIENCE, Answer, Job, Threads


class Outcome(NamedTuple):
    """What became of the first items of a chunk.

    Attributes:
      results: of the items whose call returned, in order.
      failed: the error of each item that was dropped, by its index in the chunk, in order; None
        where nobody asks for it.
    """

    results: list[Any]
    failed: dict[int, Exception | None]

    @property
    def tried(self) -> int:
        """How many items of the chunk were tried; the call for the next one raised."""
        return len(self.results) + len(self.failed)


def attempt(fn: Callable[[Any], Any], block: Block, drop: bool) -> Outcome:
    """Call ``fn`` with each item of ``block``, up to the first whose call raises.

    With ``drop``, such an item is dropped. Otherwise the error is raised if it is the first.
    """
    items = block_items(block)
    outcome = Outcome([], {})
    rest = iter(items)
    while outcome.tried < len(items):
        try:
            outcome.results.extend(map(fn, rest))
            if outcome.tried < len(items):  # `map` takes it for the end of its items
                raise RuntimeError("a user function raised StopIteration")
        except BaseException as error:  # a `sys.exit` too comes after what was done before it
            if drop and isinstance(error, Exception):
                # Without this frame, which holds the outcome and so would hold itself.
                inner = error.__traceback__ and error.__traceback__.tb_next
                outcome.failed[outcome.tried] = error.with_traceback(inner)
            elif outcome.tried:
                break
            else:
                raise
    return outcome


def attempt_elsewhere(fn: Callable[[Any], Any], block: Block, drop: bool, tell: bool) -> Outcome:
    """`attempt`, with errors that can be pickled, or without them unless ``tell``."""
    outcome = attempt(fn, block, drop)
    return outcome._replace(failed=sendable_errors(outcome.failed, tell, pickle.dumps))


def sendable_errors(
    failed: dict[int, Exception | None], tell: bool, dumps: Callable[[Any], bytes]
) -> dict[int, Exception | None]:
    """``failed`` as it may be pickled by ``dumps``."""
    return {number: sendable(error, dumps) if tell else None for number, error in failed.items()}


def sendable(error: Any, dumps: Callable[[Any], bytes]) -> Any:
    """``error`` if it arrives when it is pickled, or else one that describes it."""
    try:
        pickle.loads(dumps(error))
    except Exception as reason:
        text = "".join(traceback.format_exception_only(error)).strip()
        return WorkerError(f"{text} (this exception cannot be pickled: {reason})")
    return error


class Workers(ABC):
    """Workers that belong to one running iterator at a time.

    Its loop may be interrupted anywhere: what has locks of its own is left to threads.
    """

    chunk = 1
    """How many items are best submitted at once."""

    replaces_dead = False
    """Whether there are new workers for what is submitted after one has died."""

    def begin_pass(self) -> None:  # noqa: B027  # most have nothing to do
        """Work for another iterator; what the function refers to may have changed since."""

    @abstractmethod
    def submit(self, block: Block) -> Answer[Any]:
        """Let a worker `attempt` the items of ``block``."""

    @abstractmethod
    def outcome(self, answer: Answer[Any]) -> Outcome:
        """Wait for what was submitted, and return what became of it, once.

        Raises:
          BrokenExecutor: if a worker died meanwhile.
        """

    @abstractmethod
    def abandon(self, answer: Answer[Any]) -> None:
        """Nobody wants the outcome of what was submitted."""

    @abstractmethod
    def close(self) -> bool:
        """End what was started here; whether it has ended. May be called again."""


class ThreadWorkers(Workers):
    """Threads of its own."""

    def __init__(self, fn: Callable[[Any], Any], drop: bool, count: int) -> None:
        self._fn = fn
        self._drop = drop
        self._threads = Threads(count, "resumable-map")

    def submit(self, block: Block) -> Job[Outcome]:
        job = Job(partial(attempt, self._fn, block, self._drop))
        self._threads.submit(job)
        return job

    def outcome(self, answer: Answer[Any]) -> Outcome:
        found: Outcome = self._threads.wait_for(answer)
        return found

    def abandon(self, answer: Answer[Any]) -> None:
        assert isinstance(answer, Job)
        answer.cancel()

    def close(self) -> bool:
        return self._threads.close(PATIENCE)
