"""The code that runs a partition in a worker."""

# A task says from which state on a partition is to deliver some items. So any worker can do it, also
# one that takes the place of a dead one. Usually the worker has done the partition's previous task,
# and still has its iterator, which stands at that very state.

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from itertools import islice
from time import perf_counter
from typing import Any, Final, NamedTuple, final

from ..core.failed_item import note_failed_item
from ..core.graph import walk, without_threads
from ..core.skipped import skipped_items
from ..core.stage import Stage
from ..state.value import State
from .after_item import AfterItem
from .failure import Failure
from .idle_partitions import IdlePartitions
from .running_partition import PlaceNotes, RunningPartition
from .skips import DroppedItem, noting
from .tally import MayDropItems
from .watching import CallWatch, ItemKey

LONGEST_SECONDS: Final = 0.05


class PartitionTask(NamedTuple):
    """Up to ``most`` items of partition ``number``, from ``place`` on.

    Attributes:
      run: a name of its own for each epoch, and each resume.
      epoch: the number of that epoch.
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


# In a process of a pool, which may live on from run to run.
_kept_here = IdlePartitions()


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
        self._kept = IdlePartitions()

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

    def _started(self, task: PartitionTask) -> RunningPartition:
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
        notes = PlaceNotes(iterator, task.place)
        return RunningPartition(pipeline, iterator, items, task.place.made, skips, watch, notes)


def state_at(pipeline: Callable[[int], Stage[Any]], task: PartitionTask) -> State:
    """The state of a partition at the place of ``task``, where its items are made again up to there."""
    if not task.place.beyond:
        return task.place.state()
    running = PartitionRunner(lambda number: without_threads(pipeline(number)))._started(task)
    with closing(running.iterator) as iterator:
        return iterator.get_state()


def _make(running: RunningPartition, most: int) -> Delivery:
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


def _skipped(running: RunningPartition) -> dict[str, int] | None:
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
