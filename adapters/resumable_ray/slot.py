"""The place of an actor in the pool."""

from __future__ import annotations

from collections import deque
from time import perf_counter
from typing import Any, Final, final

from .task import Task

QUICK_SECONDS: Final = 0.1
"""An actor whose last task took no longer gets another one before it has done the present one."""


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
