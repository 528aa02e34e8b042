"""Workers of a user's executor, such as Dask's."""

# An executor may replace dead workers, as Dask and Ray do: then the future of the work in progress
# fails, and work submitted next is done. Or the executor stays broken, as a `ProcessPoolExecutor`
# does. Submitting the work again shows the difference.
#
# Most executors give each task to any free worker. A partition then starts again from its state
# whenever its next task comes to another process. An executor with a method `lane` avoids the
# restart: its workers can be addressed.

from __future__ import annotations

import os
import sys
import uuid
import warnings
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from dataclasses import dataclass
from functools import partial
from math import inf
from time import monotonic
from typing import Any, Final, Protocol, TypeAlias, final, runtime_checkable

from ..core.arguments import check_seconds
from ..core.block import Block
from ..errors import InvalidType, shorten
from .answers import Job
from .chunk_work import Outcome, PickledOutcome, attempt_and_pickle, attempt_in_time
from .executor_thread import ChunkJob, ExecutorService, ExecutorWorkers
from .items_ahead import approximate_bytes
from .threads import HEARTBEAT
from .workers import WorkerCall, WorkersLost

Process: TypeAlias = tuple[str, int]
"""Name of a process, unique among all machines, also after a fork."""

_IMPORTED: Final = uuid.uuid4().hex

SILENT_SECONDS: Final = 60.0
"""Seconds without an answer after which a loop warns, for an executor without a timeout."""


def this_process() -> Process:
    """The name of the calling process."""
    return _IMPORTED, os.getpid()


@final
@dataclass(eq=False)
class ForeignChunk:
    """A chunk on its way to a worker, equal to no other.

    Attributes:
      loop: the process that receives the outcome.
      fn: called with each item.
      block: the items.
      drop: whether an item is dropped if its call raises.
      tell: whether the error of a dropped item is sent back.
    """

    # Dask names work by the arguments, and answers work of the same name with the first result. So
    # a retry would return the old error, and a later epoch the old result of an impure function.

    loop: Process
    fn: Callable[[Any], Any]
    block: Block
    drop: bool
    tell: bool

    def __dask_tokenize__(self) -> str:
        """A new name each time."""
        return uuid.uuid4().hex


def work_on(chunk: ForeignChunk) -> Outcome | PickledOutcome:
    """Attempt ``chunk``; called by a worker."""
    if chunk.loop != this_process():
        return attempt_and_pickle(chunk.fn, chunk.block, chunk.drop, chunk.tell)
    outcome = attempt_in_time(chunk.fn, chunk.block, chunk.drop)
    outcome.size = approximate_bytes(outcome.results)
    return outcome


@final
class ForeignWorkers(ExecutorWorkers):
    """Workers of the user's executor, which is left running."""

    def __init__(self, call: WorkerCall, executor: Executor) -> None:
        timeout = getattr(executor, "timeout", None)
        self._timeout = None if timeout is None else check_seconds("executor.timeout", timeout)
        super().__init__(_ForeignService(call, executor))
        # Work sent while a client of Dask is being closed may never be done.
        self._dask_client = getattr(executor, "_client", None)

    def wait(self, answer: Job[Outcome], at: Callable[[], str]) -> None:
        limit = self._timeout or SILENT_SECONDS
        ends = monotonic() + limit
        while not answer.wait(min(HEARTBEAT, limit)):
            self._threads.check_alive()
            if getattr(self._dask_client, "status", None) == "closed":
                answer.give(None, WorkersLost(RuntimeError("the client of Dask is closed")))
            elif monotonic() < ends:
                continue
            elif self._timeout is not None:
                # The executor may still answer; the loop submits the same work again.
                answer.give(None, WorkersLost(TimeoutError(f"no answer for {limit:g} s")))
            else:
                ends = inf
                warnings.warn(
                    f"no answer for {limit:g} s from the executor of {at()}: a worker may hang, or no worker may "
                    "have started; to raise an error instead, set executor.timeout to a number of seconds",
                    RuntimeWarning,
                    stacklevel=2,
                )


@final
class _ForeignService(ExecutorService):
    """Submits to the user's executor."""

    def __init__(self, call: WorkerCall, executor: Executor) -> None:
        self._call = call
        self._executor = executor
        self._sent: set[Future[Any]] = set()

    def send(self, request: ChunkJob) -> None:
        call = self._call
        chunk = ForeignChunk(this_process(), call.fn, request.block, call.drop, call.tell)
        try:
            future = self._executor.submit(work_on, chunk)
        except Exception as error:
            # A plain `RuntimeError` means a shut down executor; a subclass such as `RecursionError`
            # comes from pickling.
            was_shut_down = type(error) is RuntimeError or isinstance(error, BrokenExecutor)
            if was_shut_down or _is_of_dask(error, "client", "ClosedClientError"):
                raise WorkersLost(error) from error
            raise
        self._sent.add(future)
        future.add_done_callback(partial(_answer, request))
        future.add_done_callback(self._sent.discard)

    def close(self) -> None:
        for future in list(self._sent):
            future.cancel()


def _answer(request: ChunkJob, future: Future[Any]) -> None:
    """Answer ``request`` with the result or the error of the finished ``future``."""
    try:
        found: Outcome | PickledOutcome = future.result()
        request.give(found if isinstance(found, Outcome) else found.open())
    except (CancelledError, TimeoutError) as error:
        request.give(None, WorkersLost(error))
    except BaseException as error:
        request.give(None, _as_death(error))


def _as_death(error: BaseException) -> BaseException:
    """``error``, or a `BrokenExecutor` if Dask reports work that killed its workers."""
    if not _is_of_dask(error, "scheduler", "KilledWorker"):
        return error
    died = BrokenExecutor(str(error))
    died.__cause__ = error
    return died


def _is_of_dask(error: BaseException, module: str, name: str) -> bool:
    """Whether ``error`` is of the class ``name`` in a module of `distributed`."""
    found = sys.modules.get(f"distributed.{module}")  # Dask is not imported here
    return found is not None and isinstance(error, getattr(found, name))


@runtime_checkable
class HasLanes(Protocol):
    """An executor that can keep work on one worker."""

    def lane(self) -> Executor:
        """A new executor for one worker of this executor, as long as the worker lives."""


def lane_of(executor: str | Executor) -> str | Executor:
    """A lane of ``executor``, or ``executor`` if no lanes are supported.

    Raises:
      InvalidType: if the method ``lane`` returns no executor.
    """
    if not isinstance(executor, HasLanes):
        return executor
    lane = executor.lane()
    if not isinstance(lane, Executor):
        raise InvalidType(
            f"executor.lane() must return a concurrent.futures.Executor, got {shorten(lane)}"
        )
    return lane
