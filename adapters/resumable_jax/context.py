"""The writing processes by the context of Orbax's version 1, and the barrier between processes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

# The public interface sets the context and does not return it.
from orbax.checkpoint.experimental.v1._src.context.context import get_context

# The public interface also lacks the barrier at which Orbax's own handlers wait.
from orbax.checkpoint.experimental.v1._src.synchronization import multihost, synchronization

__all__ = ["meeting_of_context", "primary_of_context"]


def primary_of_context() -> int | None:
    """The ``multiprocessing.primary_host`` of the current context."""
    primary: int | None = get_context().multiprocessing.primary_host
    return primary


def meeting_of_context(name: str) -> Callable[[], Awaitable[None]]:
    """A function to await, as a barrier of all processes that save.

    Args:
      name: of the barrier, the same on all processes, and different for each input of a checkpoint.
    """
    context = get_context()
    among = context.multiprocessing
    key = multihost.unique_barrier_key(
        "resumable_input_written", prefix=among.barrier_sync_key_prefix, suffix=name
    )
    operation = synchronization.get_operation_id()

    async def meet() -> None:
        await multihost.sync_global_processes(
            key,
            operation_id=operation,
            timeout=context.asynchronous.timeout_secs,
            processes=among.active_processes,
        )

    return meet
