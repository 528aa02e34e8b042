"""A thread that calls an executor for a loop, so interrupts of the loop do no harm."""

# An executor has locks. An interrupt in the middle of `submit` or `shutdown` would leave the locks
# locked. So only one thread calls the executor. The loop puts requests into the queue of the thread
# and waits for the answers, given by the executor's own threads.
#
# The frame of the thread refers to the executor. In a forked child this frame is never freed, so no
# finalizer runs there on objects that only the parent can use.

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from time import perf_counter
from typing import Any, Final, final

from ..core.block import Block, block_length
from .answers import Job
from .chunk_work import LONGEST_SECONDS, Outcome
from .items_ahead import approximate_bytes
from .threads import Threads
from .workers import Workers

CHUNK_SECONDS: Final = 0.01
LARGEST_CHUNK: Final = 4096
CHUNK_BYTES: Final = 1 << 23
GROWTH: Final = 4
HANDOVERS: Final = 8
"""Target time of a chunk, as a multiple of its way to a worker and back, up to `MOST_SECONDS`."""
MOST_SECONDS: Final = 0.75 * LONGEST_SECONDS


@final
class ChunkJob(Job[Outcome]):
    """A chunk for a worker of an executor, and the outcome to come; the call sends the chunk.

    Attributes:
      block: the items of the chunk.
      begins_epoch: whether the chunk is the first of its iterator.
      seconds: time of the chunk in the executor, once answered.
    """

    def __init__(self, service: ExecutorService, block: Block, begins_epoch: bool) -> None:
        super().__init__(service.send)  # type: ignore[arg-type]
        self.block = block
        self.begins_epoch = begins_epoch
        self.seconds = 0.0
        self._sent = 0.0

    def give(self, value: Outcome | None, error: BaseException | None = None) -> None:
        """Answer with ``value``, or with ``error``."""
        self.seconds = perf_counter() - self._sent
        super().give(value, error)

    def _answer_with(self, call: Callable[..., Any]) -> None:
        self._sent = perf_counter()
        call(self)  # the executor answers


class ExecutorService(ABC):
    """The work of the thread with an executor."""

    @abstractmethod
    def send(self, request: ChunkJob) -> None:
        """Send ``request`` to a worker, which answers; an error raised here is the answer."""

    @abstractmethod
    def close(self) -> None:
        """Give up sent requests, and end the executor if started here."""


class ExecutorWorkers(Workers):
    """Workers of an executor called by a single thread.

    The size of a chunk is chosen by earlier chunks, so a chunk takes about ten milliseconds, or
    more if the executor takes long to hand chunks to and fro. Neither items nor results of a chunk
    exceed about 8 MB. A chunk that takes much longer is cut short.
    """

    def __init__(self, service: ExecutorService) -> None:
        self._service = service
        self._threads = Threads(1, "resumable-executor", last=Job(service.close))
        self._begins_epoch = True
        self._least_handover = LONGEST_SECONDS

    def begin_epoch(self) -> None:
        self._begins_epoch = True

    def submit(self, block: Block) -> ChunkJob:
        request = ChunkJob(self._service, block, self._begins_epoch)
        self._begins_epoch = False
        self._threads.submit(request)
        return request

    def outcome(self, answer: Job[Outcome], at: Callable[[], str]) -> Outcome:
        assert isinstance(answer, ChunkJob)
        outcome = super().outcome(answer, at)
        if outcome.tried:
            self._adapt(answer.block, answer.seconds, outcome)
        return outcome

    def _adapt(self, block: Block, seconds: float, outcome: Outcome) -> None:
        """Choose the size of the next chunks, after the executor had ``block`` for ``seconds``."""
        tried = outcome.tried
        # The least of all, since other chunks had to wait for a worker.
        self._least_handover = min(self._least_handover, seconds - outcome.seconds)
        worth_it = max(CHUNK_SECONDS, HANDOVERS * self._least_handover)
        in_time = min(worth_it, MOST_SECONDS) * tried / max(outcome.seconds, 1e-9)
        sent = approximate_bytes(block) / block_length(block)
        in_bytes = CHUNK_BYTES / max(outcome.size / tried, sent, 1)
        most = min(GROWTH * self.chunk_size, LARGEST_CHUNK)
        self.chunk_size = max(int(min(in_time, in_bytes, most)), 1)
