"""A thread that deals with an executor for a loop which may be interrupted anywhere."""

# An executor has locks, which an interrupt in the midst of `submit` or `shutdown` would leave
# locked. So nobody but the courier calls it: the loop puts errands down for it, and looks for the
# answers, which the executor's own threads give. The courier holds the executor, and its frame
# outlives a fork in the child, where nothing therefore finalizes what only the parent can use.

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
    """A chunk on its way to a worker.

    Attributes:
      block: its items.
      begins_pass: whether it is the first one of its iterator.
      abandoned: whether nobody wants the answer any more.
    """

    def __init__(self, block: Block, begins_pass: bool) -> None:
        super().__init__()
        self.block = block
        self.begins_pass = begins_pass
        self.abandoned = False


class Service(ABC):
    """What the courier does; all of it in its own thread."""

    @abstractmethod
    def send(self, errand: Errand) -> None:
        """Have ``errand`` answered; an error out of here is the answer too."""

    @abstractmethod
    def end(self) -> None:
        """Let go of the executor."""


class CourierWorkers(Workers):
    """Workers that a courier deals with."""

    def __init__(self, service: Service) -> None:
        self._post = _Post(self)
        self._threads = Threads(1, "resumable-courier")
        self._round = Job(partial(_serve, self._post, service))
        self._on_the_way = False
        self._begins_pass = True
        self._process = HomeProcess()

    def begin_pass(self) -> None:
        self._begins_pass = True

    def submit(self, block: Block) -> Errand:
        errand = Errand(block, self._begins_pass)
        self._begins_pass = False
        self._post.errands.put(errand)
        if not self._on_the_way:
            self._threads.submit(self._round)
            self._on_the_way = True
        return errand

    def outcome(self, answer: Answer[Any]) -> Outcome:
        found: Outcome = self.answered(answer)
        return found

    def answered(self, answer: Answer[Any]) -> Any:
        """Wait for ``answer``."""
        return self._threads.wait_for(answer)

    def abandon(self, answer: Answer[Any]) -> None:
        assert isinstance(answer, Errand)
        answer.abandoned = True

    def close(self) -> bool:
        if not self._process.is_this_one():
            return True
        self._post.leave()
        return self._threads.close(PATIENCE)


class _Post:
    """What the loop shares with its courier, and all that the courier knows of it.

    Attributes:
      errands: to be done, in order; None is only a hint that the loop may have left.
    """

    def __init__(self, owner: object) -> None:
        self.errands: SimpleQueue[Errand | None] = SimpleQueue()
        self._owner = when_gone(owner, self.errands)
        leaves_at_exit(self)
        self._closed = False

    @property
    def left(self) -> bool:
        """Whether the loop wants nothing more."""
        return self._closed or self._owner() is None

    def leave(self) -> None:
        """Want nothing more."""
        self._closed = True
        self.errands.put(None)


def _serve(post: _Post, service: Service) -> None:
    """The courier."""
    try:
        while not post.left:
            errand = post.errands.get()
            if errand is None or errand.abandoned:
                continue
            try:
                service.send(errand)
            except BaseException as error:
                errand.give(None, error)
            del errand  # its items end with the answer
    finally:
        service.end()


@final
class ForeignService(Service):
    """An executor that is used, and left running."""

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
    """Answer ``errand`` with what ``future`` has, which is done."""
    try:
        result = future.result()
    except BaseException as error:
        errand.give(None, error)
    else:
        errand.give(result)
