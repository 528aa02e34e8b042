"""What an executor is asked to do, and the actors that do it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from itertools import count
from time import perf_counter
from typing import Any, Final, NamedTuple, final

QUICK_SECONDS: Final = 0.1
"""An actor whose last task took no longer gets another one before it has done the present one."""

_numbers: Final = count()


class Call(NamedTuple):
    """A function and its arguments."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@final
class Lane:
    """Stands for one actor, as long as it lives; the dispatcher knows which."""


@final
class Task:
    """A call that an actor is to make.

    Args:
      call: the call.
      lane: whose actor is to make it; None if any actor may.

    Attributes:
      future: of its result.
      call: the argument, until it was sent, so that the items in it are freed then.
      lane: the argument.
      number: larger than that of each task before it.
      ref: Ray's name of the result, while an actor has it.
      sent: when an actor got it, in seconds.
    """

    def __init__(self, call: Call, lane: Lane | None) -> None:
        self.future: Future[Any] = Future()
        self.call: Call | None = call
        self.lane = lane
        self.number = next(_numbers)
        self.ref: Any = None
        self.sent = 0.0

    def answer(self, value: Any, error: BaseException | None) -> None:
        """Give ``value`` or ``error`` to who waits for the future, which is running."""
        if error is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(value)


@final
class ActorSlot:
    """The place of an actor, which another one takes when it dies.

    Attributes:
      actor: the handle of the present one; None if there is none.
      ready: whether it runs.
      starting: Ray's name of the answer that says so.
      restarts: how often another one was started since a task was done.
      in_work: the tasks that it has, in order.
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
        """Whether it may get a task: one more than it works on, if they take little time."""
        return self.ready and len(self.in_work) < 1 + self._quick

    @property
    def began(self) -> float:
        """When the actor began with the first task that it has, in seconds."""
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
        """Note that the actor has done ``task``, or that this was ``lost``."""
        self.in_work.remove(task)
        if lost:
            return
        now = perf_counter()
        self._quick = now - max(task.sent, self._last_done) <= QUICK_SECONDS
        self._last_done = now
        self.restarts = 0

    def vacate(self) -> Any:
        """Take the actor out; returns its handle, or None."""
        actor, self.actor = self.actor, None
        self.ready = self._quick = False
        self.starting = None
        self.in_work = deque()
        return actor
