"""A partition running in a worker."""

# Taking a state with many items takes long. So a state is not taken after each item: the position
# after an item, an `AfterItem`, then has an earlier state and the number of items since. The user
# of the state makes the later items again.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from time import perf_counter
from typing import Any, Final, NamedTuple, final

from ..core.best_effort import BestEffort
from ..core.failed_item import note_failed_item
from ..core.graph import walk
from ..core.skipped import iterators, skipped_items
from ..core.stage import Stage
from ..state.value import State, take_state
from .after_item import AfterItem, PackedState
from .failure import Failure
from .prefetching import PrefetchIterator
from .skips import DroppedItem, with_recorders
from .tally import MayDropItems
from .watching import CallWatch, ItemKey

LONGEST_SECONDS: Final = 0.05
"""Seconds of a task, beyond its first item."""
CHEAP_SECONDS: Final = 1e-4
"""Longest time, in seconds, for taking a state after each item."""
STATE_SHARE: Final = 4
"""Working time between two slow states, as a multiple of the time for taking a state."""
COUNTS: Final = BestEffort("counts of dropped items are")


class PartitionTask(NamedTuple):
    """Up to ``most`` items of partition ``number``, from ``position`` on.

    Attributes:
      run: a unique name for each epoch, and each resume.
      epoch: number of the epoch.
      dropped: items that kill their process, with the reason to report.
      log: path of a file for noting calls that may kill the process; None before any death.
    """

    run: str
    epoch: int
    number: int
    position: AfterItem
    most: int
    dropped: Mapping[ItemKey, str]
    log: str | None


class PartitionOutcome(NamedTuple):
    """The result of a task.

    Attributes:
      items: up to the first error.
      positions: of the partition, after each of ``items``.
      end: position at the end of the partition, if reached.
      failure: the error of the next item, if any.
      skips: items dropped meanwhile, if a listener wants them.
      skipped: number of items dropped by each stage in this epoch, by path after the partition;
        None if no stage may drop items.
    """

    items: list[Any]
    positions: list[AfterItem]
    end: AfterItem | None = None
    failure: Failure | None = None
    skips: Sequence[DroppedItem] = ()
    skipped: Mapping[str, int] | None = None


@final
class RunningPartition:
    """A partition in motion, from the position of ``task`` on.

    Args:
      pipeline: the stages in the partition.
      task: the first task.

    Attributes:
      made: number of items since the run began or was resumed.
    """

    def __init__(self, pipeline: Stage[Any], task: PartitionTask) -> None:
        self._skips: list[DroppedItem] = []
        self._pipeline = with_recorders(pipeline, self._skips)
        self._watch: CallWatch | None = None
        if task.log is not None or task.dropped:
            self._watch = CallWatch(self._pipeline, task.dropped, task.log)
            self._pipeline = self._watch.pipeline
        self._iterator = self._pipeline.start(task.epoch)
        if self._watch is not None:
            self._watch.root = self._iterator
        try:
            self._iterator.set_state(task.position.state())
            self._iterator.skip(task.position.beyond)
            if not self._reads_ahead():
                self._skips.clear()  # reported with the first delivery of these items
            self._items = iter(self._iterator.items())
        except BaseException:
            self.close()
            raise
        self.made = task.position.made
        self._exact = task.position  # the last position with its own state
        self._due = 0.0  # when the next exact position may be taken

    def deliver(self, most: int, log: str | None) -> PartitionOutcome:
        """Up to ``most`` further items, up to the first error; at least one, however long it takes.

        Calls are noted in the file ``log``, if given.
        """
        if self._watch is not None:
            self._watch.log = log
        items: list[Any] = []
        positions: list[AfterItem] = []
        end, failure = None, None
        ends = perf_counter() + LONGEST_SECONDS
        try:
            for item in islice(self._items, most):
                items.append(item)
                self.made += 1
                positions.append(self._take_position())
                if perf_counter() > ends:
                    break
            else:
                if len(items) < most:
                    end = self._take_exact_position()
        except BaseException as error:
            note_failed_item(error, self._iterator)
            failure = Failure(error)
        skips = self._skips[:]
        del self._skips[: len(skips)]
        return PartitionOutcome(items, positions, end, failure, skips, self._skipped())

    def get_state(self) -> State:
        """The state after the last item."""
        return self._iterator.get_state()

    def close(self) -> None:
        """Release the resources of the stages; may be called again."""
        self._iterator.close()

    def _reads_ahead(self) -> bool:
        """Whether a prefetch thread runs, with dropped items perhaps not reported yet."""
        found = iterators(self._iterator)
        return any(isinstance(one, PrefetchIterator) and one.reads_ahead for one in found)

    def _take_position(self) -> AfterItem:
        """The position after the last item, with a new state if due."""
        if perf_counter() >= self._due:
            return self._take_exact_position()
        exact, made = self._exact, self.made
        return AfterItem(exact.state, self._iterator.epoch, made, exact.beyond + made - exact.made)

    def _take_exact_position(self) -> AfterItem:
        """The position after the last item, with a new state."""
        began = perf_counter()
        state = take_state(self._iterator.get_state)
        now = perf_counter()
        self._due = now + STATE_SHARE * (now - began) if now - began > CHEAP_SECONDS else now
        self._exact = AfterItem(PackedState(state), self._iterator.epoch, self.made)
        return self._exact

    def _skipped(self) -> dict[str, int] | None:
        """How many items each stage has dropped."""
        stages = [stage for stage, _ in walk(self._pipeline)]
        if not any(isinstance(stage, MayDropItems) and stage.drops for stage in stages):
            return None
        return COUNTS(lambda: skipped_items(self._pipeline, self._iterator, ""), None)
