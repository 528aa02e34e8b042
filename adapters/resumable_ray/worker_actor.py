"""The actors that call functions, and the errors of dead actors."""

# Ray's own restarts and retries are off. Ray would silently retry a task that has killed its actor.
# The waiter for the future counts the deaths, and finds the item at fault.

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import BrokenExecutor
from typing import Any, Final, final

import ray
from ray.exceptions import (
    LocalRayletDiedError,
    NodeDiedError,
    ObjectLostError,
    OutOfMemoryError,
    RayActorError,
    RayError,
    RayTaskError,
    WorkerCrashedError,
)

LOST: Final = (
    RayActorError,
    WorkerCrashedError,
    NodeDiedError,
    LocalRayletDiedError,
    OutOfMemoryError,
    ObjectLostError,
)
"""Errors from the end of a process or a node, and not from a function."""


@final
class ActorLost(BrokenExecutor):
    """An actor died over this work, or a node with the result; another actor can do the work."""


@final
class ActorTraceback(Exception):
    """The frames of an error in the actor."""


@final
class PoolBroken(BrokenExecutor):
    """No actor is left to do any work."""


class _WorkerActor:
    """Calls one function at a time."""

    def start(self) -> None:
        """Do nothing; the call returns once the actor runs."""

    def call(self, fn: Callable[..., Any], names: tuple[str, ...], *values: Any) -> Any:
        """Call ``fn`` with ``values``; the last values are keyword arguments with ``names``."""
        # Arguments are not passed by name, since a name may clash with a parameter of this method,
        # or of Ray's.
        count = len(values) - len(names)
        return fn(*values[:count], **dict(zip(names, values[count:], strict=True)))


def actor_class(num_cpus: float, runtime_env: dict[str, Any] | None) -> Any:
    """The class of the actors, for Ray."""
    options: dict[str, Any] = {} if runtime_env is None else {"runtime_env": runtime_env}
    options |= {"num_cpus": num_cpus, "max_restarts": 0, "max_task_retries": 0}
    return ray.remote(**options)(_WorkerActor)


def as_error(value: Any) -> BaseException | None:
    """The error to raise for an answer of Ray; None for a result."""
    if isinstance(value, LOST):
        lost = ActorLost(f"{type(value).__name__}: {value}")
        lost.__cause__ = value
        return lost
    if isinstance(value, RayTaskError):
        cause: BaseException = value.cause
        cause.__cause__ = ActorTraceback(f"\n{value.traceback_str}")
        return cause
    return value if isinstance(value, RayError) else None
