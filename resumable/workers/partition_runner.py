"""The code that runs a partition in a worker."""

# A task says from which state on a partition is to deliver some items. So any worker can do it, also
# one that takes the place of a dead one. Usually the worker has done the partition's previous task,
# and still has its iterator, which stands at that very state.
#
# A state that holds many items takes long. Such a one is not taken after each item: the place after an item
# is then a state before it, and how many items came since. Whoever needs the state itself makes these again.

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice
from time import monotonic, perf_counter
from typing import Any, Final, NamedTuple, TypeAlias, final

from ..core.failed_item import note_failed_item
from ..core.graph import walk, without_threads
from ..core.skipped import skipped_items
from ..core.stage import Stage
from ..core.stage_iterator import StageIterator
from ..state.value import State, take_state
from .after_item import AfterItem, PackedState
from .failure import Failure
from .skips import DroppedItem, noting
from .tally import MayDropItems
from .watching import CallWatch, ItemKey

LONGEST_SECONDS: Final = 0.05
MOST_RUNNING: Final = 1 << 14
MOST_RUNS: Final = 8
CHEAP_SECONDS: Final = 1e-4
"""What the state after an item may take."""
STATE_SHARE: Final = 4
"""How many times as long as taking a dearer state the partition works before the next one is taken."""
IDLE_SECONDS: Final = 60.0
"""Seconds after which the partitions of a run are dropped if only other runs were at work meanwhile."""


Key: TypeAlias = tuple[str, int]
"""The run and the number of a partition."""


class PartitionTask(NamedTuple):
    """Up to ``most`` items of partition ``number``, from ``place`` on.

    Attributes:
      run: a name of its own for each epoch, and each resume.
      epoch: of the pass.
      dropped: items that end their process, with the reason to tell.
      log: path of a file in which to note what may end the process; None in usual work.
    """

    run: str
    epoch: int
    number: int
    place: AfterItem
    most: int
    dropped: Mapping[ItemKey, str]
    log: str | None


class Delivery(NamedTuple):
    """What a task has made.

    Attributes:
      items: up to the first that raised.
      places: that after each of them.
      end: the place at the end, if that was reached.
      failure: of the item after these, if it raised.
      skips: the items dropped meanwhile, where that is to be told.
      skipped: how many items each stage has dropped in this epoch, by its path after the partition; None
        if no stage may drop any.
    """

    items: list[Any]
    places: list[AfterItem]
    end: AfterItem | None = None
    failure: Failure | None = None
    skips: Sequence[DroppedItem] = ()
    skipped: Mapping[str, int] | None = None


class _Running(NamedTuple):
    """A partition in motion.

    Attributes:
      pipeline: its stages.
      iterator: of the last one.
      items: of the iterator.
      made: how many of them came since the run began or was resumed.
      skips: what is to be told.
      watch: who watches its calls, if somebody does.
      notes: of its places.
    """

    pipeline: Stage[Any]
    iterator: StageIterator[Any]
    items: Iterator[Any]
    made: int
    skips: list[DroppedItem]
    watch: CallWatch | None
    notes: _Notes


class _Notes:
    """Notes where a partition stands.

    After each item where that costs little; else as often as it takes a certain share of the time.
    """

    def __init__(self, iterator: StageIterator[Any], place: AfterItem) -> None:
        self._iterator = iterator
        self._last = place
        self._due = 0.0

    def place(self, made: int) -> AfterItem:
        """Where the partition stands, after ``made`` items."""
        if perf_counter() >= self._due:
            return self.exact_place(made)
        last = self._last
        return AfterItem(last.state, self._iterator.epoch, made, last.beyond + made - last.made)

    def exact_place(self, made: int) -> AfterItem:
        """The same, by a new state."""
        began = perf_counter()
        state = take_state(self._iterator.get_state)
        now = perf_counter()
        self._due = now + STATE_SHARE * (now - began) if now - began > CHEAP_SECONDS else now
        self._last = AfterItem(PackedState(state), self._iterator.epoch, made)
        return self._last


class _IdleRun:
    """The partitions of one run that are kept, at least one.

    Attributes:
      running: each by its number; the one used last is at the end.
      used: when the last one was kept, in monotonic seconds.
    """

    def __init__(self) -> None:
        self.running: dict[int, _Running] = {}
        self.used = 0.0


class _IdlePartitions:
    """The partitions that stand where their next task begins, up to `MOST_RUNNING` of `MOST_RUNS`."""

    # On an executor of the user's, another process may go on with a partition. What stands here is then of
    # no use any more, and nobody tells when its run is over. What is dropped too early is started again.

    def __init__(self) -> None:
        # The one used last is at the end.
        self._runs: OrderedDict[str, _IdleRun] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, key: Key, made: int) -> _Running | None:
        """The partition with this key, if it is here and has made so many items."""
        name, number = key
        with self._lock:
            running = self._removed(name, number)
        if running is not None and running.made != made:
            running.iterator.close()
            return None
        return running

    def keep(self, key: Key, running: _Running) -> None:
        """Keep a partition for its next task."""
        name, number = key
        with self._lock:
            run = self._runs.setdefault(name, _IdleRun())
            self._runs.move_to_end(name)
            run.running[number], run.used = running, monotonic()
            dropped = self._dropped(run.used)
        for one in dropped:
            one.iterator.close()

    def _dropped(self, now: float) -> list[_Running]:
        """Remove what is beyond the bounds; returns it."""
        dropped: list[_Running] = []
        while True:
            name, oldest = next(iter(self._runs.items()))
            many = len(self._runs) > MOST_RUNS
            if not many and (len(self._runs) == 1 or now - oldest.used < IDLE_SECONDS):
                break
            dropped += self._runs.pop(name).running.values()
        if sum(len(run.running) for run in self._runs.values()) > MOST_RUNNING:
            name, oldest = next(iter(self._runs.items()))
            number, one = next(iter(oldest.running.items()))
            self._removed(name, number)
            dropped.append(one)
        return dropped

    def _removed(self, name: str, number: int) -> _Running | None:
        """Remove a partition; a run of which none is left is removed too."""
        run = self._runs.get(name) or _IdleRun()
        running = run.running.pop(number, None)
        if not run.running:
            self._runs.pop(name, None)
        return running

    def end(self) -> None:
        """Close all that are here."""
        with self._lock:
            running = [one for run in self._runs.values() for one in run.running.values()]
            self._runs.clear()
        for one in running:
            one.iterator.close()


# In a process of a pool, which may live on from run to run.
_kept_here = _IdlePartitions()


@final
class PartitionRunner:
    """Delivers the items of tasks.

    It keeps the partitions in itself, so that they are freed with it; a copy in another process, which
    may be made for each task, in that process.

    Args:
      pipeline: makes the pipeline of a partition.
    """

    def __init__(self, pipeline: Callable[[int], Stage[Any]]) -> None:
        self._pipeline = pipeline
        self._kept = _IdlePartitions()

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (self._pipeline,)

    def __repr__(self) -> str:
        # An error that it cannot be pickled names it.
        return "the stages in the partitions"

    def __call__(self, task: PartitionTask) -> Delivery:
        """Deliver items, up to the first that raises.

        A task is cut short when it takes long, but has at least one item.
        """
        key = (task.run, task.number)
        running = self._kept.take(key, task.place.made) or self._started(task)
        if running.watch is not None:
            running.watch.log = task.log
        made = _make(running, task.most)
        if made.end is None and made.failure is None:
            self._kept.keep(key, running._replace(made=running.made + len(made.items)))
        else:
            running.iterator.close()
        return made

    def end(self) -> None:
        """Close the partitions that stand here."""
        self._kept.end()

    def _started(self, task: PartitionTask) -> _Running:
        skips: list[DroppedItem] = []
        pipeline, watch = noting(self._pipeline(task.number), skips), None
        if task.log is not None or task.dropped:
            watch = CallWatch(pipeline, task.dropped, task.log)
            pipeline = watch.pipeline
        iterator = pipeline.start(task.epoch)
        if watch is not None:
            watch.root = iterator
        try:
            iterator.set_state(task.place.state())
            iterator.skip(task.place.beyond)
            items = iter(iterator.items())
        except BaseException:
            iterator.close()
            raise
        notes = _Notes(iterator, task.place)
        return _Running(pipeline, iterator, items, task.place.made, skips, watch, notes)


def state_at(pipeline: Callable[[int], Stage[Any]], task: PartitionTask) -> State:
    """The state of a partition at the place of ``task``, where its items are made again up to there."""
    if not task.place.beyond:
        return task.place.state()
    running = PartitionRunner(lambda number: without_threads(pipeline(number)))._started(task)
    with closing(running.iterator) as iterator:
        return iterator.get_state()


def _make(running: _Running, most: int) -> Delivery:
    """Up to ``most`` further items, up to the first that raises; at least one, whatever it takes."""
    items: list[Any] = []
    places: list[AfterItem] = []
    end, failure = None, None
    ends = perf_counter() + LONGEST_SECONDS
    try:
        for item in islice(running.items, most):
            items.append(item)
            places.append(running.notes.place(running.made + len(items)))
            if perf_counter() > ends:
                break
        else:
            if len(items) < most:
                end = running.notes.exact_place(running.made + len(items))
    except BaseException as error:
        note_failed_item(error, running.iterator)
        failure = Failure(error)
    skips = running.skips[:]
    del running.skips[: len(skips)]
    return Delivery(items, places, end, failure, skips, _skipped(running))


def _skipped(running: _Running) -> dict[str, int] | None:
    """How many items each stage has dropped."""
    drops = any(
        isinstance(stage, MayDropItems) and stage.drops for stage, _ in walk(running.pipeline)
    )
    return skipped_items(running.pipeline, running.iterator, "") if drops else None


def _arrived(pipeline: Callable[[int], Stage[Any]]) -> PartitionRunner:
    """The copy of a runner in another process."""
    runner = PartitionRunner(pipeline)
    runner._kept = _kept_here
    return runner
