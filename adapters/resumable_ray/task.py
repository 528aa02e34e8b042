"""The tasks of an executor, and the places of actors."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from itertools import count
from time import perf_counter
from typing import Any, Final, NamedTuple, final

QUICK_SECONDS: Final = 0.1
"""An actor whose last task took no longer gets another task before the present task is done."""

_numbers: Final = count()


class Call(NamedTuple):
    """A function and the arguments."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@final
class Lane:
    """Stands for one actor, as long as the actor lives; the dispatcher knows the actor."""


@final
class Task:
    """A call for an actor to make.

    Args:
      call: the call.
      lane: the lane whose actor makes the call; None for any actor.

    Attributes:
      future: of its result.
      call: the argument until the call was sent, so that sending frees the items in it.
      lane: the argument.
      number: larger than the number of each earlier task.
      ref: Ray's name of the result, while an actor has the task.
      sent: when an actor got the task, in seconds.
    """

    def __init__(self, call: Call, lane: Lane | None) -> None:
        self.future: Future[Any] = Future()
        self.call: Call | None = call
        self.lane = lane
        self.number = next(_numbers)
        self.ref: Any = None
        self.sent = 0.0

    def answer(self, value: Any, error: BaseException | None) -> None:
        """Set ``value`` or ``error`` on the running future."""
        if error is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(value)


@final
class ActorSlot:
    """The place of an actor; another actor takes the place of a dead actor.

    Attributes:
      actor: the handle of the present actor; None without an actor.
      ready: whether the actor runs.
      starting: Ray's name of the answer to the start.
      restarts: how often the actor was replaced since a task was done.
      in_work: the tasks of the actor, in order.
    """

    def __init__(self) -> None:
        self.actor: Any = None
        self.ready = False
        self.starting: Any = None
        self.restarts = 0
        self.in_work: deque[Task] = deque()
        self._quick = False
        self._last_done = 0.0

    @property
    def has_room(self) -> bool:
        """Whether the actor may get a task: with quick tasks, one more than the present task."""
        return self.ready and len(self.in_work) < 1 + self._quick

    @property
    def began(self) -> float:
        """When the actor began the first task in work, in seconds."""
        return max(self.in_work[0].sent, self._last_done)

    def call(self, task: Task) -> Any:
        """Send ``task`` to the actor; returns Ray's name of the result."""
        assert task.call is not None
        (fn, args, kwargs), task.call = task.call, None
        task.sent = perf_counter()
        ref = self.actor.call.remote(fn, tuple(kwargs), *args, *kwargs.values())
        self.in_work.append(task)
        return ref

    def note_done(self, task: Task, lost: bool) -> None:
        """Note that the actor has done ``task``, or that the task was ``lost``."""
        self.in_work.remove(task)
        if lost:
            return
        now = perf_counter()
        self._quick = now - max(task.sent, self._last_done) <= QUICK_SECONDS
        self._last_done = now
        self.restarts = 0

    def vacate(self) -> Any:
        """Remove the actor; returns the handle, or None."""
        actor, self.actor = self.actor, None
        self.ready = self._quick = False
        self.starting = None
        self.in_work = deque()
        return actor
