"""What workers call for a map, and the workers that call it."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, NamedTuple

from ..core.arguments import check_int
from ..errors import InvalidArgument, InvalidType, shorten
from .foreign_executor import ForeignWorkers
from .tally import SkipListener
from .workers import ThreadWorkers, Workers


class WorkerCall(NamedTuple):
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


def check_call(calls: WorkerCall) -> None:
    """Refuse calls that `make_workers` cannot make workers for.

    Raises:
      InvalidType: if ``executor`` is no executor.
      InvalidArgument: if ``workers`` is below 0, or 0 with an executor of another library, or if ``fn``
        cannot be pickled.
      MissingDependency: for processes without the extra ``parallel``.
    """
    check_executor(calls.workers, calls.executor)
    if calls.executor == "process" and calls.workers:
        from .processes import pickled

        pickled(calls.fn)
    elif _has_processes(calls.executor):
        _check_picklable(calls.fn)


def check_executor(workers: int, executor: str | Executor) -> None:
    """Refuse workers that cannot be made.

    Raises:
      InvalidType: if ``workers`` is not an integer, or ``executor`` is no executor.
      InvalidArgument: if ``workers`` is below 0, or 0 with an executor of another library.
      MissingDependency: for processes without the extra ``parallel``.
    """
    check_int("workers", workers, minimum=0)
    named = isinstance(executor, str) and executor in ("thread", "process")
    if not (named or isinstance(executor, Executor)):
        raise InvalidType(
            "executor must be 'thread', 'process' or a concurrent.futures.Executor, "
            f"got {shorten(executor)}"
        )
    if isinstance(executor, Executor) and not workers:
        raise InvalidArgument(f"workers must be at least 1 for an executor, got {workers}")
    if workers and executor == "process":
        from .processes import check_loky

        check_loky()


def make_workers(calls: WorkerCall, window: int) -> Workers:
    """Workers for one running iterator, which submits up to ``window`` chunks at once."""
    fn, drop, workers, executor, listener = calls
    tell = listener is not None
    if isinstance(executor, Executor):
        return ForeignWorkers(fn, drop, tell, executor)
    if executor == "process":
        from .processes import ProcessWorkers

        return ProcessWorkers(fn, drop, tell, workers, window)
    return ThreadWorkers(fn, drop, workers)


def _has_processes(executor: str | Executor) -> bool:
    # Not imported, which takes as long as this whole library: where such a pool is, it is loaded.
    module = sys.modules.get("concurrent.futures.process")
    return module is not None and isinstance(executor, module.ProcessPoolExecutor)


def _check_picklable(fn: Callable[[Any], Any]) -> None:
    try:
        pickle.dumps(fn)
    except Exception as error:
        raise InvalidArgument(
            f"fn must be picklable for a process pool, got {fn!r} ({error}); define it at the "
            "top of a module"
        ) from None
