"""Check the calls for workers, and make the workers."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

from ..core.arguments import check_int
from ..errors import InvalidArgument, InvalidType, shorten
from .foreign_executor import ForeignWorkers
from .workers import ThreadWorkers, WorkerCall, Workers


def check_call(calls: WorkerCall) -> None:
    """Refuse calls without possible workers in `make_workers`.

    Raises:
      InvalidType: if ``executor`` is no executor.
      InvalidArgument: if ``workers`` is below 0, or 0 with an executor of another library, or if
        ``fn`` cannot be pickled.
      MissingDependency: for processes without the extra ``parallel``.
    """
    check_executor(calls.workers, calls.executor)
    if calls.executor == "process" and calls.workers:
        from .processes import pickled

        pickled(calls.fn)
    elif _has_processes(calls.executor):
        _check_picklable(calls.fn)


def check_executor(workers: int, executor: str | Executor) -> None:
    """Refuse an impossible choice of workers.

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


def make_workers(call: WorkerCall, window: int) -> Workers:
    """Workers for one running iterator with up to ``window`` chunks at once."""
    if isinstance(call.executor, Executor):
        return ForeignWorkers(call, call.executor)
    if call.executor == "process":
        from .processes import ProcessWorkers

        return ProcessWorkers(call, window)
    return ThreadWorkers(call)


def _has_processes(executor: str | Executor) -> bool:
    # Not imported, since the import takes as long as this whole library: a user of a pool has
    # loaded it.
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
