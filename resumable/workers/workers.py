"""What workers do and what all workers can be asked for; the workers that are threads of this process."""

# A map gives its workers chunks of items. Where they run partitions, the function is a `PartitionRunner`, and a
# chunk is one task. What runs in a worker (chunk_work.py) never raises an error: it delivers it with the results, and
# the map raises it once it has handed the results out. So whatever is raised instead of an outcome comes from the
# workers themselves.

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any, final

from ..core.block import Block
from .answers import Job
from .chunk_work import Outcome, attempt
from .tally import SkipListener
from .threads import PATIENCE, Threads


@final
@dataclass(frozen=True)
class WorkerCall:
    """A function, and the workers that are to call it.

    Attributes:
      fn: called with one item.
      drop: whether an item whose call raises is dropped.
      workers: number of threads or processes.
      executor: ``"thread"``, ``"process"``, or an executor that runs already.
      skip_listener: called with the number of an item that is dropped, its error, and itself.
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
    """The workers are gone for good, or have given up what was submitted.

    Attributes:
      reason: the error that showed it.
    """

    def __init__(self, reason: BaseException) -> None:
        super().__init__(repr(reason))
        self.reason = reason


class Workers(ABC):
    """Workers that belong to one running iterator at a time.

    Its loop may be interrupted anywhere, so other threads call whatever takes locks.
    """

    chunk_size = 1
    """How many items to submit at once."""

    die_together = False
    """Whether all that is in work is lost with a worker that dies, and not only what it had itself."""

    _threads: Threads
    """Do the work, or hand it to an executor; a subclass without them says itself how to wait, stop and close."""

    def begin_epoch(self) -> None:  # noqa: B027  # most have nothing to do
        """Work for another iterator; what the function refers to may have changed."""

    @abstractmethod
    def submit(self, block: Block) -> Job[Outcome]:
        """Let a worker `attempt` the items of ``block``."""

    def submit_alone(self, block: Block) -> Job[Outcome]:
        """The same where nothing else of this iterator is in work, and a worker may die of ``block``."""
        return self.submit(block)

    def wait(self, answer: Job[Outcome], at: Callable[[], str]) -> None:
        """Wait until ``answer`` is given.

        Args:
          answer: what `submit` returned.
          at: says which stage waits, and for which item, in a warning.
        """
        self._threads.wait(answer)

    def outcome(self, answer: Job[Outcome], at: Callable[[], str]) -> Outcome:
        """Wait for the outcome of what was submitted; arguments as for `wait`.

        Raises:
          BrokenExecutor: if a worker died over it, and another one can try it again.
          WorkersLost: if none can.
        """
        self.wait(answer, at)
        return answer.result()

    def stop(self) -> None:
        """Let what was started here end, without waiting for it."""
        self._threads.stop()

    def close(self, seconds: float = PATIENCE) -> bool:
        """End what was started here; returns whether it has ended within ``seconds``.

        May be called again.
        """
        return self._threads.close(seconds)


def close_all(workers: Collection[Workers]) -> bool:
    """End all of ``workers`` at once; returns whether they have ended within `PATIENCE`."""
    for each in workers:
        each.stop()
    ends = monotonic() + PATIENCE
    return all([each.close(ends - monotonic()) for each in workers])


class ThreadWorkers(Workers):
    """Threads of this process."""

    def __init__(self, call: WorkerCall) -> None:
        self._call = call
        self._threads = Threads(call.workers, "resumable-map")

    def submit(self, block: Block) -> Job[Outcome]:
        job = Job(partial(attempt, self._call.fn, block, self._call.drop))
        self._threads.submit(job)
        return job
