"""Run whole partitions in workers; each worker keeps its partitions."""

# Each worker is a pool of one, so a partition always goes to the same worker. A partition has one
# task at a time. The next task is submitted when there is room for its items. Each item comes with
# an `AfterItem`, from which the state after the item follows. So the saved state follows the items
# handed out. If taking a state is slow, some items have no separate state: the `AfterItem` then has
# an earlier state, and `beyond`, the number of items since (running_partition.py).
#
# A task holds the `AfterItem` from which to continue. When a worker dies, another process replaces
# it, and the unfinished tasks of the dead worker are submitted again: one at a time, and only when
# their items are needed, until all are done. So a further death belongs to one partition.

from __future__ import annotations

import uuid
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import BrokenExecutor, Executor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar, final

from ..core.arguments import check_int
from ..core.home_process import HomeProcess
from ..core.skipped import skipped_items
from ..core.stage import Stage
from ..core.stage_iterator import DeferredState, ItemByItem, Items, StageIterator
from ..state.value import State
from .after_item import AfterItem, PackedState
from .answers import Job
from .chunk_work import Outcome
from .failure import Failure
from .foreign_executor import lane_of
from .idle_workers import NEW_WORKERS, WorkerSource
from .items_ahead import ItemsAhead
from .partition_server import PartitionServer, state_at
from .running_partition import PartitionOutcome, PartitionTask
from .skips import report_skips
from .watching import Call, CallLog, ItemKey
from .worker_call import check_call, check_executor
from .worker_deaths import PARTITIONS, Deaths, death_error, lost_error
from .workers import WorkerCall, Workers, WorkersLost, close_all, warn_still_busy

T = TypeVar("T")

NO_DEATHS: Final = Deaths(PARTITIONS)
MOST_SLOTS: Final = 16
"""Largest number of deliveries of one worker in shared memory at a time."""


class PartitionWorkersConfig(NamedTuple):
    """The workers for the partitions of a rank.

    Attributes:
      pipeline: makes the pipeline of a partition from its number.
      workers: number of threads or processes, 0 for none.
      executor: ``"thread"``, ``"process"``, or a running executor.
      buffer_size: number of items of each partition computed ahead; None to let the number grow.
    """

    pipeline: Callable[[int], Stage[Any]]
    workers: int
    executor: str | Executor
    buffer_size: int | None


def check_workers_config(config: PartitionWorkersConfig) -> None:
    """Refuse an impossible choice of workers.

    Raises:
      InvalidType: if ``executor`` is no executor, or a number is not an integer.
      InvalidArgument: if a number is out of range.
      MissingDependency: for processes without the extra ``parallel``.
    """
    check_executor(config.workers, config.executor)
    if config.buffer_size is not None:
        check_int("buffer_size", config.buffer_size, minimum=1)


@final
class PartitionPool:
    """The running workers of partitions; the workers start when the first item is requested.

    Args:
      config: workers and their work.
      stage: owner of the pool, for errors.
      epoch: number of the epoch.

    Attributes:
      config: the argument.
      stage: the argument.
      epoch: the argument.
      run: a unique name, for tasks.
      process: the owner of the workers.
    """

    def __init__(self, config: PartitionWorkersConfig, stage: Stage[Any], epoch: int) -> None:
        self.config = config
        self.stage = stage
        self.run = uuid.uuid4().hex
        self.epoch = epoch
        self._source: WorkerSource = NEW_WORKERS
        self._workers: list[_Worker] = []
        self._runners: list[PartitionServer] = []
        # Weak references, since partitions refer to this object: a cycle would keep the workers of
        # a dropped iterator running.
        self._partitions: list[weakref.ref[PartitionProxy[Any]]] = []
        self.process = HomeProcess()

    def add(self, number: int, inner: StageIterator[T]) -> PartitionProxy[T]:
        """Add partition ``number``, run by a worker from the position of ``inner``.

        ``inner`` is not moved.
        """
        partition: PartitionProxy[T] = PartitionProxy(self, number, inner)
        self._partitions.append(weakref.ref(partition))
        return partition

    def use_workers_of(self, source: WorkerSource) -> None:
        """Take workers from ``source``, and leave them there at the end of the epoch."""
        self._source = source

    def start(self) -> None:
        """Start the workers and submit the first tasks, once."""
        if self._workers:
            return
        count = min(self.config.workers, len(self._partitions))
        self._workers = [_Worker(self._acquire_worker(count)) for _ in range(count)]
        partitions = self._live_partitions()
        for index, partition in enumerate(partitions):
            partition.worker = self._workers[index % count]
            partition.ahead = ItemsAhead(self.config.buffer_size, len(partitions))
        for partition in partitions:
            partition.ask_ahead()

    def in_work(self, worker: _Worker) -> list[int]:
        """The numbers of the partitions with an unfinished task of ``worker``."""
        return [
            partition.number
            for partition in self._live_partitions()
            if partition.worker is worker and partition.in_work
        ]

    def release_if_done(self) -> None:
        """Release the workers once all items are computed."""
        if not all(partition.done for partition in self._live_partitions()):
            return
        if not self._source.closed:
            workers, self._workers = self._workers, []  # now the next epoch's
            for worker in workers:
                self._source.put(self.stage, worker.pool)
        self.close()

    def _acquire_worker(self, count: int) -> Workers:
        """A pool of one worker, out of ``count`` pools; kept from the last epoch if possible."""
        slots = min(-(-len(self._partitions) // count), MOST_SLOTS)
        runner = PartitionServer(self.config.pipeline)
        call = WorkerCall(runner, False, 1, lane_of(self.config.executor))
        if not self._runners:  # the runners are alike
            check_call(call)
        self._runners.append(runner)
        return self._source.take(self.stage, call, slots)

    def _live_partitions(self) -> list[PartitionProxy[Any]]:
        """The partitions still in use."""
        return [partition for found in self._partitions if (partition := found()) is not None]

    def close(self) -> None:
        """End the workers; may be called again."""
        if not self.process.is_this_one():
            return  # after a fork, the workers and their locks are the parent's
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.log.close()
        if not close_all([worker.pool for worker in workers]):
            warn_still_busy(self.stage, "their items are done")
        for runner in self._runners:
            runner.close()


@final
@dataclass(eq=False)
class _Worker:
    """One worker.

    Attributes:
      pool: a pool of one.
      deaths: number of deaths.
      suspects: partitions with tasks in work at a death. As long as suspects remain, a task is
        submitted only when its items are needed, and its calls are noted.
      log: where tasks note calls.
    """

    pool: Workers
    deaths: int = 0
    suspects: set[int] = field(default_factory=set)
    log: CallLog = field(default_factory=CallLog)


@final
class PartitionProxy(ItemByItem[T]):
    """Motion through a partition run by a worker; the state is the state of the partition.

    Attributes:
      number: of the partition.
      worker: of the partition, once workers have started.
      ahead: number of items computed ahead, once workers have started.
    """

    worker: _Worker
    ahead: ItemsAhead

    def __init__(self, pool: PartitionPool, number: int, inner: StageIterator[T]) -> None:
        self._pool = pool
        self.number = number
        # At the start of the worker, and never moved.
        self._inner = inner
        self._ready: deque[tuple[T, AfterItem]] = deque()
        self._handed_out: AfterItem | None = None
        self._received: AfterItem | None = None
        self._end: AfterItem | None = None
        self._failure: Failure | None = None  # of the item after the ready items
        self._answer: Job[Outcome] | None = None
        self._wanted = 0  # items of the task in work
        self._alone = False  # whether the task, of one item, is alone in the worker
        self._deaths = NO_DEATHS  # over this partition
        self._dropped: dict[ItemKey, str] = {}  # items that kill their worker
        self._skipped: Mapping[str, int] | None = None
        self._deaths_known = 0  # of the worker, when the task was submitted

    def items(self) -> Items[T]:
        return Items(self._iterate())

    def _iterate(self) -> Iterator[T]:
        while True:
            self._pool.process.check_workers_of(self._pool.stage)
            while not self._ready:
                if self._end is not None:
                    self._handed_out = self._end
                    return
                if self._failure is not None:
                    failure, self._failure = self._failure, None
                    failure.throw()
                self._pool.start()
                self._receive()
            item, self._handed_out = self._ready.popleft()
            self.ask_ahead()
            yield item

    def ask_ahead(self) -> None:
        """Let the worker make further items, if at least half of the buffer is free."""
        room = self.ahead.size - len(self._ready)
        is_idle = self._answer is None and self._end is None and self._failure is None
        if is_idle and not self.worker.suspects and room >= max(self.ahead.size // 2, 1):
            self._submit(room)

    def _submit(self, count: int) -> None:
        self._alone, self._deaths_known = bool(self.worker.suspects), self.worker.deaths
        log = self.worker.log.path if self._alone else None
        position = self._received or self._position
        self._wanted = count
        self._answer = self.worker.pool.submit([self._task(position, count, log)])

    def _task(self, position: AfterItem, most: int, log: str | None = None) -> PartitionTask:
        run, epoch = self._pool.run, self._pool.epoch
        return PartitionTask(run, epoch, self.number, position, most, self._dropped, log)

    def mark_ended(self) -> None:
        """Take the present position as the end; called before the first item."""
        self._end = self._position

    @property
    def done(self) -> bool:
        """Whether the last item was computed."""
        return self._end is not None

    @property
    def in_work(self) -> bool:
        """Whether an unfinished task was submitted."""
        return self._answer is not None and not self._answer.succeeded

    def _receive(self) -> None:
        """Wait for the items of the task in work; no items if the worker died."""
        if self._answer is None:
            self._submit(1)
        elif not self._answer.given:
            self.ahead.note_wait()
        answer, self._answer = self._answer, None
        assert answer is not None
        try:
            outcome = self.worker.pool.outcome(answer, self._at)
        except BrokenExecutor as error:
            self._note_death(error)
            return
        except WorkersLost as lost:
            raise lost_error(self._pool.stage, self._work_described(None), lost) from lost.reason
        if outcome.failure is not None:
            self._failure = outcome.failure
            return
        delivery: PartitionOutcome = outcome.results[0]
        self.worker.suspects.discard(self.number)
        self._deaths = NO_DEATHS
        self._ready.extend(zip(delivery.items, delivery.positions, strict=True))
        if delivery.positions:
            self._received = delivery.positions[-1]
        self._failure = delivery.failure
        self._skipped = delivery.skipped
        self.ahead.note_delivery(delivery.items, self._wanted)
        if delivery.end is not None:
            self._end = delivery.end
            self._pool.release_if_done()
        if delivery.skips:
            report_skips(self._pool.stage.inputs[0], delivery.skips)

    def _note_death(self, error: BaseException) -> None:
        worker = self.worker
        if self._deaths_known < worker.deaths:
            return  # a known death: two tasks were in work
        worker.deaths += 1
        self._deaths = self._deaths.and_one(self._alone, worker.log.read())
        if self._deaths.go_alone:
            worker.suspects.update(self._pool.in_work(worker), [self.number])
        if not self._deaths.too_many:
            return
        call, count = self._deaths.call, self._deaths.count
        died = death_error(self._pool.stage, self._work_described(call), error, count)
        if call is None or call.key is None or not self._deaths.alike:
            raise died from error
        self._dropped[call.key] = str(died)  # by the map, if it may drop items
        self._deaths = NO_DEATHS

    def _at(self) -> str:
        return f"{self._pool.stage!r}, at {self._work_described(None)}"

    def _work_described(self, call: Call | None) -> str:
        place = f"partition {self.number}, after {self._position.made} of its items in this run"
        return place if call is None else f"{call.words}, in {place}"

    def skipped_in(self, pipeline: Stage[T], path: str) -> dict[str, int]:
        """Number of items dropped by each stage of ``pipeline``, as reported by workers.

        Args:
          pipeline: of this partition.
          path: of the last stage of ``pipeline``.
        """
        if self._skipped is None:
            return skipped_items(pipeline, self._inner, path)
        return {f"{path}{below}": count for below, count in self._skipped.items()}

    @property
    def _position(self) -> AfterItem:
        return self._handed_out or AfterItem(
            PackedState(self._inner.get_state()), self._inner.epoch, 0
        )

    @property
    def epoch(self) -> int:
        return self._position.epoch

    def get_state(self) -> State:
        position = self._position
        state = self.defer_state()()
        if position.beyond and self._handed_out is position:
            # So later calls need not make the items again.
            self._handed_out = position._replace(state=PackedState(state), beyond=0)
        return state

    def defer_state(self) -> DeferredState:
        return partial(state_at, self._pool.config.pipeline, self._task(self._position, 0))

    def set_state(self, state: State) -> None:
        self._inner.set_state(state)

    def close(self) -> None:
        self._inner.close()
        self._pool.close()
