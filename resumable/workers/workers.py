"""What workers do and what all workers can be asked for; the workers that are threads of this process."""

# A map gives its workers chunks of items. Where they run partitions, the function is a `PartitionRunner`, and a
# chunk is one task. In a thread, all that runs in a worker is `attempt`; in a process, `worker_process.work`
# calls it for a part of the chunk at a time. `attempt` never raises an error: it delivers it with the results, and the
# map raises it once it has handed the results out. So whatever is raised in place of an outcome comes from the workers
# themselves.

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from functools import partial
from time import monotonic
from typing import Any, NamedTuple, final

from ..core.block import Block, block_items
from .answers import Answer, Job
from .failure import Failure
from .threads import HEARTBEAT, PATIENCE, Threads


class Outcome(NamedTuple):
    """The results and errors of the first items of a chunk.

    Attributes:
      results: those of the items whose call returned, in order.
      failed: the error of each item that was dropped, by its index in the chunk, in order; None
        where errors are not reported.
      failure: the error of the item after these, if one ended them.
    """

    results: list[Any]
    failed: dict[int, Exception | None]
    failure: Failure | None = None

    @property
    def tried(self) -> int:
        """How many items of the chunk are done; any others have to be tried again."""
        return len(self.results) + len(self.failed)


def attempt(fn: Callable[[Any], Any], block: Block, drop: bool) -> Outcome:
    """Call ``fn`` with each item of ``block``, up to the first whose call raises.

    With ``drop``, an item that raises an `Exception` is dropped, and the next one follows. Any
    other error is delivered with the results before it.
    """
    items = block_items(block)
    outcome = Outcome([], {})
    rest = iter(items)
    while outcome.tried < len(items):
        try:
            outcome.results.extend(map(fn, rest))
            if outcome.tried < len(items):  # `extend` took it for the end of the items
                raise RuntimeError("a user function raised StopIteration")
        except BaseException as error:  # a `sys.exit` too comes after the results before it
            if drop and isinstance(error, Exception):
                # Without this frame: it refers to the outcome, which would be a cycle.
                inner = error.__traceback__ and error.__traceback__.tb_next
                outcome.failed[outcome.tried] = error.with_traceback(inner)
            else:
                return outcome._replace(failure=Failure(error))
    return outcome


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

    def begin_epoch(self) -> None:  # noqa: B027  # most have nothing to do
        """Work for another iterator; what the function refers to may have changed."""

    @abstractmethod
    def submit(self, block: Block) -> Answer[Any]:
        """Let a worker `attempt` the items of ``block``."""

    def submit_alone(self, block: Block) -> Answer[Any]:
        """The same where nothing else of this iterator is in work, and a worker may die of ``block``."""
        return self.submit(block)

    @abstractmethod
    def outcome(self, answer: Answer[Any], at: Callable[[], str]) -> Outcome:
        """Wait for the outcome of what was submitted; called once for each ``answer``.

        Args:
          answer: what `submit` returned.
          at: says which stage waits, and for which item, in a warning.

        Raises:
          BrokenExecutor: if a worker died over it, and another one can try it again.
          WorkersLost: if none can.
        """

    def wait(self, answer: Answer[Any], at: Callable[[], str]) -> None:
        """Wait until ``answer`` is given, without taking it; ``at`` as for `outcome`."""
        while not answer.wait(HEARTBEAT):
            pass

    @abstractmethod
    def abandon(self, answer: Answer[Any]) -> None:
        """Give up the outcome of what was submitted."""

    @abstractmethod
    def stop(self) -> None:
        """Let what was started here end, without waiting for it."""

    @abstractmethod
    def close(self, seconds: float = PATIENCE) -> bool:
        """End what was started here; returns whether it has ended within ``seconds``.

        May be called again.
        """


def close_all(workers: Collection[Workers]) -> bool:
    """End all of ``workers`` at once; returns whether they have ended within `PATIENCE`."""
    for each in workers:
        each.stop()
    ends = monotonic() + PATIENCE
    return all([each.close(ends - monotonic()) for each in workers])


class ThreadWorkers(Workers):
    """Threads of this process."""

    def __init__(self, fn: Callable[[Any], Any], drop: bool, count: int) -> None:
        self._fn = fn
        self._drop = drop
        self._threads = Threads(count, "resumable-map")

    def submit(self, block: Block) -> Job[Outcome]:
        job = Job(partial(attempt, self._fn, block, self._drop))
        self._threads.submit(job)
        return job

    def outcome(self, answer: Answer[Any], at: Callable[[], str]) -> Outcome:
        found: Outcome = self._threads.wait_for(answer)
        return found

    def abandon(self, answer: Answer[Any]) -> None:
        assert isinstance(answer, Job)
        answer.cancel()

    def stop(self) -> None:
        self._threads.stop()

    def close(self, seconds: float = PATIENCE) -> bool:
        return self._threads.close(seconds)
