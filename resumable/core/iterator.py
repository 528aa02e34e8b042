"""The outermost iterator: atomic restore, and exact positions whatever user code raises."""

# An exception out of a user function leaves the stages below it ahead of the stages above.
# No stage undoes that by itself. This iterator keeps a recent good state and knows the number
# of items handed out since. After an exception these two are its position: `get_state` returns
# them without running anything, and the next call starts the pipeline anew from the good
# state, draws as many items again, and so tries the same item again. Whoever took a state just
# before the exception sees the same one after it, since each state taken is the good state.
#
# The exception may also come from a signal handler, which CPython runs when a function is
# entered, when a call has returned, and when a loop goes back; assignments in a row are not
# torn. So whatever moves takes first what gives the next item out of the iterator, leaving `IN_USE`
# there, and puts it back in one row with the new count; a second thread that enters meanwhile finds
# that and gets an error. Restoring and recovering prepare a new `_Pass`, and put it in the place of
# the old one in one row with its count and its items.

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any, Generic, TypeAlias, TypeVar, final

from ..errors import (
    ExternalStateError,
    InvalidArgument,
    InvalidType,
    IteratorClosed,
    StateMismatch,
    UnencodableState,
)
from ..state.value import State, freeze, take_state, unpack, unpack_count
from .arguments import check_int
from .block import Block, block_length
from .external_source import apply_policy, inexact_sources, inexactness
from .fingerprint import explain_mismatch, fingerprint
from .graph import walk
from .skipped import iterators, skipped_items
from .stage import EPOCHS, ITEMS, NOTHING, RANK, Stage
from .stage_iterator import SourceIterator, StageIterator

T = TypeVar("T")
R = TypeVar("R")

# Snapshots take about 1/SNAPSHOT_SHARE of the time, so what an exception costs to undo
# is about SNAPSHOT_SHARE times what a state costs to take.
SNAPSHOT_SHARE = 100
LONGEST_INTERVAL = 1 << 16
EVERYTHING = ITEMS | EPOCHS | RANK

# The next items, each with the step that it is. In their place stands one of these where there is
# more to do than to take one: they have to be made first, a call is at them, or a call failed.
Numbered: TypeAlias = "Iterator[tuple[int, Any]]"
UNPREPARED: Numbered = iter(())
IN_USE: Numbered = iter(())
BROKEN: Numbered = iter(())


@final
class _Pass(Generic[T]):
    """A root in motion, and how to come back to where it is.

    Attributes:
      root: the iterator of the last stage.
      epoch: in which it was started.
      good: a state of the root, once one could be taken, and the step it was taken at.
      due: the step of the next snapshot.
      source: all items that the root still has, while they are valid.
      prepared: the step up to which the iterator was given items of it.
    """

    def __init__(
        self, root: StageIterator[T], epoch: int, good: tuple[State | None, int], step: int
    ) -> None:
        self.root = root
        self.epoch = epoch
        self.good = good
        self.due = self.prepared = step
        self.source: Iterator[T] | None = None
        self._interval = 1
        self._last_snapshot = perf_counter()

    def snapshot(self, step: int) -> None:
        """Remember the state, which is that of ``step``, and when to do so again."""
        started = perf_counter()
        # A state that cannot be taken is the user's concern when asking for one, not here.
        positions = take_state(self.root.get_state)
        if not isinstance(positions, Exception):
            self.good = positions, step
        now = perf_counter()
        budget = SNAPSHOT_SHARE * (now - started)
        elapsed = started - self._last_snapshot
        if elapsed < budget:
            self._interval = min(2 * self._interval, LONGEST_INTERVAL)
        elif elapsed > 4 * budget:
            self._interval = max(self._interval // 2, 1)
        self._last_snapshot = now
        self.due = step + self._interval


class PipelineIterator(StageIterator[T]):
    """A running pass through a pipeline.

    A loop over it begins where it stands, and one that was left in its midst, by ``break`` or an
    interrupt, can be begun again: with the item after the last one handed out.

    It belongs to one thread at a time: a call that finds another thread, or a function of the
    pipeline, at an item is refused.

    State: ``fingerprint`` (what identifies the pipeline), ``epoch``, ``step``, the nested
    positions of the stages, and ``ahead``, the number of items handed out since these
    positions: 0, except after an exception. Taking it is O(number of stages). A ``position`` is the
    number of items that its stage has handed out in its pass, in batches too; of a `shard`, those of
    all ranks.

    Args:
      stage: the last stage of the pipeline; `Pipeline.start` gives it.
      epoch: of the pass.

    Attributes:
      step: number of items handed out since the very first start, across resumes.

    >>> iterator = iter(rs.range(9))
    >>> next(iterator), next(iterator), iterator.step
    (0, 1, 2)
    """

    def __init__(self, stage: Stage[T], epoch: int = 0) -> None:
        self._stage = stage
        self._fingerprint = fingerprint(stage)
        self._inexact = list(inexact_sources(stage))
        self._closed = False
        self.step = 0
        self._pass: _Pass[T] = _Pass(stage.start(epoch), epoch, (None, 0), 0)
        self._items = UNPREPARED

    def __next__(self) -> T:
        while True:
            items = self._items
            self._items = IN_USE
            try:
                # A loop of one round: nothing comes between the item and its count.
                for self.step, item in items:
                    self._items = items
                    return item  # type: ignore[no-any-return]
            except BaseException as error:
                self._items = BROKEN
                self._name_stage(error)
                raise
            try:
                self._prepare(items)
            except BaseException:
                if self._items is IN_USE:
                    self._items = items
                raise

    def pull(self, count: int) -> Block:
        """Up to ``count`` items as a block; fewer only at the end."""
        return self._moved(_pulled, count, block_length)

    def skip(self, count: int) -> int:
        """Pass over up to ``count`` items; returns how many, fewer only at the end.

        O(1) where items are looked up by index. Functions of the pipeline are called only where
        what comes later depends on it: by ``filter``, ``flat_map``, ``scan``, maps that drop items, or where
        they carry state.
        """
        passed = self._moved(_skipped, count, int)
        self._pass.due = self.step  # an exception must not cost as much as what was passed
        return passed

    @property
    def epoch(self) -> int:
        """The epoch of the last item handed out; before any, the first one.

        After the last item of an epoch, also in a state saved there, the next item is the first of
        the next epoch, with which this changes.
        """
        return self._pass.root.epoch

    @property
    def skipped(self) -> dict[str, int]:
        """How many items each stage with ``on_error="skip"`` has dropped in this pass, by its path."""
        return skipped_items(self._stage, self._pass.root)

    @property
    def digests(self) -> list[int]:
        """What each source that is read handed out last, as a number; 0 where it is not known.

        Equal in every iterator at the same step, unless a source delivers another order. Before a
        prefetch it is what its thread has read.
        """
        root = self._pass.root
        return [one.digest for one in iterators(root) if isinstance(one, SourceIterator)]

    def get_state(self) -> State:
        """The position as a new value, which later use of the iterator never changes.

        Raises:
          ExternalStateError: if a source can neither report nor restore its position.
          UnencodableState: if a stage holds a value without an exact serialised form.
          InvalidArgument: if an item is being computed meanwhile.
        """
        for stage, path in self._inexact:
            apply_policy(inexactness(stage, path), stage.inexact_policy or "ignore", stacklevel=2)
        items = self._items
        if items is BROKEN:
            positions, ahead = self._last_good()
            return self._described(positions, self.step, ahead)
        if items is IN_USE:
            raise _entered_twice()
        here, step = self._pass, self.step
        try:
            positions = here.root.get_state()
        except Exception:
            self._check_unmoved(items, step)
            raise
        if self._items is not items or self.step != step:
            raise _entered_twice()
        here.good = positions, step
        return self._described(positions, step, 0)

    def state_after(self, count: int) -> tuple[State, int] | None:
        """The state after up to ``count`` more items, and how many those are; nothing moves.

        O(1) where the last stage looks items up by index (`shuffle`, `skip`, `mix`, sources), also
        through `map`. None for other stages, where only moving tells, and after an
        error.

        Raises:
          InvalidArgument: if ``count`` is below 0.
          InvalidType: if it is not an integer.
        """
        count = check_int("count", count, minimum=0)
        items, step = self._items, self.step
        if items is IN_USE:
            raise _entered_twice()
        found = None if items is BROKEN else self._pass.root.state_at(count)
        self._check_unmoved(items, step)
        if found is None:
            return None
        positions, moved = found
        return self._described(positions, step + moved, 0), moved

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
        items = BROKEN if ahead else UNPREPARED
        new = _Pass(self._started(epoch, positions), epoch, (positions, step - ahead), step)
        if self._items is IN_USE:
            new.root.close()
            raise _entered_twice()
        before = self._pass
        self._pass = new
        self.step = step
        self._items = items
        before.root.close()

    def close(self) -> None:
        """End threads and release files; may be called again. The state stays readable.

        From another thread it also ends a wait for an item; some of the items that need nothing of
        what was ended may still come.
        """
        self._closed = True
        if self._items is not IN_USE and self._items is not BROKEN:
            self._pass.source = None
            self._items = UNPREPARED
        self._pass.root.close()

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
            "epoch": self._pass.epoch,
            "step": step,
            "ahead": ahead,
            "pipeline": freeze(positions),
        }

    def _moved(
        self, move: Callable[[StageIterator[T], int], R], count: int, length: Callable[[R], int]
    ) -> R:
        """What ``move`` returns for the root, which passes ``length`` of it items."""
        count = check_int("count", count, minimum=0, maximum=sys.maxsize - self.step)
        items = self._items
        self._items = IN_USE
        try:
            here = self._made_ready(items)
        except BaseException:
            if self._items is IN_USE:
                self._items = items
            raise
        try:
            result = move(here.root, count)
            moved = length(result)
        except BaseException as error:
            self._items = BROKEN
            if isinstance(error, StopIteration):
                raise RuntimeError("a user function raised StopIteration") from error
            self._name_stage(error)
            raise
        here.source = None  # it is valid only until the next `pull`
        self.step += moved
        self._items = UNPREPARED
        return result

    def _prepare(self, items: Numbered) -> None:
        """Make what gives the next item, where ``items`` has no more.

        Raises:
          StopIteration: if that is the end.
        """
        here = self._made_ready(items)
        if here.source is None:
            self._items = BROKEN  # should this be interrupted
            # Nothing in it knows this object: a cycle would keep dropped threads running.
            here.source = iter(here.root.items())
        elif self.step < here.prepared:
            # Before Python 3.11, an interrupt beside an exception may pass over whoever catches it.
            self._items = items
            raise StopIteration
        steps = range(self.step + 1, here.due + 1)
        prepared = zip(steps, here.source)  # noqa: B905  # the first to end is enough
        here.prepared = here.due
        self._items = prepared

    def _made_ready(self, items: Numbered) -> _Pass[T]:
        """The pass, with a root that can be moved and a state to come back to.

        Args:
          items: what stood in the place of `IN_USE` before.
        """
        if items is IN_USE:
            raise _entered_twice()
        self._check_open()
        if items is BROKEN:
            self._recover()
        if self.step >= self._pass.due:
            self._pass.snapshot(self.step)
        return self._pass

    def _recover(self) -> None:
        """Return to the position of the last item handed out."""
        positions, missing = self._last_good()
        before = self._pass
        before.root.close()
        root = self._started(before.epoch, positions)
        try:
            drawn = root.skip(missing)
            if drawn < missing:
                raise StateMismatch(
                    f"{missing - drawn} items handed out before could not be drawn again: the "
                    "source delivers fewer items than before"
                )
        except BaseException as error:
            root.close()
            if isinstance(error, StopIteration):
                raise RuntimeError("a user function raised StopIteration") from error
            self._name_stage(error)
            raise
        self._pass = _Pass(root, before.epoch, before.good, self.step)

    def _check_unmoved(self, items: Numbered, step: int) -> None:
        """Refuse what was asked while the iterator stood at ``step``, if it has been moved since."""
        if self._items is not items or self.step != step:
            raise _entered_twice() from None

    def _last_good(self) -> tuple[State, int]:
        """The last good state, and the number of items handed out since."""
        positions, step = self._pass.good
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


def _pulled(root: StageIterator[Any], count: int) -> Block:
    return root.pull(count) if count else []


def _skipped(root: StageIterator[Any], count: int) -> int:
    return root.skip(count) if count else 0


def _entered_twice() -> InvalidArgument:
    return InvalidArgument(
        "the iterator is at an item: it belongs to one thread at a time, and neither a function of "
        "the pipeline nor a signal handler can use it meanwhile"
    )
