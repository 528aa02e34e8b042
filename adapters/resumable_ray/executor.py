"""An executor whose workers are Ray actors."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Executor, Future
from numbers import Real
from typing import Any, TypeVar, final

import ray

from resumable.core.arguments import check_int, check_seconds
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

    It is a `concurrent.futures.Executor`, so `resumable.Pipeline.map` and `resumable.Pipeline.partition` take it as
    ``executor``. If Ray does not run yet in this process, ``ray.init()`` is called: it connects to the
    cluster in ``RAY_ADDRESS``, or to one that runs on this machine, or else starts one. Ray stays when the executor is shut down.

    An actor makes one call at a time. Arguments and results travel through Ray's object store. Large arrays in the
    arguments are not copied for the actor, which may therefore only read them.

    When an actor or its node dies, the futures of what it had in work fail with a ``BrokenExecutor`` of
    `concurrent.futures`, and another actor takes its place, on whatever node has room. Work that waited goes to other actors. The executor
    never tries work again by itself, nor does Ray. Once no actor is left, `submit` raises a ``BrokenExecutor`` too.

    Args:
      num_cpus: CPUs that Ray reserves for each actor, a number of at least 0 such as 0.5.
      num_actors: number of actors, at least 1; None for as many as the CPUs of the cluster's present nodes allow. Those
        for which there is no room yet start when there is.
      max_restarts: how often in a row another actor takes the place of one that died before any work was done there, at
        least -1; -1 is for no limit. An item that ends its actor each time is found after four deaths at most.
      runtime_env: Ray's runtime environment of the actors, such as ``{"pip": ["resumable-loader"]}``; None for that
        of the job.
      timeout: seconds after which a loop that waits for an item raises ``WorkerError`` with that item, and after which an
        actor that has not done its task is replaced; None for no limit. Without one, a loop warns after a minute. The next
        call of ``next`` tries the item again.

    Attributes:
      timeout: the argument.

    Raises:
      InvalidArgument: if a number is out of its range, if Ray refuses one, or if no node has the CPUs for one
        actor and ``num_actors`` is None.
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
        if runtime_env is not None and not isinstance(runtime_env, dict):
            raise InvalidType(f"runtime_env must be a dict or None, got {shorten(runtime_env)}")
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
        """An executor that lets one actor of these make all calls, as long as that lives.

        So what a function keeps in its process is there at the next call, but for a few cases: another actor goes on when
        this one dies, or when an actor has started that has no lane while this one has several. The lanes are spread
        over the actors. They end with this executor.
        """
        return _RayLane(self)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more work, and end the actors once what was submitted is done.

        Args:
          wait: whether to return only then.
          cancel_futures: whether to give up what no actor has begun.
        """
        if self._process.is_this_one():
            self._dispatcher.shut_down(wait, cancel_futures)


@final
class _RayLane(Executor):
    """Calls functions in one actor of ``executor``, as long as that lives."""

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
