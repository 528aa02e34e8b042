"""The place of a loop in the epochs of a pipeline, counted in consumed items.

Samplers, data sets, loaders and iterators have no separate place: all use the cursor.
"""

# The next items follow from the place alone, so a loop in this process and a loop resumed from its
# state go the same way:
#
# - before the first item of an epoch, the same epoch; the next epoch if nothing is left of a loaded
#   epoch;
# - after a finished loop, the next epoch;
# - after a loop left at its first batch, which was a look at the data, the same epoch from where
#   the loop began;
# - after a loop left later, the next epoch. If a state was saved during the loop, a resume would go
#   through the rest, so a new loop is refused until `end_epoch` or `load_state_dict` decides.

from __future__ import annotations

import copy
import weakref
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import resumable as rs
from resumable.consumed import ConsumedStates
from resumable.core.arguments import check_int
from resumable.core.epochs import in_epoch
from resumable.core.foreign_source import inexact_sources
from resumable.stages.partition import has_partitions
from resumable.state.encoding import dumps_frozen
from resumable.state.named import KEY, state_in
from resumable.state.value import State

from .callers import FIT_LOOPS, WRAPPERS, is_called_by
from .place import ONE, BatchSize, EpochProgress, Place

__all__ = ["KEY", "Cursor", "state_in"]

WAYS_ON: Final = (
    "Before you save and begin another loop, call end_epoch() of the ResumableDataLoader to leave the rest of the epoch "
    "out, or load_state_dict(state_dict()) to go through it"
)


class Cursor:
    """The epoch in progress, and its states; before the first item, the next epoch.

    Args:
      pipeline: one time through all items is an epoch.

    Attributes:
      pipeline: the argument.
      place: position of the cursor.
      carries_state: whether a function keeps its state across epochs.
      epochs_before: added to the numbers passed to `set_epoch` and `follow`.

    Raises:
      InvalidArgument: if a source can only be read once.
      ExternalStateError: if a source would lose items on a resume, and its policy is ``"fail"``.
    """

    def __init__(self, pipeline: rs.Pipeline[Any]) -> None:
        for stage, path in inexact_sources(pipeline.stage):
            if stage.reads_once:
                raise rs.InvalidArgument(
                    f"pipeline must be one that can be read again, got {stage!r} at {path}; pass "
                    "from_iterable a function that makes the iterator"
                )
        self.pipeline = pipeline
        self.place = Place(ConsumedStates(pipeline), 0)
        self.carries_state = self.place.states._carries_state
        self.epochs_before = 0
        self._is_owned = False
        # None for an owner ``for_ever``, and in a copy, whose loader is a copy.
        self._owner: weakref.ref[Any] | None = None

    @property
    def states(self) -> ConsumedStates[Any]:
        """The states of the epoch, from where the epoch began or was resumed."""
        return self.place.states

    @property
    def epoch(self) -> int:
        """Number of the epoch."""
        return self.place.epoch

    @property
    def progress(self) -> EpochProgress:
        """Progress in the epoch.

        Before counting, callers check that the cursor still has the same object.
        """
        return self.place.progress

    @property
    def has_owner(self) -> bool:
        """Whether a loader begins the epochs and counts the batches."""
        return self._is_owned and (self._owner is None or self._owner() is not None)

    def set_owner(self, loader: object, *, for_ever: bool) -> None:
        """Let ``loader`` begin the epochs while it exists, or ``for_ever`` if no other can.

        Raises:
          InvalidArgument: if another loader begins the epochs already.
        """
        if self._owner is not None and self._owner() not in (None, loader):
            raise rs.InvalidArgument(
                f"a sampler serves one loader at a time, got that of {self._owner()!r}: make another sampler, or del "
                "that loader first"
            )
        self._is_owned, self._owner = True, None if for_ever else weakref.ref(loader)

    def begin(self, any_consumed: bool, progress: EpochProgress) -> EpochProgress:
        """Begin an epoch: the resumed epoch, or the epoch of `set_epoch`, or the next epoch.

        Args:
          any_consumed: whether an item of the epoch in progress was consumed. If not, the same
            epoch begins again.
          progress: of the new loop. A resumed epoch with too few items left for a batch is over.
        """
        there, coming, by = self.place, self.place, "another loop"
        if there.is_begun and any_consumed:
            by = "set_epoch" if there.is_chosen else by
            passed = there.progress.items_of_workers(has_ended=False)
            coming = self._start_of(there.epoch + (not there.is_chosen), passed)
        elif self.epoch_to_come(progress.per_batch) != there.epoch:
            coming = self._start_of(there.epoch + 1, progress.per_batch.fewest)
        self._check_functions(coming)
        begun = Place(
            coming.states,
            coming.epoch,
            is_begun=True,
            is_led_by_state=coming.is_led_by_state,
            follows=coming.follows and not coming.is_begun,
            progress=progress,
        )
        self._move(begun, by)
        return progress

    def begin_loop(self, per_batch: BatchSize, *, is_ahead: bool) -> EpochProgress:
        """`begin` for a loop with counted batches.

        Args:
          per_batch: the items of a batch.
          is_ahead: whether batches are handed out later than received.

        Raises:
          InvalidArgument: if the previous loop was left within an epoch with a saved state, or two
            loops in a row were left at their first batch.
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
        progress = EpochProgress(per_batch, is_look, handed_out=0 if is_ahead else None)
        return self.begin(there.consumed > 0 and not is_look, progress)

    def begin_drawing(self, per_batch: BatchSize = ONE) -> EpochProgress:
        """Begin to deliver the items of an epoch in this process.

        An owner, if any, has begun the epoch.

        Raises:
          InvalidArgument: if an owner exists, and another caller requests the items.
        """
        progress = self.progress
        if not self.has_owner:
            progress = self.begin(progress.yielded > 0, EpochProgress(per_batch))
        else:
            self._refuse_others(self.place.is_begun and progress.block is None)
        progress.block = iter(())
        return progress

    def begin_in_worker(self, any_consumed: bool) -> EpochProgress:
        """Begin the epoch in a worker of torch, with a copy of the cursor of the loop.

        Raises:
          InvalidArgument: as `begin_drawing`.
        """
        if self.has_owner:
            self._refuse_others(self.place.is_begun)
        return self.begin(any_consumed, EpochProgress(self.progress.per_batch))

    def epoch_to_come(self, per_batch: BatchSize = ONE) -> int:
        """The epoch in progress; before its first item, the next epoch."""
        there, fewest = self.place, per_batch.fewest
        if not there.is_loaded or there.is_chosen:
            return there.epoch
        if fewest not in there.enough:
            there.enough[fewest] = there.states.has(fewest)
        return there.epoch if there.enough[fewest] else there.epoch + 1

    def end(self, *, has_ended: bool = False, end_before: dict[str, bytes] | None = None) -> None:
        """Go to the start of the next epoch.

        Args:
          has_ended: whether no more batches follow.
          end_before: as in `Place`.
        """
        there = self.place
        passed = 0 if there.is_loaded else there.progress.items_of_workers(has_ended)
        coming = self._start_of(there.epoch + 1, passed)
        self._move(replace(coming, end_before=end_before), "end_epoch")

    def leave_rest(self) -> None:
        """`end` the epoch if an item was received, or if a state within the epoch was loaded."""
        there = self.place
        if there.progress.consumed or (there.is_loaded and there.states.origin["step"] > 0):
            self.end()

    def count_from(self, number: int, per_batch: BatchSize) -> None:
        """Let ``number`` be the number of the next epoch, for `set_epoch` and `follow`."""
        is_over = self.progress.consumed > 0 and not self._is_look
        coming = self.epoch + 1 if is_over else self.epoch_to_come(per_batch)
        self.epochs_before = coming - number

    def set_epoch(self, number: int) -> None:
        """Let epoch ``number`` come next, or the rest of a resumed epoch.

        Raises:
          InvalidArgument: if a state of a later epoch was loaded, or a state was saved in an epoch
            that was left.
        """
        epoch = self._numbered(number)
        if epoch < self.epoch and self.place.is_loaded:
            raise rs.InvalidArgument(
                f"epoch must be at least {self.epoch - self.epochs_before}, where the loaded state resumes, got {number}: "
                "begin the loop over epochs at loader.epoch, or call count_epochs_from"
                f"({number}) after load_state_dict"
            )
        self._refuse_saved_rest()
        self._choose(epoch)

    def follow(self, number: int) -> None:
        """`set_epoch` by the loop of a framework; its numbers may start again, and never lead back.

        So a loaded place is kept, and a second loop of the framework over the same loader delivers
        new epochs.

        Raises:
          InvalidArgument: if a state was saved in an epoch that was left.
        """
        epoch = self._numbered(number)
        # Fabric gives the number of its loop, and each loop is an epoch anyway.
        if is_called_by(WRAPPERS):
            return
        if epoch > self.epoch or (epoch == self.epoch and self.place.is_loaded):
            if not is_called_by(FIT_LOOPS):  # Lightning says the epoch after a resume too
                self._refuse_saved_rest()
            self._choose(epoch)

    def state_dict(self, count: int) -> dict[str, bytes]:
        """The state after ``count`` items of the epoch, or at the end of a shorter epoch."""
        there = self.place
        self._check_functions(there)
        kept = there.progress.kept.get(count)
        return {KEY: kept or dumps_frozen(there.states.after(there.states.origin["step"] + count))}

    def state_after(self, batches: int) -> dict[str, bytes]:
        """The state after the first ``batches`` received by the loop."""
        progress = self.progress
        if batches and progress.shares is not None:
            return {KEY: dumps_frozen(progress.shares.before(progress.received - batches))}
        return self.state_dict(batches * progress.per_batch.items)

    def count_received(
        self, progress: EpochProgress, batches: int, state: bytes | None, worker: int | None
    ) -> None:
        """Count batches, unless the cursor has moved elsewhere.

        Args:
          progress: in the epoch of the batches.
          batches: number of batches.
          state: after the batches, if known.
          worker: number of the worker that made the batches, if it owns partitions.
        """
        if progress is not self.place.progress:
            return
        progress.received += batches
        if progress.shares is not None and worker is not None:
            progress.shares.count_received(worker, state)
        elif state is not None:
            count = progress.received * progress.per_batch.items
            self.states.keep(self.states.origin["step"] + count, state)

    def load(
        self, state_dict: Mapping[str, Any], *, is_chosen: bool = False, leads: bool = False
    ) -> None:
        """Go to a state, in the middle of its epoch.

        Args:
          state_dict: with the state.
          is_chosen: whether the epoch of the state comes next, even with nothing left.
          leads: whether the state alone decides which epoch comes next.

        Raises:
          StateMismatch: if the state belongs to another pipeline; the cursor then does not move.
        """
        state = self.states.checked(state_in(state_dict))
        self._move(self._loaded(state, is_chosen, leads), "load_state_dict")

    def __getstate__(self) -> dict[str, Any]:
        # A copy is independent, starting at the position of the loop.
        there = self.place
        if batches := there.progress.consumed:
            state = state_in(self.state_after(batches))
            place = self._loaded(state, has_partitions(self.pipeline.stage), leads=True)
            there.progress.is_saved = True
        else:
            block = None if there.progress.block is None else iter(())
            place = replace(
                there, progress=replace(there.progress, block=block, kept={}, shares=None)
            )
        return {
            **vars(self),
            "place": replace(place, states=copy.copy(place.states)),
            "_owner": None,
        }

    def _loaded(self, state: State, is_chosen: bool, leads: bool) -> Place:
        """The place of a state."""
        return Place(
            self.states.starting_at(state),
            int(state["epoch"]),
            is_loaded=True,
            is_chosen=is_chosen,
            is_led_by_state=leads,
        )

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
        there = coming = self.place
        if epoch != there.epoch:
            coming = self._start_of(epoch, there.progress.items_of_workers(has_ended=False))
        self._move(replace(coming, is_chosen=True, is_led_by_state=False), "set_epoch")

    @property
    def _is_left(self) -> bool:
        """Whether the loop has had a batch and the epoch has more; assumed for unknown lengths."""
        there, states = self.progress, self.place.states
        if not there.consumed:
            return False
        fewest = there.per_batch.fewest
        step = states.origin["step"] + there.consumed * there.per_batch.items
        if self.pipeline.random_access:
            with self.pipeline.resume(states.after(step)) as probe:
                return probe.skip(fewest) == fewest
        length = in_epoch(self.pipeline.stage, self.epoch).length
        return length is None or step + fewest <= length

    @property
    def _is_look(self) -> bool:
        """Whether the loop in progress has had only its first batch, and the epoch has more."""
        return self.progress.consumed == 1 and self._is_left

    def _refuse_saved_rest(self) -> None:
        """Refuse to leave out the rest of an epoch with a saved state, unless by `leave_rest`."""
        there = self.progress
        if there.is_saved and self._is_left:
            raise rs.InvalidArgument(
                f"the loop before was left after {there.consumed} batches of epoch {self.epoch}, and a state was saved "
                f"in it: a resume would go through the rest of that epoch, and this call would leave it out. {WAYS_ON}"
            )

    def _start_of(self, epoch: int, passed: int | None) -> Place:
        """The start of ``epoch``, with functions as they are after ``passed`` items of this epoch.

        In this process the functions were not called for these items, since there are none, or
        workers made the calls. If ``passed`` is None, this process has called the functions.
        """
        there = self.place
        states, unknown = there.states, there.unknown
        if self.carries_state and passed is not None:
            try:
                states._restore_functions(states.origin["step"] + passed)
            except Exception as error:  # matters only if another epoch follows
                unknown = error
        follows = there.is_begun and epoch == there.epoch + 1
        start = states.starting_at(states.first_of(epoch))
        return Place(start, epoch, follows=follows, unknown=unknown)

    def _check_functions(self, place: Place) -> None:
        if (unknown := place.unknown) is not None:
            raise rs.ExternalStateError(
                f"epoch {place.epoch} would go on with functions of {self.pipeline!r} that have a state "
                "of their own, and what they are after the items that workers made is not known: "
                f"{type(unknown).__name__}: {unknown}; set num_workers to 0, or train one "
                "epoch, over a pipeline that ends with repeat()"
            ) from unknown

    def _move(self, place: Place, by: str) -> None:
        before, self.place = self.place.progress, place
        if before is not place.progress:
            before.left_by = by
