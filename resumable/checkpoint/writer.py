"""Who writes checkpoints: the loop itself, or a thread beside it."""

# Both are executors that return a future, so that what saves need not know which one it has.
# The library's thread pool also writes what is pending before the interpreter exits.

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, TypeVar, final

T = TypeVar("T")


def direct_writer() -> Executor:
    """Writes at once; the future it returns is done."""
    return _Direct()


def background_writer() -> Executor:
    """Writes in one thread, which starts with the first save."""
    return ThreadPoolExecutor(1, thread_name_prefix="resumable-writer")


@final
class _Direct(Executor):
    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future: Future[T] = Future()
        # An interrupt is the loop's own and not the outcome of a save.
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future
