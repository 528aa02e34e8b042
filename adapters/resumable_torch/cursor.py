"""The place of a loop in the epochs of a pipeline, counted in consumed items.

Samplers, data sets, loaders and their iterators know no place of their own: they ask the cursor.
"""

# What comes next follows from the place alone, so that a loop in this process and one that resumes from its state
# go the same way:
#
# - before the first item of an epoch, that epoch; the next one if nothing is left of a loaded one;
# - after a loop that ended, the next epoch;
# - after a loop that was left at its first batch, which was a look at the data, the same epoch from where it began;
# - after a loop that was left later, the next epoch. If a state was saved in it, a resume would go through the rest, so
#   a new loop is refused until `end_epoch` or `load_state_dict` says what is meant.

from __future__ import annotations

import copy
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import length_hint
from typing import Any, Final

import resumable as rs
from resumable.consumed import ConsumedStates
from resumable.core.arguments import check_int
from resumable.core.epochs import in_epoch
from resumable.core.foreign_source import inexact_sources
from resumable.core.stage import Stage
from resumable.state.encoding import dumps_frozen
from resumable.state.named import KEY, state_in
from resumable.state.value import State

from .callers import FIT_LOOPS, WRAPPERS, is_called_by

__all__ = ["KEY", "Cursor", "DrawsItems", "EpochProgress", "HasCursor", "state_in"]

WAYS_ON: Final = (
    "Before you save and begin another loop, call end_epoch() of the ResumableDataLoader to leave the rest of the epoch "
    "out, or load_state_dict(state_dict()) to go through it"
)


@dataclass
class EpochProgress:
    """How far a loop is in an epoch. The cursor gets a new one whenever it goes elsewhere.

    Attributes:
      begun: whether the loop is in the epoch; otherwise this epoch comes next.
      resumed: whether it is the rest of an epoch that was resumed.
      follows: whether torch's persistent workers may be used again.
      chosen: whether this very epoch comes next: again from its start if it has begun, and as an empty rest if
        nothing is left of a resumed one.
      led_by_state: whether only a loaded state has said which epoch comes next.
      batch_items: number of items in a batch of the loop.
      fewest: the smallest number of items that make a batch.
      received: number of batches that the loader has given out.
      handed_out: how many of them the loop has; None if it has all, since none lie ahead of it.
      is_saved: whether a state was taken after a batch of this loop.
      is_second_look: whether the loop before was left at its first batch, which is also the first of this loop.
      has_ended: whether there are no more batches.
      worker_items: number of items that a batch of workers takes; 0 if this process makes the items.
      end_before: what a loader saves until the epoch begins: the state at the end of the epoch before, or
        None if it saves the state at the start of this one.
      is_drawn: whether a sampler or a data set delivers the items of the loop in this process.
      drawn: number of items that it has taken from the pipeline.
      block: those of the last of them that it has not yielded yet.
      left_by: the call that moved the cursor elsewhere; empty while the cursor is here.
    """

    begun: bool = False
    resumed: bool = False
    follows: bool = False
    chosen: bool = False
    led_by_state: bool = False
    batch_items: int = 1
    fewest: int = 1
    received: int = 0
    handed_out: int | None = None
    is_saved: bool = False
    is_second_look: bool = False
    has_ended: bool = False
    worker_items: int = 0
    end_before: dict[str, bytes] | None = None
    is_drawn: bool = False
    drawn: int = 0
    block: Iterator[Any] = field(default_factory=lambda: iter(()))
    left_by: str = ""

    @property
    def is_loaded(self) -> bool:
        """Whether a state was loaded and no loop has begun since."""
        return self.resumed and not self.begun

    @property
    def consumed(self) -> int:
        """How many batches the loop has received."""
        return self.received if self.handed_out is None else self.handed_out

    @property
    def yielded(self) -> int:
        """How many items were yielded in this process; the loop may have consumed fewer."""
        return self.drawn - length_hint(self.block)


class Cursor:
    """The epoch in progress, and the states in it; before its first item, the next epoch.

    Args:
      pipeline: one time through all of its items is an epoch.

    Attributes:
      pipeline: the argument.
      epoch: number of the epoch.
      carries_state: whether a function keeps its state across epochs.
      progress: in the epoch. Whoever counts in it first checks that the cursor still has this one.
      epochs_before: what is added to the numbers that `set_epoch` and `follow` get.

    Raises:
      InvalidArgument: if a source can only be read once.
      ExternalStateError: if a source would lose items on a resume, and its policy is ``"fail"``.
    """

    epoch: int
    progress: EpochProgress

    def __init__(self, pipeline: rs.Pipeline[Any]) -> None:
        for stage, path in inexact_sources(pipeline.stage):
            if stage.reads_once:
                raise rs.InvalidArgument(
                    f"pipeline must be one that can be read again, got {stage!r} at {path}; pass "
                    "from_iterable a function that makes the iterator"
                )
        self.pipeline = pipeline
        self._states: ConsumedStates[Any] = ConsumedStates(pipeline)
        self.carries_state = self._states._carries_state
        self.epochs_before = 0
        # Why it is not known what the functions are at the start of this epoch.
        self._unknown: Exception | None = None
        self._is_owned = False
        # None where that is for ever, and in a copy: its loader is a copy.
        self._owner: weakref.ref[Any] | None = None
        self.progress = EpochProgress()
        self._go_to(0, "")

    @property
    def has_owner(self) -> bool:
        """Whether a loader begins the epochs and counts the batches."""
        return self._is_owned and (self._owner is None or self._owner() is not None)

    def set_owner(self, loader: object, *, for_ever: bool) -> None:
        """Let ``loader`` begin the epochs as long as it exists, or ``for_ever`` where nobody else has what it draws from.

        Raises:
          InvalidArgument: if another loader begins them already.
        """
        if self._owner is not None and self._owner() not in (None, loader):
            raise rs.InvalidArgument(
                f"a sampler serves one loader at a time, got that of {self._owner()!r}: make another sampler, or del "
                "that loader first"
            )
        self._is_owned, self._owner = True, None if for_ever else weakref.ref(loader)

    def begin(self, any_consumed: bool, fewest: int = 1) -> EpochProgress:
        """Begin an epoch: the resumed one, or that of `set_epoch`, or the next one.

        Args:
          any_consumed: whether an item of the epoch in progress was consumed. If none was, that epoch
            begins again.
          fewest: the smallest number of items with which an epoch begins. If a resumed epoch has fewer
            left, it is over.
        """
        there = self.progress
        if there.begun and any_consumed:
            if there.chosen:
                self._go_to(self.epoch, "set_epoch")
            else:
                self.end("another loop")
        elif self.epoch_to_come(fewest) != self.epoch:
            self._restore_functions(fewest)
            self._go_to(self.epoch + 1, "another loop")
        self._check_functions()
        there = self.progress
        self._replace(
            EpochProgress(
                begun=True,
                resumed=there.resumed,
                follows=there.follows and not there.begun,
                led_by_state=there.led_by_state,
            ),
            "another loop",
        )
        return self.progress

    def begin_loop(self, batch_items: int, fewest: int) -> EpochProgress:
        """`begin` for a loop whose batches of ``batch_items`` items are counted.

        Raises:
          InvalidArgument: if the loop before was left within an epoch in which a state was saved, or two loops
            in a row were left at their first batch.
        """
        there = self.progress
        self._refuse_saved_rest()
        is_look = self._is_look
        if is_look and there.is_second_look:
            raise rs.InvalidArgument(
                f"two loops were left at the same first batch of epoch {self.epoch}, as by next(iter(loader)), which "
                "gives that batch each time. To look at it, call peek() of the ResumableDataLoader; to train on it, "
                f"keep the iterator. {WAYS_ON}"
            )
        progress = self.begin(there.consumed > 0 and not is_look, fewest)
        progress.is_second_look = is_look
        progress.batch_items, progress.fewest = batch_items, fewest
        return progress

    def begin_drawing(self, fewest: int = 1) -> EpochProgress:
        """Begin to deliver the items of an epoch in this process. If there is an owner, it has begun that epoch.

        Raises:
          InvalidArgument: if there is an owner, and something else asks for the items.
        """
        there = self.progress
        if not self.has_owner:
            there = self.begin(there.yielded > 0, fewest)
        else:
            self._refuse_others(there.begun and not there.is_drawn)
        there.is_drawn = True
        return there

    def begin_in_worker(self, any_consumed: bool) -> None:
        """Begin the epoch in a worker of torch, which has a copy of the cursor of the loop.

        Raises:
          InvalidArgument: as `begin_drawing`.
        """
        if self.has_owner:
            self._refuse_others(self.progress.begun)
        self.begin(any_consumed)

    def epoch_to_come(self, fewest: int = 1) -> int:
        """The epoch in progress; before its first item, the next one."""
        if not self.progress.is_loaded or self.progress.chosen:
            return self.epoch
        if fewest not in self._known:
            self._known[fewest] = self._states.has(fewest)
        return self.epoch if self._known[fewest] else self.epoch + 1

    def left(self, most: int) -> int:
        """How many items are left of the epoch that comes next, up to ``most``."""
        return self._states.left(most)

    def end(self, by: str) -> None:
        """Go to the start of the next epoch."""
        if self.progress.is_loaded:
            self._restore_functions(0)
        self._go_to(self.epoch + 1, by, follows=True)

    def leave_rest(self) -> None:
        """`end` the epoch if an item of it was received, or if a state within it was loaded."""
        there = self.progress
        if there.consumed or (there.is_loaded and self.start_state["step"] > 0):
            self.end("end_epoch")

    def count_from(self, number: int, fewest: int) -> None:
        """Let ``number`` be that of the epoch that comes next, for `set_epoch` and `follow`."""
        is_over = self.progress.consumed > 0 and not self._is_look
        coming = self.epoch + 1 if is_over else self.epoch_to_come(fewest)
        self.epochs_before = coming - number

    def set_epoch(self, number: int) -> None:
        """Let epoch ``number`` come next, or the rest of it if it was resumed.

        Raises:
          InvalidArgument: if a state of a later epoch was loaded, or a state was saved in an epoch that was left.
        """
        epoch, there = self._numbered(number), self.progress
        if epoch < self.epoch and there.is_loaded:
            raise rs.InvalidArgument(
                f"epoch must be at least {self.epoch - self.epochs_before}, where the loaded state resumes, got {number}: "
                "begin the loop over epochs at loader.epoch, or call count_epochs_from"
                f"({number}) after load_state_dict"
            )
        self._refuse_saved_rest()
        self._choose(epoch)

    def follow(self, number: int) -> None:
        """`set_epoch` by the loop of a framework, whose numbers may begin again: they never lead back.

        So a loaded place is kept, and a second loop of the framework over the same loader delivers new epochs.

        Raises:
          InvalidArgument: if a state was saved in an epoch that was left.
        """
        epoch = self._numbered(number)
        # Fabric gives the number of its loop, and each loop is an epoch anyway.
        if is_called_by(WRAPPERS):
            return
        if epoch > self.epoch or (epoch == self.epoch and self.progress.is_loaded):
            if not is_called_by(FIT_LOOPS):  # Lightning says the epoch after a resume too
                self._refuse_saved_rest()
            self._choose(epoch)

    def state_dict(self, count: int) -> dict[str, bytes]:
        """The state after ``count`` items of the epoch, or at its end if it has fewer."""
        self._check_functions()
        return {KEY: dumps_frozen(self._states.after(self._states.origin["step"] + count))}

    def keep(self, count: int, data: bytes) -> None:
        """Record the state after ``count`` items of the epoch, serialised by `resumable.dumps`."""
        self._states.keep(self._states.origin["step"] + count, data)

    def state_of(self, iterator: rs.PipelineIterator[Any]) -> dict[str, bytes]:
        """The state of an iterator over the pipeline."""
        return {KEY: dumps_frozen(iterator.get_state())}

    def load(self, state_dict: Mapping[str, Any]) -> None:
        """Go to a state, in the middle of its epoch.

        Raises:
          StateMismatch: if it belongs to another pipeline; the cursor then stays where it is.
        """
        state = self._states.checked(state_in(state_dict))
        self._stand_at(state, EpochProgress(resumed=True), "load_state_dict")
        self._unknown = None

    def produce(self, *, threads: bool = True) -> rs.PipelineIterator[Any]:
        """A new iterator at the start of the epoch, or where it was resumed."""
        return self._states.produce(threads=threads)

    @property
    def start_state(self) -> State:
        """The state with which the epoch began, or was resumed."""
        return self._states.origin

    @property
    def uses_objects(self) -> bool:
        """Whether the pipeline has functions or sources that cannot serve two iterators at a time."""
        return self._states._has_own_state

    def __getstate__(self) -> dict[str, Any]:
        progress = replace(self.progress, block=iter(()))
        # A copy goes its own way.
        return {
            **vars(self),
            "_states": copy.copy(self._states),
            "_owner": None,
            "progress": progress,
        }

    def _refuse_others(self, is_owners: bool) -> None:
        if not is_owners:
            raise rs.InvalidArgument(
                "the sampler or data set of a ResumableDataLoader was iterated by something else, such as "
                "skip_first_batches of Accelerate, whose batches the loader cannot count: loop over the loader as it "
                "is; after load_state_dict it continues at the next batch"
            )

    def _numbered(self, number: int) -> int:
        return check_int("epoch", number, minimum=0) + self.epochs_before

    def _choose(self, epoch: int) -> None:
        if epoch != self.epoch:
            follows = self.progress.begun and epoch == self.epoch + 1
            self._go_to(epoch, "set_epoch", follows=follows)
        self.progress.chosen, self.progress.led_by_state = True, False

    @property
    def _is_left(self) -> bool:
        """Whether the loop in progress has had a batch, and the epoch more; of a stream without a length, that is assumed."""
        there = self.progress
        if not there.consumed:
            return False
        step = self._states.origin["step"] + there.consumed * there.batch_items
        if self.pipeline.random_access:
            with self._states.pipeline.resume(self._states.after(step)) as probe:
                return probe.skip(there.fewest) == there.fewest
        length = in_epoch(self.pipeline.stage, self.epoch).length
        return length is None or step + there.fewest <= length

    @property
    def _is_look(self) -> bool:
        """Whether the loop in progress has had its first batch alone, and the epoch has more."""
        return self.progress.consumed == 1 and self._is_left

    def _refuse_saved_rest(self) -> None:
        """Refuse to leave out the rest of an epoch in which a state was saved, unless `leave_rest` has done so."""
        there = self.progress
        if there.is_saved and self._is_left:
            raise rs.InvalidArgument(
                f"the loop before was left after {there.consumed} batches of epoch {self.epoch}, and a state was saved "
                f"in it: a resume would go through the rest of that epoch, and this call would leave it out. {WAYS_ON}"
            )

    def _go_to(self, epoch: int, by: str, *, follows: bool = False) -> None:
        there = self.progress
        if there.worker_items and (there.received or there.has_ended):
            # One batch more than were received is the end.
            self._restore_functions((there.received + there.has_ended) * there.worker_items)
        self._stand_at(self._states.first_of(epoch), EpochProgress(follows=follows), by)

    def _restore_functions(self, count: int) -> None:
        """Let the next epoch begin with functions as they are after ``count`` items of this one.

        In this process they were not called for these items, but for none, or by workers.
        """
        if self.carries_state:
            try:
                self._states._restore_functions(self._states.origin["step"] + count)
            except Exception as error:  # it matters only if there is another epoch
                self._unknown = error

    def _check_functions(self) -> None:
        if self._unknown is not None:
            raise rs.ExternalStateError(
                f"epoch {self.epoch} would go on with functions of {self.pipeline!r} that have a state "
                "of their own, and what they are after the items that workers made is not known: "
                f"{type(self._unknown).__name__}: {self._unknown}; set num_workers to 0, or train one "
                "epoch, over a pipeline that ends with repeat()"
            ) from self._unknown

    def _stand_at(self, state: State, progress: EpochProgress, by: str) -> None:
        self._states.start_at(state)
        self._replace(progress, by)
        self.epoch = int(state["epoch"])
        # Whether a resumed epoch has at least this many items left.
        self._known: dict[int, bool] = {}

    def _replace(self, progress: EpochProgress, by: str) -> None:
        self.progress.left_by, self.progress = by, progress


class HasCursor:
    """The common part of all classes that go through the epochs of a pipeline.

    Attributes:
      cursor: the place of the loop.
    """

    cursor: Cursor

    @property
    def _stage(self) -> Stage[Any]:
        return self.cursor.pipeline.stage

    @property
    def fewest(self) -> int:
        """The smallest number of items with which an epoch begins."""
        return 1

    @property
    def epoch(self) -> int:
        """The epoch in progress; before its first item, the next one."""
        return self.cursor.epoch_to_come(self.fewest)

    def set_epoch(self, epoch: int) -> None:
        """Let ``epoch`` come next, or the rest of it if it was resumed.

        Raises:
          InvalidArgument: if a state of a later epoch was loaded.
        """
        self.cursor.set_epoch(epoch)


class DrawsItems(HasCursor):
    """A sampler or a data set: it delivers the items of an epoch ahead of the loop, if no loader counts them."""

    @property
    def items_of_one(self) -> int:
        """Number of items of the pipeline in what it yields at a time."""
        return 1

    def set_epoch(self, epoch: int) -> None:
        """Let ``epoch`` come next, or the rest of it if it was resumed.

        If a loader owns it, the number never leads back: a loaded place is kept, and epochs go on.

        Raises:
          InvalidArgument: if no loader owns it, and a state of a later epoch was loaded.
        """
        cursor = self.cursor
        (cursor.follow if cursor.has_owner else cursor.set_epoch)(epoch)

    def state_dict(self, consumed: int | None = None) -> dict[str, bytes]:
        """The state after what the loop has consumed.

        Args:
          consumed: number of items, or of batches if it yields batches, that the loop has consumed since the epoch
            began or was resumed. By default, the number of those yielded, which is right only where nothing runs
            ahead.
        """
        if consumed is None:
            return self.cursor.state_dict(self.cursor.progress.yielded)
        count = check_int("consumed", consumed, minimum=0)
        return self.cursor.state_dict(count * self.items_of_one)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue at ``state_dict`` in the next loop.

        Raises:
          StateMismatch: if it belongs to another order.
        """
        self.cursor.load(state_dict)
