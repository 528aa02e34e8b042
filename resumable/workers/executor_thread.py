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
from functools import partial
from queue import Empty, SimpleQueue
from time import perf_counter
from typing import Any, Final, Protocol, final

from ..core.block import Block, block_length
from ..core.home_process import HomeProcess
from .answers import Answer, Job
from .chunk_work import LONGEST_SECONDS
from .sizes import approximate_bytes
from .threads import HEARTBEAT, PATIENCE, Threads, stop_at_exit, when_gone
from .workers import Outcome, Workers

CHUNK_SECONDS: Final = 0.01
LARGEST_CHUNK: Final = 4096
CHUNK_BYTES: Final = 1 << 23
GROWTH: Final = 4
HANDOVERS: Final = 8
"""How many times as long as its way to a worker and back a chunk takes, up to `MOST_SECONDS`."""
MOST_SECONDS: Final = 0.75 * LONGEST_SECONDS


@final
class Submission(Answer[Any]):
    """A chunk for a worker, and the answer to come.

    Attributes:
      block: its items.
      begins_epoch: whether it is the first chunk of its iterator.
      abandoned: whether the answer is no longer wanted.
      seconds: how long the executor had it, once it is answered.
    """

    def __init__(self, block: Block, begins_epoch: bool) -> None:
        super().__init__()
        self.block = block
        self.begins_epoch = begins_epoch
        self.abandoned = False
        self.seconds = 0.0
        self._sent = 0.0

    def note_sending(self) -> None:
        """Note that the executor gets it now."""
        self._sent = perf_counter()

    def give(self, value: Any, error: BaseException | None = None) -> None:
        """Answer with ``value``, or with ``error``."""
        self.seconds = perf_counter() - self._sent
        super().give(value, error)


class ExecutorService(ABC):
    """What the thread does with an executor."""

    @abstractmethod
    def send(self, submission: Submission) -> None:
        """Send ``submission`` to a worker, which answers it; an error raised here is the answer."""

    def check(self) -> None:  # noqa: B027  # most executors answer everything
        """Answer what the executor never will; called every second in which nothing is sent."""

    @abstractmethod
    def close(self) -> None:
        """Give up what was sent, and end the executor if it was started here."""


class Parcel(Protocol):
    """What a submission is answered with."""

    @property
    def seconds(self) -> float:
        """How long the worker took."""

    @property
    def size(self) -> int:
        """How many bytes the outcome has, about."""

    def open(self) -> Outcome:
        """The outcome in it; called once."""


class ExecutorWorkers(Workers):
    """Workers of an executor that only one thread calls.

    The size of a chunk is chosen by those before it, so that it takes about ten milliseconds, or more
    where the executor takes long to hand it to and fro. Neither its items nor its results have more
    than about 8 MB. One that takes much longer is cut short.
    """

    def __init__(self, service: ExecutorService) -> None:
        self._mailbox = _Mailbox(self)
        self._threads = Threads(1, "resumable-executor")
        self._serving = Job(partial(_serve, self._mailbox, service))
        self._serving_submitted = False
        self._begins_epoch = True
        self._least_handover = LONGEST_SECONDS
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

    def outcome(self, answer: Answer[Any], at: Callable[[], str]) -> Outcome:
        assert isinstance(answer, Submission)
        self.wait(answer, at)
        parcel: Parcel = answer.result()
        found = parcel.open()
        if found.tried:
            handover = answer.seconds - parcel.seconds
            self._adapt(answer.block, found.tried, parcel.seconds, handover, parcel.size)
        return found

    def wait(self, answer: Answer[Any], at: Callable[[], str]) -> None:
        while not answer.wait(HEARTBEAT):
            self._threads.check_alive()

    def _adapt(self, block: Block, tried: int, seconds: float, handover: float, size: int) -> None:
        """Choose the size of the next chunks.

        Args:
          block: a chunk.
          tried: how many of its items were tried.
          seconds: how long they took.
          handover: how much longer the executor had the chunk, in seconds.
          size: bytes of the outcome.
        """
        # The others had to wait for a worker.
        self._least_handover = min(self._least_handover, handover)
        worth_it = max(CHUNK_SECONDS, HANDOVERS * self._least_handover)
        in_time = min(worth_it, MOST_SECONDS) * tried / max(seconds, 1e-9)
        sent = approximate_bytes(block) / block_length(block)
        in_bytes = CHUNK_BYTES / max(size / tried, sent, 1)
        most = min(GROWTH * self.chunk_size, LARGEST_CHUNK)
        self.chunk_size = max(int(min(in_time, in_bytes, most)), 1)

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
            try:
                submission = mailbox.submissions.get(timeout=HEARTBEAT)
            except Empty:
                service.check()
                continue
            if submission is None or submission.abandoned:
                continue
            submission.note_sending()
            try:
                service.send(submission)
            except BaseException as error:
                submission.give(None, error)
            del submission  # so that its items are freed with the answer
    finally:
        service.close()
