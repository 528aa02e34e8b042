"""An executor whose workers are Ray actors."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Executor, Future
from numbers import Real
from typing import Any, TypeVar, final

import ray

from resumable.core.arguments import check_int, check_seconds, check_type
from resumable.core.home_process import HomeProcess
from resumable.errors import InvalidArgument, InvalidType, shorten

from .dispatcher import Dispatcher
from .task import Call, Lane, Task
from .worker_actor import actor_class

__all__ = ["RayExecutor"]

T = TypeVar("T")


@final
class RayExecutor(Executor):
    """Calls functions in a pool of Ray actors.

    As a `concurrent.futures.Executor`, it can be the ``executor`` of `resumable.Pipeline.map` and
    `resumable.Pipeline.partition`. If Ray does not run yet in this process, ``ray.init()`` connects
    to the cluster in ``RAY_ADDRESS``, or to a cluster running on this machine, or else starts a
    cluster. Ray stays when the executor is shut down.

    An actor makes one call at a time. Arguments and results travel through Ray's object store.
    Large arrays in the arguments are not copied for the actor, so the actor may only read.

    When an actor or its node dies, the futures of the actor's present tasks fail with a
    ``BrokenExecutor`` of `concurrent.futures`, and a new actor starts on any node with room.
    Waiting tasks go to other actors. Neither the executor nor Ray retries tasks. Once no actor is
    left, `submit` raises a ``BrokenExecutor`` too.

    Args:
      num_cpus: CPUs that Ray reserves for each actor, a number of at least 0 such as 0.5.
      num_actors: number of actors, at least 1; None for as many as the CPUs of the cluster's
        present nodes allow. Actors without room start later, when there is room.
      max_restarts: how often in a row to replace an actor that died before any work was done there,
        at least -1; -1 for no limit. An item that kills every actor is found after four deaths at
        most.
      runtime_env: Ray's runtime environment of the actors, such as ``{"pip":
        ["resumable-loader"]}``; None for the environment of the job.
      timeout: seconds after which a loop that waits for an item raises ``WorkerError`` with the
        item, and after which an actor with an unfinished task is replaced; None for no limit.
        Without a limit, a loop warns after a minute. The next call of ``next`` tries the item
        again.

    Attributes:
      timeout: the argument.

    Raises:
      InvalidArgument: if a number is out of range, if Ray refuses a number, or if no node has the
        CPUs for one actor and ``num_actors`` is None.
      InvalidType: if an argument has the wrong type.

    >>> with RayExecutor(num_cpus=1) as executor:  # doctest: +SKIP
    ...     squares = rs.range(100).map(square, workers=4, executor=executor)
    ...     list(squares)
    """

    def __init__(
        self,
        num_cpus: float = 1,
        num_actors: int | None = None,
        max_restarts: int = 5,
        runtime_env: dict[str, Any] | None = None,
        timeout: float | None = None,
    ) -> None:
        self.timeout = None if timeout is None else check_seconds("timeout", timeout)
        _check_cpus(num_cpus)
        if num_actors is not None:
            num_actors = check_int("num_actors", num_actors, minimum=1)
        max_restarts = check_int("max_restarts", max_restarts, minimum=-1)
        if runtime_env is not None:
            check_type("runtime_env", runtime_env, dict, "a dict or None")
        if not ray.is_initialized():
            ray.init()
        try:
            actors = actor_class(float(num_cpus), runtime_env)
        except (TypeError, ValueError) as error:
            raise InvalidArgument(
                f"num_cpus and runtime_env must be such that Ray takes them, got {num_cpus} and "
                f"{shorten(runtime_env)}: {error}"
            ) from error
        count = _number_of_actors(num_cpus) if num_actors is None else num_actors
        self._process = HomeProcess()
        self._dispatcher = Dispatcher(self, count, actors, max_restarts, self.timeout)
        self._dispatcher.start()

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Let an actor call ``fn(*args, **kwargs)``.

        Raises:
          concurrent.futures.BrokenExecutor: if no actor is left, and none can be started.
          RuntimeError: after `shutdown`, and in a forked process.
        """
        return self._submit(Call(fn, args, kwargs), None)

    def _submit(self, call: Call, lane: Lane | None) -> Future[Any]:
        if not self._process.is_this_one():
            raise RuntimeError("the actors belong to the process that started them, not to a fork")
        task = Task(call, lane)
        self._dispatcher.submit(task)
        return task.future

    def lane(self) -> Executor:
        """An executor that makes all calls in one actor of the pool, as long as the actor lives.

        So the data that a function keeps in the process are there at the next call. Exceptions:
        another actor takes over when the actor dies, or when a newly started actor has no lane
        while this actor has several. Lanes are spread over the actors, and end with this executor.
        """
        return _RayLane(self)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more work, and end the actors once all submitted work is done.

        Args:
          wait: whether to return only when the actors have ended.
          cancel_futures: whether to cancel work that no actor has begun.
        """
        if self._process.is_this_one():
            self._dispatcher.shut_down(wait, cancel_futures)


@final
class _RayLane(Executor):
    """Calls functions in one actor of ``executor``, as long as the actor lives."""

    def __init__(self, executor: RayExecutor) -> None:
        self._executor = executor
        self.timeout = executor.timeout
        self._lane = Lane()

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        return self._executor._submit(Call(fn, args, kwargs), self._lane)


def _check_cpus(num_cpus: float) -> None:
    if isinstance(num_cpus, bool) or not isinstance(num_cpus, Real):
        raise InvalidType(f"num_cpus must be a number, got {shorten(num_cpus)}")
    if not 0 <= num_cpus < math.inf:
        raise InvalidArgument(f"num_cpus must be finite and at least 0, got {num_cpus}")


def _number_of_actors(num_cpus: float) -> int:
    """How many actors the present nodes have CPUs for."""
    if not num_cpus:
        raise InvalidArgument("num_actors must be given if num_cpus is 0, got None")
    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    cpus = [node["Resources"].get("CPU", 0.0) for node in nodes if node["Alive"]]
    count = sum(int(cpu / num_cpus + 1e-9) for cpu in cpus)
    if not count:
        raise InvalidArgument(
            f"num_cpus must be at most what a node has, unless num_actors is given, got {num_cpus} "
            f"where the nodes have {cpus}"
        )
    return count
