"""The code that runs a partition in a worker."""

# A task says from which state on a partition is to deliver some items. So any worker can do it, also
# one that takes the place of a dead one. Usually the worker has done the partition's previous task,
# and still has its iterator, which stands at that very state.

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from itertools import islice
from time import monotonic, perf_counter
from typing import Any, Final, NamedTuple, TypeAlias, final

from ..core.failed_item import note_failed_item
from ..core.stage import Stage
from ..core.stage_iterator import StageIterator
from ..state.value import TakenState, take_state, taken_state
from .failure import Failure

LONGEST_SECONDS: Final = 0.05
MOST_RUNNING: Final = 1 << 14
MOST_RUNS: Final = 8
IDLE_SECONDS: Final = 60.0
"""Seconds after which the partitions of a run are dropped if only other runs were at work meanwhile."""


Key: TypeAlias = tuple[str, int]
"""The run and the number of a partition."""


class Place(NamedTuple):
    """Where a partition stands after an item.

    Attributes:
      state: of its pipeline.
      epoch: of the item.
      made: number of items since the run began or was resumed.
    """

    state: TakenState
    epoch: int
    made: int


class Task(NamedTuple):
    """Up to ``most`` items of partition ``number``, from ``place`` on.

    Attributes:
      run: a name of its own for each pass, and each resume.
      epoch: of the pass.
    """

    run: str
    epoch: int
    number: int
    place: Place
    most: int


class Delivery(NamedTuple):
    """What a task has made.

    Attributes:
      items: up to the first that raised.
      places: that after each of them.
      end: the place at the end, if that was reached.
      failure: of the item after these, if it raised.
    """

    items: list[Any]
    places: list[Place]
    end: Place | None = None
    failure: Failure | None = None


class _Running(NamedTuple):
    iterator: StageIterator[Any]
    items: Iterator[Any]
    made: int


class _Run:
    """The partitions of one run that are kept, at least one.

    Attributes:
      running: each by its number; the one used last is at the end.
      used: when the last one was kept, in monotonic seconds.
    """

    def __init__(self) -> None:
        self.running: dict[int, _Running] = {}
        self.used = 0.0


class _Kept:
    """The partitions that stand where their next task begins, up to `MOST_RUNNING` of `MOST_RUNS`."""

    # On an executor of the user's, another process may go on with a partition. What stands here is then of
    # no use any more, and nobody tells when its run is over. What is dropped too early is started again.

    def __init__(self) -> None:
        # The one used last is at the end.
        self._runs: OrderedDict[str, _Run] = OrderedDict()
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
            run = self._runs.setdefault(name, _Run())
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
        run = self._runs.get(name) or _Run()
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
_kept_here = _Kept()


@final
class PartRunner:
    """Delivers the items of tasks.

    It keeps the partitions in itself, so that they are freed with it; a copy in another process, which
    may be made for each task, in that process.

    Args:
      pipeline: makes the pipeline of a partition.
    """

    def __init__(self, pipeline: Callable[[int], Stage[Any]]) -> None:
        self._pipeline = pipeline
        self._kept = _Kept()

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (self._pipeline,)

    def __repr__(self) -> str:
        # An error that it cannot be pickled names it.
        return "the stages in the partitions"

    def __call__(self, task: Task) -> Delivery:
        """Deliver items, up to the first that raises.

        A task is cut short when it takes long, but has at least one item.
        """
        key = (task.run, task.number)
        iterator, source, made = self._kept.take(key, task.place.made) or self._started(task)
        items: list[Any] = []
        places: list[Place] = []
        end = None
        ends = perf_counter() + LONGEST_SECONDS
        try:
            for item in islice(source, task.most):
                items.append(item)
                made += 1
                places.append(_place_of(iterator, made))
                if perf_counter() > ends:
                    break
            else:
                if len(items) < task.most:
                    end = _place_of(iterator, made)
        except BaseException as error:
            note_failed_item(error, iterator)
            iterator.close()
            return Delivery(items, places, failure=Failure(error))
        if end is None:
            self._kept.keep(key, _Running(iterator, source, made))
        else:
            iterator.close()
        return Delivery(items, places, end)

    def end(self) -> None:
        """Close the partitions that stand here."""
        self._kept.end()

    def _started(self, task: Task) -> _Running:
        iterator = self._pipeline(task.number).start(task.epoch)
        try:
            iterator.set_state(taken_state(task.place.state))
            return _Running(iterator, iter(iterator.items()), task.place.made)
        except BaseException:
            iterator.close()
            raise


def _arrived(pipeline: Callable[[int], Stage[Any]]) -> PartRunner:
    """The copy of a runner in another process."""
    runner = PartRunner(pipeline)
    runner._kept = _kept_here
    return runner


def _place_of(iterator: StageIterator[Any], made: int) -> Place:
    return Place(take_state(iterator.get_state), iterator.epoch, made)
