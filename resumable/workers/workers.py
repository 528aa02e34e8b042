"""The interface of all workers, and workers in threads of this process."""

# A map gives its workers chunks of items. For partitions, the function is a `PartitionServer`, and
# a chunk is one task. The code in a worker (chunk_work.py) never raises an error: the worker
# delivers the error with the results, and the map raises the error after handing out the results.
# So an error raised instead of an outcome comes from the workers themselves.

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any, final

from ..core.block import Block
from ..core.stage import Stage
from .answers import Job
from .chunk_work import Outcome, attempt
from .tally import SkipListener
from .threads import PATIENCE, Threads


@final
@dataclass(frozen=True)
class WorkerCall:
    """A function, and the workers to call the function.

    Attributes:
      fn: called with one item.
      drop: whether an item is dropped if its call raises.
      workers: number of threads or processes.
      executor: ``"thread"``, ``"process"``, or a running executor.
      skip_listener: called with the number of a dropped item, the error, and the item.
    """

    fn: Callable[[Any], Any]
    drop: bool
    workers: int
    executor: str | Executor
    skip_listener: SkipListener | None = None

    @property
    def tell(self) -> bool:
        """Whether errors of dropped items are sent back."""
        return self.skip_listener is not None


@final
class WorkersLost(Exception):
    """The workers are gone for good, or have given up submitted work.

    Attributes:
      reason: the error that revealed the loss.
    """

    def __init__(self, reason: BaseException) -> None:
        super().__init__(repr(reason))
        self.reason = reason


class Workers(ABC):
    """Workers of one running iterator at a time.

    The loop may be interrupted anywhere, so other threads make all calls that take locks.
    """

    chunk_size = 1
    """Number of items to submit at once."""

    die_together = False
    """Whether all work in progress is lost when a worker dies, not only the worker's own."""

    _threads: Threads
    """Do the work, or hand it to an executor; without threads, override `wait`, `stop` and `close`.
    """

    def begin_epoch(self) -> None:  # noqa: B027  # most have nothing to do
        """Work for another iterator; objects used by the function may have changed."""

    @abstractmethod
    def submit(self, block: Block) -> Job[Outcome]:
        """Let a worker `attempt` the items of ``block``."""

    def submit_alone(self, block: Block) -> Job[Outcome]:
        """Submit while this iterator has nothing in work, since a worker may die of ``block``."""
        return self.submit(block)

    def wait(self, answer: Job[Outcome], at: Callable[[], str]) -> None:
        """Wait until ``answer`` is given.

        Args:
          answer: returned by `submit`.
          at: returns the waiting stage and item, for a warning.
        """
        self._threads.wait(answer)

    def outcome(self, answer: Job[Outcome], at: Callable[[], str]) -> Outcome:
        """Wait for the outcome of submitted work; arguments as for `wait`.

        Raises:
          BrokenExecutor: if a worker died over the work, and another worker can try again.
          WorkersLost: if no worker can.
        """
        self.wait(answer, at)
        return answer.result()

    def stop(self) -> None:
        """Let workers started here end, without waiting."""
        self._threads.stop()

    def close(self, seconds: float = PATIENCE) -> bool:
        """End workers started here; returns whether all have ended within ``seconds``.

        May be called again.
        """
        return self._threads.close(seconds)


def close_all(workers: Collection[Workers]) -> bool:
    """End all of ``workers`` at once; returns whether all have ended within `PATIENCE`."""
    for each in workers:
        each.stop()
    ends = monotonic() + PATIENCE
    return all([each.close(ends - monotonic()) for each in workers])


def warn_still_busy(stage: Stage[Any], until: str) -> None:
    """Warn that workers of ``stage`` have not ended within `PATIENCE`, and end at ``until``."""
    message = f"workers of {stage!r} are still busy after {PATIENCE:g} s; they end when {until}"
    warnings.warn(message, RuntimeWarning, stacklevel=4)


class ThreadWorkers(Workers):
    """Threads of this process."""

    def __init__(self, call: WorkerCall) -> None:
        self._call = call
        self._threads = Threads(call.workers, "resumable-map")

    def submit(self, block: Block) -> Job[Outcome]:
        job = Job(partial(attempt, self._call.fn, block, self._call.drop))
        self._threads.submit(job)
        return job
