"""A thread that calls an executor for a loop which may be interrupted anywhere."""

# An executor has locks, which an interrupt in the middle of `submit` or `shutdown` would leave
# locked. So only the courier calls it. The loop puts errands into the courier's queue and waits for
# the answers, which the executor's own threads give.
#
# The courier's frame refers to the executor. In a forked child this frame is never freed, so no
# finalizer runs there on what only the parent can use.

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from queue import SimpleQueue
from typing import Any, final

from ..core.block import Block
from ..core.home_process import HomeProcess
from .executors import Outcome, Workers, attempt_elsewhere
from .threads import PATIENCE, Answer, Job, Threads, leaves_at_exit, when_gone


@final
class Errand(Answer[Any]):
    """A chunk for a worker, and the answer to come.

    Attributes:
      block: its items.
      begins_epoch: whether it is the first chunk of its iterator.
      abandoned: whether the answer is no longer wanted.
    """

    def __init__(self, block: Block, begins_epoch: bool) -> None:
        super().__init__()
        self.block = block
        self.begins_epoch = begins_epoch
        self.abandoned = False


class Service(ABC):
    """What the courier does in its thread."""

    @abstractmethod
    def send(self, errand: Errand) -> None:
        """Send ``errand`` to a worker, which answers it; an error raised here is the answer."""

    @abstractmethod
    def end(self) -> None:
        """Release the executor."""


class CourierWorkers(Workers):
    """Workers of an executor that only a courier calls."""

    def __init__(self, service: Service) -> None:
        self._post = _Post(self)
        self._threads = Threads(1, "resumable-courier")
        self._round = Job(partial(_serve, self._post, service))
        self._on_the_way = False
        self._begins_epoch = True
        self._process = HomeProcess()

    def begin_epoch(self) -> None:
        self._begins_epoch = True

    def submit(self, block: Block) -> Errand:
        errand = Errand(block, self._begins_epoch)
        self._begins_epoch = False
        self._post.errands.put(errand)
        if not self._on_the_way:
            self._threads.submit(self._round)
            self._on_the_way = True
        return errand

    def outcome(self, answer: Answer[Any]) -> Outcome:
        found: Outcome = self.answered(answer)
        return found

    def answered(self, answer: Answer[Any]) -> Any:
        """Wait for ``answer``; returns its value."""
        return self._threads.wait_for(answer)

    def abandon(self, answer: Answer[Any]) -> None:
        assert isinstance(answer, Errand)
        answer.abandoned = True

    def leave(self) -> None:
        if self._process.is_this_one():
            self._post.leave()
            self._threads.leave()

    def close(self, seconds: float = PATIENCE) -> bool:
        self.leave()
        return self._threads.close(seconds)


class _Post:
    """What the loop and its courier share; the courier refers to nothing else of the loop.

    Attributes:
      errands: to be sent, in order; None makes the courier look whether the loop has left.
    """

    def __init__(self, owner: object) -> None:
        self.errands: SimpleQueue[Errand | None] = SimpleQueue()
        self._owner = when_gone(owner, self.errands)
        leaves_at_exit(self)
        self._closed = False

    @property
    def left(self) -> bool:
        """Whether the loop has left or is gone."""
        return self._closed or self._owner() is None

    def leave(self) -> None:
        """Let the courier end."""
        self._closed = True
        self.errands.put(None)


def _serve(post: _Post, service: Service) -> None:
    """Send errands until the loop has left; runs in the courier's thread."""
    try:
        while not post.left:
            errand = post.errands.get()
            if errand is None or errand.abandoned:
                continue
            try:
                service.send(errand)
            except BaseException as error:
                errand.give(None, error)
            del errand  # so that its items are freed with the answer
    finally:
        service.end()


@final
class ForeignService(Service):
    """The user's executor, which is left running."""

    def __init__(
        self, fn: Callable[[Any], Any], drop: bool, tell: bool, executor: Executor
    ) -> None:
        self._fn = fn
        self._drop = drop
        self._tell = tell
        self._executor = executor
        self._futures: set[Future[Any]] = set()

    def send(self, errand: Errand) -> None:
        future = self._executor.submit(
            attempt_elsewhere, self._fn, errand.block, self._drop, self._tell
        )
        self._futures.add(future)
        future.add_done_callback(partial(deliver, errand))
        future.add_done_callback(self._futures.discard)

    def end(self) -> None:
        for future in list(self._futures):
            future.cancel()


def deliver(errand: Errand, future: Future[Any]) -> None:
    """Answer ``errand`` with the result or the error of ``future``, which is done."""
    try:
        result = future.result()
    except BaseException as error:
        errand.give(None, error)
    else:
        errand.give(result)
