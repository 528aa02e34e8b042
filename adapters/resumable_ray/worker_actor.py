"""The actors that call functions, and what their deaths look like."""

# Ray's own restarts and retries are off. Ray would try a task again that has ended its actor, and nobody would know:
# who waits for the future counts the deaths over its work, and finds the item that causes them.

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
"""Errors that come from the end of a process or a node, and not from a function."""


@final
class ActorLost(BrokenExecutor):
    """An actor died over this work, or its node with the result; another actor can do it."""


@final
class ActorTraceback(Exception):
    """The frames of an error in its actor."""


@final
class PoolBroken(BrokenExecutor):
    """No actor is left that could do any work."""


class _WorkerActor:
    """Calls one function at a time."""

    def start(self) -> None:
        """Nothing: it returns once the actor runs."""

    def call(self, fn: Callable[..., Any], names: tuple[str, ...], *values: Any) -> Any:
        """Call ``fn`` with ``values``, of which the last ones are arguments with these ``names``."""
        # No argument has its name here, since it may be that of a parameter of this method, or of Ray's.
        count = len(values) - len(names)
        return fn(*values[:count], **dict(zip(names, values[count:], strict=True)))


def actor_class(num_cpus: float, runtime_env: dict[str, Any] | None) -> Any:
    """The class of the actors, as Ray starts them."""
    options: dict[str, Any] = {} if runtime_env is None else {"runtime_env": runtime_env}
    return ray.remote(num_cpus=num_cpus, max_restarts=0, max_task_retries=0, **options)(
        _WorkerActor
    )


def as_error(value: Any) -> BaseException | None:
    """The error to raise for what Ray has answered; None if it is a result."""
    if isinstance(value, LOST):
        lost = ActorLost(f"{type(value).__name__}: {value}")
        lost.__cause__ = value
        return lost
    if isinstance(value, RayTaskError):
        cause: BaseException = value.cause
        cause.__cause__ = ActorTraceback(f"\n{value.traceback_str}")
        return cause
    return value if isinstance(value, RayError) else None
