"""The place of a loop in the epochs of a pipeline, counted in consumed items."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import resumable as rs
from resumable.consumed import ConsumedStates
from resumable.core.arguments import check_int
from resumable.core.foreign_source import inexact_sources
from resumable.state.encoding import dumps_frozen
from resumable.state.named import KEY, state_in
from resumable.state.value import State

__all__ = ["KEY", "Cursor", "EpochProgress", "HasCursor", "state_in"]


@dataclass
class EpochProgress:
    """How far a loop is in an epoch. The cursor gets a new one whenever it goes elsewhere.

    Attributes:
      begun: whether the loop is in the epoch; otherwise this epoch comes next.
      resumed: whether it is the rest of an epoch that was resumed.
      follows: whether it comes after the epoch before, as persistent workers of torch expect.
      received: number of batches that the loop has received.
      has_ended: whether there are no more of them.
      worker_items: number of items that a batch of workers takes; 0 if this process makes the items.
      end_before: what a loader saves until the epoch begins: the state at the end of the epoch before, or
        None if it saves the state at the start of this one.
    """

    begun: bool = False
    resumed: bool = False
    follows: bool = False
    received: int = 0
    has_ended: bool = False
    worker_items: int = 0
    end_before: dict[str, bytes] | None = None


class Cursor:
    """The epoch in progress, and the states in it; before its first item, the next epoch.

    Args:
      pipeline: one time through all of its items is an epoch.

    Attributes:
      pipeline: the argument.
      epoch: number of the epoch.
      carries_state: whether a function has a state of its own, with which the next epoch goes on.
      progress: in the epoch. Whoever counts in it first checks that the cursor still has this one.

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
        self._chosen: int | None = None  # the argument of `set_epoch`
        self.carries_state = self._states._carries_state
        # Why it is not known what the functions are at the start of this epoch.
        self._unknown: Exception | None = None
        self.progress = EpochProgress()
        self._go_to(0)

    def begin(self, any_consumed: bool, fewest: int = 1) -> EpochProgress:
        """Begin an epoch: the resumed one, or that of `set_epoch`, or the next one.

        Args:
          any_consumed: whether an item of the previous epoch was consumed. If none was, that epoch
            begins again.
          fewest: the smallest number of items with which an epoch begins. If a resumed epoch has fewer
            left, it is over.
        """
        chosen, self._chosen = self._chosen, None
        again = self.progress.begun and any_consumed
        if chosen is not None:
            if again:
                self._go_to(chosen)
        elif again:
            self.end()
        elif self.epoch_to_come(fewest) != self.epoch:
            self._restore_functions(fewest)
            self._go_to(self.epoch + 1)
        self._check_functions()
        there = self.progress
        self.progress = EpochProgress(True, there.resumed, there.follows and not there.begun)
        return self.progress

    def epoch_to_come(self, fewest: int = 1) -> int:
        """The epoch in progress; before its first item, the next one."""
        if self.progress.begun or not self.progress.resumed or self._chosen is not None:
            return self.epoch
        if fewest not in self._known:
            self._known[fewest] = self._states.has(fewest)
        return self.epoch if self._known[fewest] else self.epoch + 1

    def left(self, most: int) -> int:
        """How many items are left of the epoch that comes next, up to ``most``."""
        return self._states.left(most)

    def end(self) -> None:
        """Go to the start of the next epoch."""
        self._go_to(self.epoch + 1, follows=True)

    def set_epoch(self, epoch: int) -> None:
        """Let ``epoch`` come next, or the rest of it if it was resumed."""
        self._chosen = check_int("epoch", epoch, minimum=0)
        if epoch != self.epoch:
            self._go_to(epoch, follows=self.progress.begun and epoch == self.epoch + 1)

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
        self._stand_at(self._states.checked(state_in(state_dict)), EpochProgress(resumed=True))
        self._chosen = self._unknown = None

    def produce(self, *, threads: bool = True) -> rs.PipelineIterator[Any]:
        """A new iterator at the start of the epoch, or where it was resumed."""
        return self._states.produce(threads=threads)

    @property
    def start_state(self) -> State:
        """The state with which the epoch began, or was resumed."""
        return self._states.origin

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_states": copy.copy(self._states)}  # a copy goes its own way

    def _go_to(self, epoch: int, *, follows: bool = False) -> None:
        there = self.progress
        if there.worker_items and (there.received or there.has_ended):
            # One batch more than were received is the end.
            self._restore_functions((there.received + there.has_ended) * there.worker_items)
        self._stand_at(self._states.first_of(epoch), EpochProgress(follows=follows))

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

    def _stand_at(self, state: State, progress: EpochProgress) -> None:
        self._states.start_at(state)
        self.progress = progress
        self.epoch = int(state["epoch"])
        # Whether a resumed epoch has at least this many items left.
        self._known: dict[int, bool] = {}


class HasCursor:
    """The common part of all classes that go through the epochs of a pipeline.

    Attributes:
      cursor: the place of the loop.
    """

    cursor: Cursor

    @property
    def fewest(self) -> int:
        """The smallest number of items with which an epoch begins."""
        return 1

    @property
    def epoch(self) -> int:
        """The epoch in progress; before its first item, the next one."""
        return self.cursor.epoch_to_come(self.fewest)

    def set_epoch(self, epoch: int) -> None:
        """Let ``epoch`` come next, or the rest of it if it was resumed."""
        self.cursor.set_epoch(epoch)
