"""Give tasks to actors, all in one thread."""

# Ray answers in a separate thread, where no actor may be started or called. So that thread only
# puts the answer into the inbox of the dispatcher, as `submit` does with a task. There are no
# locks, since only the dispatcher's thread touches attributes not marked as shared.
#
# Ray answers each sent task exactly once, even if the actor dies. So the death of an actor affects
# only the actor's own tasks, and waiting tasks go to another actor.

from __future__ import annotations

import weakref
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import chain
from queue import Empty, SimpleQueue
from time import perf_counter
from typing import Any, Final, NamedTuple, final

import ray
from ray.exceptions import RayActorError, RayError

from resumable.workers.answers import Job
from resumable.workers.threads import HEARTBEAT, PATIENCE, Threads, stop_at_exit, when_gone

from .task import ActorSlot, Lane, Task
from .worker_actor import ActorLost, PoolBroken, as_error

NODE_HEARTBEATS: Final = 10
"""How many seconds without an event go by before Ray is asked whether the node of this process is alive."""


class Stop(NamedTuple):
    """Asks the dispatcher to end, once the present tasks are done.

    Attributes:
      cancel: whether waiting tasks are cancelled.
    """

    cancel: bool


class Answer(NamedTuple):
    """An answer of Ray.

    Attributes:
      slot: the place of the actor, maybe a former one.
      actor: its handle.
      task: the finished task; None for the start of an actor.
      value: the result, or an error of Ray's.
    """

    slot: ActorSlot
    actor: Any
    task: Task | None
    value: Any


@final
class Dispatcher:
    """A thread that gives the tasks of an executor to actors, without a reference to the executor.

    Args:
      owner: the executor; the thread ends when the executor is gone.
      count: number of actors.
      actors: the class of the actors, for Ray.
      max_restarts: how often in a row an actor is replaced; -1 for no limit.
      timeout: seconds after which an actor that has not done a task is replaced; None for no limit.

    Attributes:
      inbox: tasks, answers, and requests to stop; None when the owner is gone. Shared.
      stopped: whether no further task is taken. Shared.
      broken: the error that prevents all further tasks; None while tasks can run. Shared.
    """

    def __init__(
        self, owner: object, count: int, actors: Any, max_restarts: int, timeout: float | None
    ) -> None:
        self.inbox: SimpleQueue[Task | Answer | Stop | None] = SimpleQueue()
        self.stopped = False
        self.broken: BaseException | None = None
        self._ended = False
        self._owner = when_gone(owner, self.inbox)
        self._actors = actors
        self._max_restarts = max_restarts
        self._timeout = timeout
        self._next_check = 0.0
        self._silent = 0  # heartbeats without an event
        self._session = session()
        self._slots = [ActorSlot() for _ in range(count)]
        # The tasks without an actor, in order, by lane, and the slot of the actor of each lane.
        self._queues: dict[Lane | None, deque[Task]] = {}
        self._lanes: weakref.WeakKeyDictionary[Lane, ActorSlot | None] = weakref.WeakKeyDictionary()
        self._in_work: dict[Task, None] = {}
        self._may_finish = False
        self._leaves_at_once = False
        self._threads = Threads(1, "resumable-ray")
        self._serving: Job[None] = Job(self._serve)
        stop_at_exit(self)

    def start(self) -> None:
        """Start the thread."""
        self._threads.submit(self._serving)

    def submit(self, task: Task) -> None:
        """Let an actor do ``task``; any thread may call this.

        Raises:
          PoolBroken: if no actor is left.
          RuntimeError: after the executor was shut down.
        """
        if self.stopped or self.broken is not None:
            raise self._refusal()
        self.inbox.put(task)
        if self._ended:  # just ended, so the task may be unseen
            self._refuse_rest()

    def shut_down(self, wait: bool, cancel_waiting: bool) -> None:
        """Take no more tasks, and end once the present tasks are done."""
        self.stopped = True
        self.inbox.put(Stop(cancel_waiting))
        if wait:
            self._threads.wait_for(self._serving)
            self._threads.close(PATIENCE)

    def stop(self) -> None:
        """End without waiting for anything; called as the interpreter exits."""
        self._leaves_at_once = self.stopped = True
        self.inbox.put(None)

    def _serve(self) -> None:
        """Give tasks to actors until the executor is shut down or gone, or no actor can be had."""
        try:
            for slot in self._slots:
                self._start_actor(slot)
            while not self._may_end:
                self._take_in()
                self._replace_silent_actors()
                self._send_what_waits()
        except BaseException as error:
            self._break(error)  # so `submit` raises it
        finally:
            self._end()

    @property
    def _may_end(self) -> bool:
        if self._leaves_at_once or self.broken is not None:
            return True
        if not self._may_finish or self._in_work:
            return False
        # Cancelled tasks may wait for an actor that never starts.
        return all(task.future.cancelled() for task in self._waiting())

    def _take_in(self) -> None:
        """Wait for the next event, and handle it."""
        try:
            event = self.inbox.get(timeout=HEARTBEAT)
        except Empty:
            self._silent += 1
            self._check_connection()
            return
        self._silent = 0
        if isinstance(event, Answer):
            self._note_answer(event)
        elif isinstance(event, Task):
            self._queue(event)
        else:
            # All earlier submissions have been taken in.
            self._may_finish = isinstance(event, Stop) or self._owner() is None
            if isinstance(event, Stop) and event.cancel:
                for task in self._waiting():
                    task.future.cancel()

    def _queue(self, task: Task) -> None:
        self._queues.setdefault(task.lane, deque()).append(task)
        if task.lane is not None:
            self._lanes.setdefault(task.lane, None)

    def _waiting(self) -> Iterator[Task]:
        """The tasks without an actor."""
        return chain(*self._queues.values())

    def _note_answer(self, answer: Answer) -> None:
        slot, actor, task, value = answer
        error = as_error(value)
        present = actor is slot.actor  # False for an actor already replaced
        if task is None:
            slot.ready = slot.ready or (present and error is None)
        else:
            if task not in self._in_work:
                return  # the actor did not answer in time
            del self._in_work[task]
            task.ref = None
            if present:
                slot.note_done(task, lost=isinstance(error, ActorLost))
            task.answer(value, error)
        if present and error is not None and (task is None or isinstance(value, RayActorError)):
            self._replace(slot, error)

    def _replace_silent_actors(self) -> None:
        """Replace each actor that has had the present task for longer than the timeout."""
        now = perf_counter()
        if self._timeout is None or now < self._next_check:
            return
        self._next_check = now + HEARTBEAT
        for slot in self._slots:
            if slot.in_work and now - slot.began >= self._timeout:
                error = TimeoutError(f"no answer for {self._timeout:g} s")
                for task in slot.in_work:
                    del self._in_work[task]
                    task.answer(None, error)
                self._replace(slot, error)

    def _replace(self, slot: ActorSlot, error: BaseException) -> None:
        """Replace an actor that died of ``error``, unless too many died in a row."""
        self._check_connection()
        if self.broken is not None:
            return
        self._kill(slot)  # the actor may only be out of reach
        if self._max_restarts < 0 or slot.restarts < self._max_restarts:
            slot.restarts += 1
            self._start_actor(slot)
        elif all(other.actor is None for other in self._slots):
            self._break(error)

    def _start_actor(self, slot: ActorSlot) -> None:
        actor = slot.actor = self._actors.remote()
        slot.starting = actor.start.remote()
        slot.starting._on_completed(partial(self._put_answer, slot, actor, None))

    def _put_answer(self, slot: ActorSlot, actor: Any, task: Task | None, value: Any) -> None:
        """Called in a thread of Ray's."""
        self.inbox.put(Answer(slot, actor, task, value))

    def _send_what_waits(self) -> None:
        """Give tasks to actors with room; each actor gets the oldest task it may do."""
        if not self._queues:
            return
        self._place_lanes()
        # Actors without work come first.
        for slot in sorted(self._slots, key=lambda slot: len(slot.in_work)):
            while slot.has_room and (task := self._next_task(slot)) is not None:
                self._send(slot, task)

    def _next_task(self, slot: ActorSlot) -> Task | None:
        """Take the oldest waiting task that the actor in ``slot`` may do out of the queue."""
        lanes = [lane for lane in self._queues if lane is None or self._lanes[lane] is slot]
        if not lanes:
            return None
        lane = min(lanes, key=lambda lane: self._queues[lane][0].number)
        task = self._queues[lane].popleft()
        if not self._queues[lane]:
            del self._queues[lane]
        return task

    def _place_lanes(self) -> None:
        """Give each lane with waiting tasks a running actor, if any; lanes mostly keep actors."""
        running = [slot for slot in self._slots if slot.ready]
        lanes = Counter(self._lanes.values())
        for lane in filter(None, self._queues):
            fewest = min(running, key=lanes.__getitem__, default=None)
            slot = self._lanes[lane]
            # An actor that has just started relieves another actor of a lane.
            if slot not in running or lanes[slot] > lanes[fewest] + 1:
                lanes[slot] -= 1
                lanes[fewest] += 1
                self._lanes[lane] = fewest

    def _send(self, slot: ActorSlot, task: Task) -> None:
        self._check_connection()
        if self.broken is not None:
            self._refuse(task)
            return
        if not task.future.set_running_or_notify_cancel():
            return
        try:
            task.ref = slot.call(task)
        except BaseException as error:
            task.answer(None, error)  # most likely the call cannot be pickled
            return
        self._in_work[task] = None
        task.ref._on_completed(partial(self._put_answer, slot, slot.actor, task))

    def _check_connection(self) -> None:
        """Stop if Ray was shut down: Ray would not answer, and a call would start Ray again."""
        if session() != self._session:
            self._break(RuntimeError("ray.shutdown() was called"))
        elif self._silent and not self._silent % NODE_HEARTBEATS:
            # Once the raylet of this node is dead, Ray starts no actor for this process, and raises nothing.
            here = ray.get_runtime_context().get_node_id()
            if any(node["NodeID"] == here and not node["Alive"] for node in ray.nodes()):  # type: ignore[no-untyped-call]
                self._break(RuntimeError(f"the Ray node of this process is dead: {here}"))

    def _break(self, error: BaseException) -> None:
        """Do no more tasks, because of ``error``."""
        self.broken = self.broken or error

    def _refusal(self) -> BaseException:
        """The error for a refused task."""
        if self.broken is None:
            return RuntimeError("cannot schedule new futures after shutdown")
        refusal = PoolBroken(f"the executor has no actor left: {self.broken}")
        refusal.__cause__ = self.broken
        return refusal

    def _end(self) -> None:
        self.stopped = True
        for task in list(self._in_work):
            task.answer(None, self._refusal())
        self._in_work.clear()
        for task in self._waiting():
            self._refuse(task)
        self._ended = True
        self._refuse_rest()
        if session() == self._session:
            for slot in self._slots:
                self._kill(slot)
        self._threads.stop()

    def _refuse_rest(self) -> None:
        """Answer the tasks left in the inbox after the end."""
        with suppress(Empty):
            while True:
                event = self.inbox.get_nowait()
                if isinstance(event, Task):
                    self._refuse(event)

    def _refuse(self, task: Task) -> None:
        if task.future.set_running_or_notify_cancel():
            task.answer(None, self._refusal())

    def _kill(self, slot: ActorSlot) -> None:
        actor = slot.vacate()
        if actor is not None:
            with suppress(RayError):  # the connection may end at this moment
                ray.kill(actor)


def session() -> str | None:
    """The name of this process's connection to Ray; None without a connection."""
    return ray.get_runtime_context().get_worker_id() if ray.is_initialized() else None
