"""The outermost iterator: atomic restore, and exact positions whatever user code raises."""

# After an exception in a user function, earlier stages have moved further than later stages, and no
# stage undoes the difference. This iterator keeps a recent good state and counts the items handed
# out since. After an exception, state and count together are the position: `get_state` returns both
# without running anything. The next call restarts the pipeline from the good state, draws as many
# items again, and so retries the failed item. A state taken just before the exception equals a
# state taken after it, because every state taken becomes the good state.
#
# The exception may also come from a signal handler. CPython runs handlers when a function is
# entered, when a call has returned, and when a loop goes back, but not between consecutive
# assignments. So a call that moves the iterator first takes the next items out of `_items` and
# leaves `IN_USE`. The call restores the items and sets the new count in consecutive assignments. A
# second thread entering meanwhile finds `IN_USE` and gets an error. Restoring and recovering
# prepare a new `_RunningRoot`, then replace the old root, count and items in consecutive
# assignments.

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any, Generic, TypeAlias, TypeVar, final

from ..errors import (
    ExternalStateError,
    InvalidArgument,
    InvalidType,
    IteratorClosed,
    StateMismatch,
)
from ..state.partitions import EPOCH_REACHED
from ..state.value import State, freeze, take_state
from .arguments import check_callable, check_int, check_type
from .best_effort import BestEffort
from .block import Block, block_length
from .failed_item import note_failed_item
from .foreign_source import apply_policy, inexactness
from .graph import walk, without_threads
from .input_counts import InputCount, input_counts
from .layout import Layout
from .named_state import named_by, state_for
from .process_counts import process_counts
from .resuming import compare
from .run_counters import TOKENS, RunCounters, counts_since, described
from .runnable import RunnablePipeline, dependence_of_resume, saved_position
from .savers import GuardedStateDict
from .skipped import iterators, skipped_items
from .stage import Stage
from .stage_iterator import SourceIterator, StageIterator
from .stopwatch import MOST_READINGS, Stopwatch

T = TypeVar("T")
R = TypeVar("R")

# Snapshots take about 1/SNAPSHOT_SHARE of the time, so undoing an exception takes about
# SNAPSHOT_SHARE times as long as taking a state.
SNAPSHOT_SHARE = 100
LONGEST_INTERVAL = 1 << 16

NOTHING_COUNTED = RunCounters()

# Public, but only for authors of stages and adapters; completion does not offer these names to
# users.
FOR_AUTHORS = frozenset(
    [
        "count_from",
        "counters",
        "digests",
        "inputs",
        "items",
        "noted_stats",
        "origin",
        "pull_as_moved",
        "state_after",
        "state_at",
    ]
)

# The next items, each with its step. While no item can be taken, `_items` is one of these markers:
# `UNPREPARED` (items must be prepared first), `IN_USE` (a call is in progress), `BROKEN` (a call
# failed).
Numbered: TypeAlias = "Iterator[tuple[int, Any]]"
UNPREPARED: Numbered = iter(())
IN_USE: Numbered = iter(())
BROKEN: Numbered = iter(())


@final
class _RunningRoot(Generic[T]):
    """A root in motion, and a state from which its position can be reached again.

    Attributes:
      root: the iterator of the last stage.
      epoch: the epoch in which ``root`` was started.
      good: the last state taken of the root (None before the first), and the step of that state.
      due: the step of the next snapshot.
      source: the remaining items of the root; None before a loop asks for items, and after a
        `pull`.
      prepared: the step up to which items of ``source`` were prepared.
      known_epoch: the step of the last good state and the epoch reached at that step; None where
        states do not record the epoch.
    """

    def __init__(
        self,
        root: StageIterator[T],
        epoch: int,
        good: tuple[State | None, int],
        step: int,
        known_epoch: tuple[int, int] | None = None,
    ) -> None:
        self.known_epoch = known_epoch
        self.root = root
        self.epoch = epoch
        self.good = good
        self.due = self.prepared = step
        self.source: Iterator[T] | None = None
        self._interval = 1
        self._last_snapshot = perf_counter()

    def snapshot(self, step: int) -> None:
        """Remember the state, at ``step``, and choose the step of the next snapshot."""
        started = perf_counter()
        if self.known_epoch is not None and self.known_epoch[0] != step:
            self.known_epoch = step, self.root.epoch
        # A failure to take the state is an error only where the user asks for a state.
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


_Beginning: TypeAlias = "tuple[str, _RunningRoot[T], int, Numbered]"
"""The fingerprint of the states to come, the running root, the step and the next items."""


class PipelineIterator(StageIterator[T]):
    """The items of a pipeline, one after the other.

    >>> iterator = iter(rs.range(9))
    >>> next(iterator), next(iterator), iterator.step
    (0, 1, 2)

    A loop over the iterator begins at the current position. After a ``break`` or an interrupt, a
    new loop continues with the item after the last item handed out.

    An iterator belongs to one thread at a time: while an item is being computed, calls from another
    thread and from functions of the pipeline are refused.

    State: ``fingerprint`` (identifies the pipeline), ``epoch``, ``step``, the nested positions of
    the stages, and ``ahead``, the number of items handed out since these positions: 0, except after
    an exception. After a stage that resumes before its items (`SavedState`), the state also has
    ``epoch_reached``, the epoch of the last item. Taking a state is O(number of stages). A
    ``position`` counts the items a stage has handed out in its epoch, singly or in batches; the
    position of a `shard` counts the items of all ranks.

    Args:
      pipeline: the pipeline to iterate.
      epoch: number of the first epoch.
      state: resume here instead of at the start of ``epoch``; a return value of `get_state`.

    Raises:
      StateMismatch: if ``state`` belongs to another pipeline, or is not a state.

    Attributes:
      step: number of items handed out since the very first start, across resumes. After a resume
        from the joined states of several ranks, ``step`` continues from the step of the furthest
        rank; the items of all ranks are never counted together.
    """

    _stage: Stage[T]

    def __init__(
        self, pipeline: RunnablePipeline[T], epoch: int = 0, state: State | None = None
    ) -> None:
        self._pipeline = pipeline
        self._stage = pipeline.stage
        self._inexact = pipeline.inexact
        self._resumes_before = pipeline.resumes_before
        self._closed = False
        begins = self._at_start(epoch) if state is None else self._at_state(state)
        self._fingerprint, self._running, self.step, self._items = begins
        # For `stats`: the step from which items are counted, the counts from before this iterator,
        # and the counts of the process when this iterator was made.
        self._items_from = self.step
        self._counted_before = NOTHING_COUNTED
        self._process_before = process_counts.start_run()
        self._stopwatch: Stopwatch | None = None
        self._best_effort = BestEffort("stats are")
        self._tokens: dict[str, int] = {}  # added by `count_tokens` of this iterator

    def __next__(self) -> T:
        while True:
            items = self._items
            self._items = IN_USE
            try:
                # A loop of one round: no signal handler runs between the item and its step.
                for self.step, item in items:
                    self._items = items
                    return item  # type: ignore[no-any-return]
            except BaseException as error:
                self._items = BROKEN
                self._explain(error)
                raise
            try:
                self._prepare(items)
            except BaseException:
                if self._items is IN_USE:
                    self._items = items
                if self._stopwatch is not None and items is not IN_USE:
                    self._stopwatch.end_call()
                raise

    def pull(self, count: int) -> Block:
        """Up to ``count`` items as a block; fewer only at the end.

        The block is columns if the items are rows of arrays, as in `from_arrays`, `range`, and
        stages that only choose or reorder items; otherwise a list. Prefetches, workers and resumes
        do not change the form of the block.
        """
        return self._moved(partial(_pulled_as, self._stage.block_layout), count, block_length)

    def pull_as_moved(self, count: int) -> Block:
        """Like `pull`, but in the form the items arrive in, for a caller that accepts any form."""
        return self._moved(_pulled, count, block_length)

    def skip(self, count: int) -> int:
        """Pass over up to ``count`` items; return how many, fewer only at the end.

        O(1) where items are looked up by index. Elsewhere, functions of the pipeline are still
        called where later items depend on the calls: by ``filter``, ``flat_map``, ``scan``, maps
        that drop items, and functions that carry state. Functions are also called before stages
        that take items to pass over them: ``interleave_map``, ``unbatch``, ``map_batches``,
        ``bucket``, ``pack``, ``shuffle`` in a window, ``mix`` and ``shard`` over a stream, and a
        ``prefetch`` with a running thread, as from the first item on.
        """
        passed = self._moved(_skipped, count, int)
        self._running.due = self.step  # so that a recovery does not pass over these items again
        return passed

    @property
    def epoch(self) -> int:
        """The epoch of the last item handed out; before any item, the epoch of the start.

        The epoch changes with the first item of the next epoch, not after the last item of the
        current epoch. The same is true after a resume.
        """
        here = self._running
        known = here.known_epoch
        # After a resume the root may be positioned before the last item. After an error the root
        # may be positioned after the last item, as far as the workers got.
        if known is not None and (known[0] == self.step or self._items is BROKEN):
            return known[1]
        return here.root.epoch

    @property
    def skipped(self) -> dict[str, int]:
        """Items dropped in this epoch, by the path of each stage with ``on_error="skip"``."""
        return self._best_effort(lambda: skipped_items(self._stage, self._running.root), {})

    @property
    def digests(self) -> list[int]:
        """For each source being read, a number computed from its last items; 0 if unknown.

        At the same step the digests are equal in every iterator, unless a source delivers another
        order. For a source before a prefetch, the last items are the items read by the thread.
        """
        root = self._running.root
        return [one.digest for one in iterators(root) if isinstance(one, SourceIterator)]

    def get_state(self) -> State:
        """The state as a new value, which later use of the iterator never changes.

        Raises:
          ExternalStateError: if the position of a source cannot be restored.
          UnencodableState: if a stage holds a value without an exact serialised form.
          InvalidArgument: if an item is being computed.
        """
        for stage, path in self._inexact:
            apply_policy(inexactness(stage, path), stage.inexact_policy or "ignore", stacklevel=2)
        items = self._items
        if items is BROKEN:
            positions, ahead = self._last_good()
            return self._described(positions, self.step, ahead)
        if items is IN_USE:
            raise _entered_twice()
        here, step = self._running, self.step
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
        """The state after up to ``count`` more items, and the number of these items; nothing moves.

        O(1) where the last stage looks items up by index (`shuffle`, `skip`, `mix`, sources), also
        through `map`. None for other stages, and after a stage that resumes before its items
        (`SavedState`), such as `window`: such states are known only by moving. None after an error
        too.

        Raises:
          InvalidArgument: if ``count`` is below 0, or an item is being computed.
          InvalidType: if ``count`` is not an integer.
        """
        count = check_int("count", count, minimum=0)
        items, step = self._items, self.step
        if items is IN_USE:
            raise _entered_twice()
        found = None if items is BROKEN else self._running.root.state_at(count)
        self._check_unmoved(items, step)
        if found is None:
            return None
        positions, moved = found
        if moved and self._resumes_before:
            return None  # the state records the epoch of its last item, unknown without moving
        return self._described(positions, step + moved, 0), moved

    def set_state(self, state: State) -> None:
        """Continue at ``state``, whatever this iterator did before.

        Raises:
          StateMismatch: if ``state`` does not fit, naming the stage and both values; the position
            of this iterator is then unchanged.
          IteratorClosed: if this iterator was closed.
          InvalidArgument: if an item is being computed.
        """
        self._check_open()
        identified, new, step, items = self._at_state(state)
        if self._items is IN_USE:
            new.root.close()
            raise _entered_twice()
        before = self._running
        items_from = self._items_from + step - self.step
        self._fingerprint = identified
        self._running = new
        self._items_from = items_from
        self.step = step
        self._items = items
        before.root.close()

    @GuardedStateDict
    def state_dict(self) -> dict[str, bytes]:
        """`get_state` by the names of torch, for `torch.distributed.checkpoint` and similar tools.

        Ranks saving together store the values of equal keys once. So the only key is
        ``"resumable"`` where all ranks have the same state. Where ranks own partitions, each
        partition has a key, such as ``"partition/00007"``, and any number of ranks finds the
        partitions it needs. Where the state belongs to this rank alone, the key says so, as
        ``"rank/00003-of-00064"``. `resumable.loads` reads each value.

        Raises:
          ExternalStateError: as `get_state`; also if Accelerate would keep the state of rank 0
            alone where the states of ranks differ, and if Lightning asks, because Lightning is a
            batch ahead.
          UnencodableState: as `get_state`.
          InvalidArgument: as `get_state`.

        >>> numbers = rs.range(9)
        >>> iterator, again = iter(numbers), iter(numbers)
        >>> next(iterator)
        0
        >>> again.load_state_dict(iterator.state_dict())
        >>> next(again)
        1
        """
        return named_by(self._stage, self.get_state())

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue at ``state_dict``, whatever this iterator did before.

        Args:
          state_dict: from an iterator, from a `resumable_torch.ResumableDataLoader`, or from
            several ranks together. Additional partitions and ranks are allowed.

        Raises:
          StateMismatch: if ``state_dict`` does not fit, if a partition of this rank is missing, or
            if partitions are not of one step; the position of this iterator is then unchanged. Only
            a finished rank may be some steps behind; the check is made where no stage after the
            partitions has several inputs.
          IteratorClosed: if this iterator was closed.
          InvalidArgument: if an item is being computed.
        """
        self._check_open()
        self.set_state(state_for(self._stage, state_dict))

    def measure(self, clock: Callable[[], float] = perf_counter) -> None:
        """Time the calls of `next`, `pull` and `skip` from now on, for `stats`.

        Without `measure`, the item loop has no code for timing. With it, the clock is read twice a
        call, at 0.3 to 0.5 microseconds. Memory is constant. Further calls do nothing.

        Args:
          clock: returns seconds and never goes back; replaced in tests.

        Raises:
          InvalidArgument: if an item is being computed.
          InvalidType: if ``clock`` is not a function.
        """
        check_callable("clock", clock)
        if self._stopwatch is not None:
            return
        items = self._items
        if items is IN_USE:
            raise _entered_twice()
        self._stopwatch = Stopwatch(clock, self._counted_before)
        if items is not BROKEN:
            # Prepared items are prepared again, with timing; none of the prepared items has been
            # taken.
            self._running.prepared = min(self._running.prepared, self.step)
            self._items = UNPREPARED

    def stats(self) -> dict[str, Any]:
        """How the run is doing, as a new dict of numbers; unknown numbers are left out.

        `stats` may be called at any time, also from another thread, and takes up to 0.3 ms. Nothing
        is raised: a number that cannot be counted is left out, with one `RuntimeWarning`. The keys:

        - ``steps``: `step`, the items handed out since the very first start of the run.
        - ``items``: items handed out by this iterator, a batch being one item. In a loop of a
          `Checkpointer` with ``stats=True``, items before a resume are included, as in all counts
          below. After a change of the number of ranks, ``steps`` continues from the furthest rank,
          and ``items`` counts the items of this rank and of its predecessors.
        - ``wait_seconds``, ``loop_seconds``: how long the caller was blocked in `next`, and how
          long the caller was elsewhere between the first call and now; from `measure` on.
        - ``wait_share``: ``wait_seconds`` as a share of both. Only this number says whether the
          loop waits for its input: stages overlap with the loop and with each other.
        - ``wait_p50``, ``wait_p95``, ``wait_p99``: 50, 95 and 99 percent of the calls took at most
          so many seconds, within 3.2 %.
        - ``inputs``: items given by each input of a `mix`, `concatenate` or `interleave` in its
          epoch, by name or number; after a `shard`, the items of all ranks; in a `partition`, the
          items of this rank's partitions. Names of a mixture within another mixture are prefixed
          with the name of that input and a slash. An input is left out if its number does not
          follow from the state: before a ``shuffle``, a ``window`` and a ``cache``, before
          ``pack``, ``bucket`` and ``flat_map`` if the length of the mixture is unknown, and where
          items of a mixture are dealt out to partitions.
        - ``passes``: how often each of these inputs was read through in the same epoch, such as
          1.37, if the length of the input is known.
        - ``tokens``: tokens of each input, as passed to `count_tokens`.
        - ``skipped``: items dropped in this epoch, by the path of each stage with
          ``on_error="skip"``.
        - ``bytes_read``, ``requests``: bytes from remote file systems and requests to remote file
          systems, of this process. Not included are local files, which are mapped, and worker
          processes, which count for themselves.
        - ``worker_restarts``: how often worker processes were restarted because one had died.
        - ``cache_hits``, ``cache_misses``: parts of remote files found, or not found, in an
          `rs.FileCache`.

        The last four groups count the whole process since the iterator was made; the first iterator
        after an index was built also counts the reads for building the index. After an error or an
        interrupt, and when called in another thread than the loop, ``inputs`` and ``skipped`` may
        belong to an item shortly before.

        >>> mixed = iter(rs.mix({"web": rs.range(90), "math": rs.range(30)}, weights=[3, 1]))
        >>> items = [next(mixed) for _ in range(8)]
        >>> stats = mixed.stats()
        >>> stats["items"], stats["inputs"]
        (8, {'web': 6, 'math': 2})
        """
        return self._stats()[0]

    def noted_stats(self) -> dict[str, Any]:
        """`stats`, with ``of_rank``: lengths of the inputs counted for this rank alone, by name."""
        stats, inputs = self._stats()
        return stats | {
            "of_rank": {name: one.length for name, one in inputs.items() if one.of_rank}
        }

    def _stats(self) -> tuple[dict[str, Any], Mapping[str, InputCount]]:
        nothing: tuple[Any, Any] = {}, {}
        inputs, skipped = self._best_effort(self._counted_in_state, nothing)
        counters = self._best_effort(self.counters, NOTHING_COUNTED)
        step = self.step
        found = self._best_effort(
            lambda: described(step, counters, inputs, skipped), {"steps": step}
        )
        return found, inputs

    def count_tokens(self, tokens: Mapping[str, int]) -> None:
        """Add to the ``tokens`` of each input in `stats`.

        Only the caller knows the tokens of an item and the input the item came from, so the loop
        calls `count_tokens` with the tokens of the item in work. In a loop of a `Checkpointer` with
        ``stats=True`` the tokens are saved with the step, and ``resumable top`` adds up all ranks.

        Args:
          tokens: further tokens of each input, by the name of the input; each number at least 0.

        Raises:
          InvalidType: if ``tokens`` is no dict, a name no string, or a number no integer; nothing
            is added.
          InvalidArgument: if a number is below 0; nothing is added.

        >>> iterator = iter(rs.range(9))
        >>> iterator.count_tokens({"web": 300, "math": 100})
        >>> iterator.count_tokens({"web": 200})
        >>> iterator.stats()["tokens"]
        {'web': 500, 'math': 100}
        """
        check_type("tokens", tokens, Mapping, "a dict of numbers by name")
        for name in tokens:
            check_type("names of inputs", name, str, "strings")
        checked = {
            name: check_int(f"tokens[{name!r}]", count, minimum=0, maximum=None)
            for name, count in tokens.items()
        }
        for name, count in checked.items():
            self._tokens[name] = self._tokens.get(name, 0) + count

    def counters(self) -> RunCounters:
        """The numbers in `stats` from outside the state, for `count_from` after a resume."""
        before = self._counted_before
        counts = counts_since(self._process_before, before.counts)
        counts["items"] = before.counts.get("items", 0) + self.step - self._items_from
        for name, count in self._tokens.copy().items():
            counts[TOKENS + name] = counts.get(TOKENS + name, 0) + count
        if self._stopwatch is None:
            return replace(before, counts=counts)
        return self._stopwatch.counters(counts)

    def count_from(self, counters: RunCounters) -> None:
        """Add ``counters`` to the counters of this iterator; call before `measure`."""
        self._counted_before = counters

    def _counted_in_state(self) -> tuple[Mapping[str, InputCount], Mapping[str, int]]:
        """(items given by inputs of mixtures, dropped items), at the last item handed out."""
        here, items, step = self._running, self._items, self.step
        positions: Any = here.good[0]
        if items is not IN_USE and items is not BROKEN:
            taken = take_state(here.root.get_state)
            if not isinstance(taken, Exception) and self._items is items and self.step == step:
                positions = taken
        if positions is None:
            return {}, {}
        plain = without_threads(self._stage)  # no stage of the copy runs ahead of the loop
        with closing(plain.start(here.epoch)) as root:
            root.set_state(positions)
            nothing: Mapping[Any, Any] = {}
            return (
                self._best_effort(lambda: input_counts(root), nothing),
                self._best_effort(lambda: skipped_items(plain, root), nothing),
            )

    def close(self) -> None:
        """End threads and release files; may be called again. The state stays readable.

        A call from another thread also ends a wait for an item. A loop in the waiting thread may
        still get a few items, already prepared.
        """
        self._closed = True
        if self._items is not IN_USE and self._items is not BROKEN:
            self._running.source = None
            self._items = UNPREPARED
        self._running.root.close()

    def __reduce__(self) -> str:
        raise InvalidType("a running iterator cannot be pickled or copied; use get_state()")

    def __enter__(self) -> PipelineIterator[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__()} - FOR_AUTHORS)

    def __repr__(self) -> str:
        closed = "closed " if self._closed else ""
        return f"<{closed}iterator at step {self.step}, epoch {self.epoch} of {self._stage!r}>"

    def _described(self, positions: State, step: int, ahead: int) -> State:
        state: State = {
            "fingerprint": self._fingerprint_with(ahead) if ahead else self._fingerprint,
            "epoch": self._running.epoch,
            "step": step,
            "ahead": ahead,
            "pipeline": freeze(positions),
        }
        if self._resumes_before:
            state[EPOCH_REACHED] = reached = self.epoch
            self._running.known_epoch = self.step, reached
        return state

    def _fingerprint_with(self, ahead: int) -> str:
        """Fingerprint of a state before ``ahead`` items drawn again, so groups must be equal."""
        return self._pipeline.fingerprint(dependence_of_resume(ahead, self._running.epoch))

    def _moved(
        self, move: Callable[[StageIterator[T], int], R], count: int, length: Callable[[R], int]
    ) -> R:
        """Move the root by ``move`` and return the result, whose items ``length`` counts."""
        count = check_int("count", count, minimum=0, maximum=sys.maxsize - self.step)
        items = self._items
        self._items = IN_USE
        try:
            here = self._made_ready(items)
        except BaseException:
            if self._items is IN_USE:
                self._items = items
            if self._stopwatch is not None and items is not IN_USE:
                self._stopwatch.end_call()
            raise
        try:
            result = move(here.root, count)
            moved = length(result)
            if self._stopwatch is not None:
                self._stopwatch.end_call()
        except BaseException as error:
            self._items = BROKEN
            if isinstance(error, StopIteration):
                raise RuntimeError("a user function raised StopIteration") from error
            self._explain(error)
            raise
        here.source = None  # valid only until the next `pull`
        self.step += moved
        self._items = UNPREPARED
        return result

    def _prepare(self, items: Numbered) -> None:
        """Prepare the next items after ``items`` is exhausted.

        Raises:
          StopIteration: at the end of the epoch.
        """
        here = self._made_ready(items)
        if here.source is None:
            self._items = BROKEN  # in case of an interrupt here
            # The source must not refer to this object: a cycle would keep the threads of a dropped
            # iterator running.
            here.source = iter(here.root.items())
        elif self.step < here.prepared:
            # Before Python 3.11, an interrupt during an exception may bypass the handler in
            # `__next__`, which does the same.
            self._items = items
            if self._stopwatch is not None:
                self._stopwatch.end_call()
            raise StopIteration
        source, last = here.source, here.due
        if self._stopwatch is not None:
            source = self._stopwatch.timed_items(source)
            last = min(last, self.step + MOST_READINGS // 2)
        steps = range(self.step + 1, last + 1)
        prepared = zip(steps, source)  # noqa: B905  # the first to end is enough
        here.prepared = last
        self._items = prepared

    def _made_ready(self, items: Numbered) -> _RunningRoot[T]:
        """The running root for a new call: recovered after a failed call, with a snapshot if due.

        Args:
          items: the value of ``_items`` before `IN_USE`.
        """
        if items is IN_USE:
            raise _entered_twice()
        if self._stopwatch is not None:
            self._stopwatch.begin_call()
        self._check_open()
        if items is BROKEN:
            self._recover()
        if self.step >= self._running.due:
            self._running.snapshot(self.step)
        return self._running

    def _recover(self) -> None:
        """Return to the position of the last item handed out."""
        positions, missing = self._last_good()
        before = self._running
        before.root.close()
        root = self._started(before.epoch, positions)
        try:
            drawn = _skipped(root, missing)
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
        self._running = _RunningRoot(root, before.epoch, before.good, self.step, before.known_epoch)

    def _check_unmoved(self, items: Numbered, step: int) -> None:
        """Refuse a call begun at ``step`` if the iterator has moved since."""
        if self._items is not items or self.step != step:
            raise _entered_twice() from None

    def _last_good(self) -> tuple[State, int]:
        """The last good state, and the number of items handed out since."""
        positions, step = self._running.good
        if positions is None:
            raise ExternalStateError(
                "an error interrupted the pipeline, and no state to go back to could be taken"
            )
        return positions, self.step - step

    def _at_start(self, epoch: int) -> _Beginning[T]:
        """The start of ``epoch``."""
        root = self._stage.start(epoch)
        known_epoch = (0, root.epoch) if self._resumes_before else None
        running = _RunningRoot(root, epoch, (None, 0), 0, known_epoch)
        return self._pipeline.fingerprint(dependence_of_resume(0, epoch)), running, 0, UNPREPARED

    def _at_state(self, state: State) -> _Beginning[T]:
        """The position of ``state``.

        Raises:
          StateMismatch: if ``state`` does not fit; nothing is left running.
        """
        saved = saved_position(self._stage, state)
        _, epoch, step, ahead, positions, reached = saved
        present = self._pipeline.fingerprint(dependence_of_resume(ahead, epoch))
        same = isinstance(saved.fingerprint, str) and saved.fingerprint == present
        if not same and (found := compare(self._stage, saved)):
            raise StateMismatch(f"the state belongs to another pipeline: {found[0]}", self._stage)
        root = self._started(epoch, positions)
        if self._resumes_before and reached is None:  # the state is of an earlier version
            reached = root.epoch
        known_epoch = None if reached is None else (step, reached)
        running = _RunningRoot(root, epoch, (positions, step - ahead), step, known_epoch)
        # A state of a later epoch relies on more fields.
        identified = self._pipeline.fingerprint(dependence_of_resume(0, epoch))
        return identified, running, step, BROKEN if ahead else UNPREPARED

    def _started(self, epoch: int, positions: Any) -> StageIterator[T]:
        """A new root at ``positions``; nothing is left running if ``positions`` are refused."""
        root = self._stage.start(epoch)
        try:
            root.set_state(positions)
        except BaseException as error:
            root.close()
            self._name_stage(error)
            raise
        return root

    def _explain(self, error: BaseException) -> None:
        """Add the stage and the item to ``error``, raised by a call that moves the iterator."""
        if self._stopwatch is not None:
            self._stopwatch.end_call()
        self._name_stage(error)
        note_failed_item(error, self._running.root)

    def _name_stage(self, error: BaseException) -> None:
        """Add the name and the path of the mismatching stage to ``error``."""
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


def _pulled_as(layout: Layout, root: StageIterator[Any], count: int) -> Block:
    return layout.block(_pulled(root, count))


def _skipped(root: StageIterator[Any], count: int) -> int:
    return root.skip(count) if count else 0


def _entered_twice() -> InvalidArgument:
    return InvalidArgument(
        "the iterator is computing an item: it belongs to one thread at a time, and neither a "
        "function of the pipeline nor a signal handler can use it meanwhile"
    )
