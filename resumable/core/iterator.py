"""The outermost iterator: atomic restore, and exact positions whatever user code raises."""

# An exception out of a user function leaves the stages below it ahead of the stages above.
# No stage undoes that by itself. This iterator keeps a recent good state and knows the number
# of items handed out since. After an exception these two are its position: `get_state` returns
# them without running anything, and the next call starts the pipeline anew from the good
# state, draws as many items again, and so tries the same item again. Whoever took a state just
# before the exception sees the same one after it, since each state taken is the good state.

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from time import perf_counter
from typing import Any, TypeVar

from ..errors import (
    ExternalStateError,
    InvalidType,
    IteratorClosed,
    StateMismatch,
    UnencodableState,
)
from ..state.value import State, freeze, unpack, unpack_count
from .arguments import check_int
from .block import Block, block_length
from .external_source import apply_policy, inexact_sources
from .fingerprint import explain_mismatch, fingerprint
from .graph import walk
from .stage import EPOCHS, ITEMS, NOTHING, RANK, Stage
from .stage_iterator import StageIterator

T = TypeVar("T")
R = TypeVar("R")

# Snapshots take about 1/SNAPSHOT_SHARE of the time, so what an exception costs to undo
# is about SNAPSHOT_SHARE times what a state costs to take.
SNAPSHOT_SHARE = 100
LONGEST_INTERVAL = 1 << 16
UNPREPARED: Iterator[Any] = iter(())
EVERYTHING = ITEMS | EPOCHS | RANK


class PipelineIterator(StageIterator[T]):
    """A running pass through a pipeline.

    State: ``fingerprint`` (what identifies the pipeline), ``epoch``, ``step``, the nested
    positions of the stages, and ``ahead``, the number of items handed out since these
    positions: 0, except after an exception. Taking it is O(number of stages).

    Attributes:
      step: number of items handed out since the very first start, across resumes.
    """

    def __init__(self, stage: Stage[T], epoch: int = 0) -> None:
        self._stage = stage
        self._fingerprint = fingerprint(stage)
        self._inexact = list(inexact_sources(stage))
        self._closed = False
        self.step = 0
        self._start_epoch = epoch
        # A state of the root, once one could be taken, and the step it was taken at.
        self._good: tuple[State | None, int] = (None, 0)
        self._items: Iterator[T]
        self._ended: Callable[[], bool]
        self._root = stage.start(epoch)
        self._resume_at(0)

    def __next__(self) -> T:
        # What an interrupt could cut short comes before the item is drawn, not after.
        if self.step >= self._due:
            self._prepare()
        try:
            item = next(self._items)
            self.step += 1
        except StopIteration:
            if self._ended():
                raise
            self._fail()
            raise RuntimeError("a user function raised StopIteration") from None
        except BaseException as error:
            self._fail()
            self._name_stage(error)
            raise
        return item

    def pull(self, count: int) -> Block:
        """Up to ``count`` items as a block; fewer only at the end."""
        if self.step >= self._snapshot_step:
            self._snapshot()
        return self._moved(lambda root: root.pull(count) if count else [], count, block_length)

    def skip(self, count: int) -> int:
        """Pass over up to ``count`` items; returns how many, fewer only at the end.

        O(1) where items are looked up by index. Functions of the pipeline are called only where
        what comes later depends on it: by ``filter``, ``flat_map``, ``scan``, in workers, or where
        they carry state.
        """
        passed = self._moved(lambda root: root.skip(count) if count else 0, count, int)
        self._snapshot_step = self.step  # an exception must not cost as much as what was passed
        return passed

    @property
    def epoch(self) -> int:
        """The epoch of the last item handed out; before any, the first one."""
        return self._root.epoch

    def get_state(self) -> State:
        """The position as a new value, which later use of the iterator never changes.

        Raises:
          ExternalStateError: if a source can neither report nor restore its position.
          UnencodableState: if a stage holds a value without an exact serialised form.
        """
        for stage, path in self._inexact:
            apply_policy(stage, path, stage.inexact_policy or "ignore", stacklevel=2)
        if not self._failed:
            self._good = (self._root.get_state(), self.step)
        positions, ahead = self._last_good()
        return self._described(positions, self.step, ahead)

    def state_after(self, count: int) -> tuple[State, int] | None:
        """The state after up to ``count`` more items, and how many those are; nothing moves.

        O(1) where items are looked up by index; None elsewhere, where only moving tells, and after
        an error.
        """
        found = None if self._failed else self._root.state_at(count)
        if found is None:
            return None
        positions, moved = found
        return self._described(positions, self.step + moved, 0), moved

    def set_state(self, state: State) -> None:
        """Continue at ``state``, whatever this iterator did before.

        Raises:
          StateMismatch: naming the stage that refused, with both values; this iterator is
            then where it was.
        """
        self._check_open()
        try:
            state = freeze(state)
        except UnencodableState as error:
            raise StateMismatch(f"this is no state: {error}", self._stage) from None
        names = ("fingerprint", "epoch", "step", "ahead", "pipeline")
        saved, epoch, step, ahead, positions = unpack(self._stage, state, *names)
        step = unpack_count(self._stage, "step", step)
        ahead = unpack_count(self._stage, "ahead", ahead, step, f"step={step}")
        relied_on = EVERYTHING if ahead else NOTHING
        if reason := explain_mismatch(saved, self._stage, relied_on):
            raise StateMismatch(f"the state belongs to another pipeline: {reason}", self._stage)
        epoch = unpack_count(self._stage, "epoch", epoch)
        root = self._started(epoch, positions)
        self._root.close()
        self._root, self._start_epoch = root, epoch
        self._resume_at(step - ahead)
        if ahead:
            self.step = step
            self._fail()

    def close(self) -> None:
        """End threads and release files; may be called again. The state stays readable."""
        if not self._closed:
            self._closed = True
            self._stop()
            self._root.close()

    def __reduce__(self) -> str:
        raise InvalidType("a running iterator cannot be pickled or copied; use get_state()")

    def __enter__(self) -> PipelineIterator[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        closed = "closed " if self._closed else ""
        return f"<{closed}iterator at step {self.step}, epoch {self.epoch} of {self._stage!r}>"

    def _described(self, positions: State, step: int, ahead: int) -> State:
        return {
            # The items to be drawn again are counted: everything that groups them must be equal.
            "fingerprint": fingerprint(self._stage, EVERYTHING) if ahead else self._fingerprint,
            "epoch": self._start_epoch,
            "step": step,
            "ahead": ahead,
            "pipeline": freeze(positions),
        }

    def _moved(
        self, move: Callable[[StageIterator[T]], R], count: int, length: Callable[[R], int]
    ) -> R:
        """What ``move`` returns for the root, which passes ``length`` of it items."""
        self._check_open()
        if self._failed:
            self._recover()
        check_int("count", count, minimum=0, maximum=sys.maxsize)
        try:
            result = move(self._root)
            self._stop()  # `items` is valid only until the next `pull`
            self.step += length(result)
        except BaseException as error:
            self._fail()
            if isinstance(error, StopIteration):
                raise RuntimeError("a user function raised StopIteration") from error
            self._name_stage(error)
            raise
        return result

    def _resume_at(self, step: int) -> None:
        """Count from ``step``, where the root stands now."""
        self.step = step
        self._failed = False
        self._stop()
        self._good = (None, step)
        self._interval = 1
        self._last_snapshot = perf_counter()
        self._snapshot()

    def _prepare(self) -> None:
        """Do what must come before the next item, one check of which costs as little as it can."""
        if self.step >= self._snapshot_step:
            self._snapshot()
        if self._items is UNPREPARED:
            self._check_open()
            if self._failed:
                self._recover()
            # Never of this object: a cycle would keep dropped threads running.
            items = self._root.items()
            # The end first: where there are items, it is theirs.
            self._ended = items.ended
            self._items = iter(items.iterator)
        self._due = self._snapshot_step

    def _stop(self) -> None:
        """Drop what gives the next item, so that `_prepare` makes it anew."""
        self._items = UNPREPARED
        # Invariant: `_prepare` runs before the next item wherever `step` has come to this.
        self._due = 0

    def _snapshot(self) -> None:
        """Remember where we are, and when to do so again."""
        if self._failed:
            return
        started = perf_counter()
        # A state that cannot be taken is the user's concern when asking for one, not here.
        with suppress(Exception):
            self._good = (self._root.get_state(), self.step)
        now = perf_counter()
        budget = SNAPSHOT_SHARE * (now - started)
        elapsed = started - self._last_snapshot
        if elapsed < budget:
            self._interval = min(2 * self._interval, LONGEST_INTERVAL)
        elif elapsed > 4 * budget:
            self._interval = max(self._interval // 2, 1)
        self._last_snapshot = now
        self._snapshot_step = self.step + self._interval

    def _fail(self) -> None:
        self._failed = True
        self._stop()

    def _recover(self) -> None:
        """Return to the position of the last item handed out."""
        positions, missing = self._last_good()
        self._root.close()
        self._root = self._started(self._start_epoch, positions)
        try:
            drawn = self._root.skip(missing)
        except StopIteration as error:
            raise RuntimeError("a user function raised StopIteration") from error
        except StateMismatch as error:
            self._name_stage(error)
            raise
        if drawn < missing:
            raise StateMismatch(
                f"{missing - drawn} items handed out before could not be drawn again: the source "
                "delivers fewer items than before"
            )
        self._failed = False

    def _last_good(self) -> tuple[State, int]:
        """The last good state, and the number of items handed out since."""
        positions, step = self._good
        if positions is None:
            raise ExternalStateError(
                "an error interrupted the pipeline, and no state to go back to could be taken"
            )
        return positions, self.step - step

    def _started(self, epoch: int, positions: Any) -> StageIterator[T]:
        """A new root at ``positions``; nothing is left running if they are refused."""
        root = self._stage.start(epoch)
        try:
            root.set_state(positions)
        except BaseException as error:
            root.close()
            self._name_stage(error)
            raise
        return root

    def _name_stage(self, error: BaseException) -> None:
        """Say in a mismatch which stage it is that refused, and where it stands."""
        if isinstance(error, StateMismatch) and not error.located:
            for stage, path in walk(self._stage):
                if stage is error.stage:
                    error.locate(f"{type(stage).__name__} at {path}")
                    return

    def _check_open(self) -> None:
        if self._closed:
            raise IteratorClosed("the iterator was closed; iterate the pipeline again")
