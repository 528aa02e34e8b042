"""A thread that calls an executor for a loop which may be interrupted anywhere."""

# An executor has locks, which an interrupt in the middle of `submit` or `shutdown` would leave
# locked. So only one thread calls it. The loop puts submissions into the queue of that thread and waits for
# the answers, which the executor's own threads give.
#
# The frame of that thread refers to the executor. In a forked child this frame is never freed, so no
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
from .answers import Answer, Job
from .threads import PATIENCE, Threads, stop_at_exit, when_gone
from .workers import Outcome, Workers, attempt_elsewhere


@final
class Submission(Answer[Any]):
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


class ExecutorService(ABC):
    """What the thread does with an executor."""

    @abstractmethod
    def send(self, submission: Submission) -> None:
        """Send ``submission`` to a worker, which answers it; an error raised here is the answer."""

    @abstractmethod
    def close(self) -> None:
        """Give up what was sent, and end the executor if it was started here."""


class ExecutorWorkers(Workers):
    """Workers of an executor that only one thread calls."""

    def __init__(self, service: ExecutorService) -> None:
        self._mailbox = _Mailbox(self)
        self._threads = Threads(1, "resumable-executor")
        self._serving = Job(partial(_serve, self._mailbox, service))
        self._serving_submitted = False
        self._begins_epoch = True
        self._process = HomeProcess()

    def begin_epoch(self) -> None:
        self._begins_epoch = True

    def submit(self, block: Block) -> Submission:
        submission = Submission(block, self._begins_epoch)
        self._begins_epoch = False
        self._mailbox.submissions.put(submission)
        if not self._serving_submitted:
            self._threads.submit(self._serving)
            self._serving_submitted = True
        return submission

    def outcome(self, answer: Answer[Any]) -> Outcome:
        found: Outcome = self.wait_for_answer(answer)
        return found

    def wait_for_answer(self, answer: Answer[Any]) -> Any:
        """Wait for ``answer``; returns its value."""
        return self._threads.wait_for(answer)

    def abandon(self, answer: Answer[Any]) -> None:
        assert isinstance(answer, Submission)
        answer.abandoned = True

    def stop(self) -> None:
        if self._process.is_this_one():
            self._mailbox.stop()
            self._threads.stop()

    def close(self, seconds: float = PATIENCE) -> bool:
        self.stop()
        return self._threads.close(seconds)


class _Mailbox:
    """What the loop and the thread share; the thread refers to nothing else of the loop.

    Attributes:
      submissions: to be sent, in order; None makes the thread look whether it is to stop.
    """

    def __init__(self, owner: object) -> None:
        self.submissions: SimpleQueue[Submission | None] = SimpleQueue()
        self._owner = when_gone(owner, self.submissions)
        stop_at_exit(self)
        self._stopped = False

    @property
    def stopped(self) -> bool:
        """Whether the thread is to end: the loop has stopped it, or is gone."""
        return self._stopped or self._owner() is None

    def stop(self) -> None:
        """Let the thread end."""
        self._stopped = True
        self.submissions.put(None)


def _serve(mailbox: _Mailbox, service: ExecutorService) -> None:
    """Send submissions until the loop has stopped the thread; runs in the thread."""
    try:
        while not mailbox.stopped:
            submission = mailbox.submissions.get()
            if submission is None or submission.abandoned:
                continue
            try:
                service.send(submission)
            except BaseException as error:
                submission.give(None, error)
            del submission  # so that its items are freed with the answer
    finally:
        service.close()


@final
class ForeignService(ExecutorService):
    """The user's executor, which is left running."""

    def __init__(
        self, fn: Callable[[Any], Any], drop: bool, tell: bool, executor: Executor
    ) -> None:
        self._fn = fn
        self._drop = drop
        self._tell = tell
        self._executor = executor
        self._futures: set[Future[Any]] = set()

    def send(self, submission: Submission) -> None:
        future = self._executor.submit(
            attempt_elsewhere, self._fn, submission.block, self._drop, self._tell
        )
        self._futures.add(future)
        future.add_done_callback(partial(answer_with_result, submission))
        future.add_done_callback(self._futures.discard)

    def close(self) -> None:
        for future in list(self._futures):
            future.cancel()


def answer_with_result(submission: Submission, future: Future[Any]) -> None:
    """Answer ``submission`` with the result or the error of ``future``, which is done."""
    try:
        result = future.result()
    except BaseException as error:
        submission.give(None, error)
    else:
        submission.give(result)
