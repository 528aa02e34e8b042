"""Save the state of an input while a loop consumes it, and resume from the last save."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any, TypeVar, final

from ..core.arguments import check_bool, check_callable, check_int
from ..core.best_effort import BestEffort
from ..core.iterator import PipelineIterator
from ..core.origin import ItemOrigin
from ..errors import InvalidArgument, StateMismatch
from ..errors.foreign_words import with_our_words
from ..leases import Leases
from ..leases.same_numbers import check_leasable
from ..pipeline import Pipeline
from ..stages.global_order import rank_share_of
from ..triggers.base import Trigger
from ..triggers.signals import SignalRecorder
from .clock import SteadyClock
from .envelope import Checkpoint
from .history import AfterSave, both, note_of_changes
from .leased_steps import LeasedSteps
from .listener import CheckpointListener
from .loop import LoopPolicy, ResumedLoop
from .opening import (
    as_store,
    check_listeners,
    check_pipeline,
    check_policy,
    check_rank,
    save_point_of,
    say_what_does_not_fit,
    start_at,
    take_checkpoint,
)
from .progress_bar import StepBar
from .ranks.part import WHOLE, RankPart
from .ranks.parts import START, WholeSteps
from .ranks.run import former_work, part_of
from .reading import newest_valid, read_valid, supersede_after
from .retention import Retention, retainer
from .saver import Saver, write_checkpoint
from .stats_log import StatsLog
from .store import Store, StoreLock
from .tracing import traced_step

T = TypeVar("T")


@final
@with_our_words
class Checkpointer:
    """Saves the state of an input when ``trigger`` is due; a context manager around the loop.

    >>> store = rs.Memory()
    >>> for _ in range(2):
    ...     with rs.Checkpointer(store, rs.EverySteps(2)) as checkpointer:
    ...         for item in checkpointer.resume(rs.range(5)):
    ...             if item == 3:
    ...                 break  # a clean end: the step in work is saved as well
    ...             print(item)
    0
    1
    2
    4

    At a save at step k, k items were handed out and the loop came back for the next one. With
    several ranks, the step counts the items of each rank. If another number of ranks resumes, the
    count continues. A clean end makes a last save: when the pipeline is exhausted, or when the
    ``with`` block ends without an exception, as after a ``break``. An exception makes no save. So
    leave the loop by ``break`` only when the work on the item is done.

    One loop at a time writes a name in a directory. The loop holds a lock from `resume` until
    `close`, the end of the ``with`` block or of the process, or until nothing refers to the loop
    any more. `latest`, `load` and `steps` need no lock, change nothing, and work in any process.

    With ``ranks`` each rank has its own checkpointer over the same store, and saves a part of each
    step. A step counts as saved once the parts of all ranks are stored. A resume by any number of
    ranks begins at the newest saved step. The ranks need no other connection.

    In a `Directory`, changes of the pipeline during a run (`resume`) are noted in a separate file.

    A save costs the loop the taking of the state, which is O(number of stages), and the writing.
    With ``asynchronous`` a thread does the writing.

    Args:
      store: the path of a directory, for a `Directory`; a URL such as ``"s3://bucket/run"``, for a
        `Remote`; or a `Store`.
      trigger: when to save.
      name: of the input, if several share a directory; see `task_name`.
      rank: which rank this is, from 0.
      ranks: number of ranks, all of them saving at the same steps. So the trigger must not be
        `EverySeconds`, and a signal saves only if all ranks receive the signal in the same step.
      listeners: called at the saves, in this order.
      retention: which checkpoints to keep; all by default.
      asynchronous: whether the loop continues while a thread writes, at most one checkpoint at a
        time. The state still belongs to the labelled step. A failure is raised once, by the loop
        after the next step, or at its end. The end of the loop and `save` wait for the writing.
      when_busy: action if a save is due while another is being written: ``"wait"``, or ``"skip"``
        to save at the first step at which the writer is free.
      save_at_end: whether to save at a clean end.
      stats: whether to time the loop for `ResumedLoop.stats`. The counters continue after a resume,
        since a checkpoint keeps counters next to the state; without counters in the checkpoint,
        counting starts at 0. In a `Directory`, each save also appends a line to
        ``{name}-stats.jsonl``, or ``{name}-{rank:05d}-of-{ranks:05d}-stats.jsonl``: a JSON object
        of ``step``, ``time`` (seconds since 1970), ``rank``, ``ranks``, ``host``, ``pid``, and the
        stats. Nothing depends on the file. If the file cannot be written, one warning says so.
      stop_on_signal: whether to end the loop cleanly once a signal of the trigger's `OnSignal` was
        received and the step is saved.
      clock: monotonic seconds; replaced in tests.
      wall_clock: seconds since the epoch, to label checkpoints; replaced in tests.

    Raises:
      InvalidType: if an argument has the wrong type.
      InvalidArgument: if two arguments exclude each other, or one has a forbidden value.
    """

    def __init__(
        self,
        store: str | os.PathLike[str] | Store,
        trigger: Trigger,
        *,
        name: str = "input",
        rank: int = 0,
        ranks: int = 1,
        listeners: Iterable[CheckpointListener] = (),
        retention: Retention | None = None,
        asynchronous: bool = False,
        when_busy: str = "wait",
        save_at_end: bool = True,
        stats: bool = False,
        stop_on_signal: bool = False,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        skips = check_policy(trigger, retention, asynchronous, when_busy, stop_on_signal)
        if isinstance(store, Store) and name != "input":
            raise InvalidArgument(f"name belongs to a directory, got {name!r} with {store!r}")
        self.rank, self.ranks = check_rank(rank, ranks, trigger, skips)
        self.trigger = trigger
        self.listeners = check_listeners(listeners, CheckpointListener)
        self.retention = retention
        self._asynchronous = asynchronous
        self._stats = check_bool("stats", stats)
        self._policy = LoopPolicy(
            trigger=trigger,
            listeners=self.listeners,
            save_at_end=check_bool("save_at_end", save_at_end),
            stop_on_signal=stop_on_signal,
            skip_when_busy=skips,
        )
        self._clock = check_callable("clock", clock)
        self._wall_clock = check_callable("wall_clock", wall_clock)
        self._loop: ResumedLoop[Any] | None = None
        self._lock = StoreLock()
        self.store = as_store(store, name)
        self._steps = WholeSteps(self.store, self.rank, self.ranks)

    def resume(
        self, pipeline: Pipeline[T], *, step: int | None = None, progress: bool = False
    ) -> ResumedLoop[T]:
        """The items of ``pipeline`` from the latest valid checkpoint on, or from the start.

        From a checkpoint at the last item of an epoch of a `repeat`, the next epoch follows. After
        a checkpoint at the end of the pipeline no items are left, and a warning says so. Damaged
        checkpoints are set aside, with a warning each, and never deleted. `EverySeconds` counts
        from the time of the checkpoint.

        Args:
          pipeline: the same pipeline as when the checkpoint was saved.
          step: resume from this step instead of the latest, 0 for the start. Later checkpoints are
            renamed to ``*.superseded`` at once, and are no longer listed.
          progress: whether to show a bar over the steps, with the time of the last save; needs
            tqdm.

        Raises:
          NameInUse: if another loop, here or elsewhere, writes to the store under the same name.
          NoValidCheckpoint: if checkpoints exist and all are damaged, or none exists for ``step``.
          NewerFormat: if a later version of the library wrote the latest checkpoint.
          StateMismatch: if the checkpoint belongs to another pipeline, or if the parts of the ranks
            can never make a whole, because the pipelines differ.
          ExternalStateError: if a source of the pipeline cannot be saved exactly.
          InvalidArgument: if `resume` was called before, if ``step`` is below 0, if ``ranks`` is
            above 1 and ``pipeline`` belongs to another one, or if the signals of the trigger cannot
            be received: outside the main thread, or where a handler was not installed by Python.
          InvalidType: if an argument has the wrong type.
          MissingDependency: if ``progress`` is True and tqdm is not installed.
          OSError: if the store cannot be read.
        """
        check_pipeline(pipeline)
        check_bool("progress", progress)

        def start(checkpoint: Checkpoint | None, ranks: int) -> PipelineIterator[T]:
            from_this_rank = ranks == self.ranks > 1
            iterator = start_at(checkpoint, pipeline, self.store, from_this_rank=from_this_rank)
            if self._stats:
                if checkpoint is not None and checkpoint.counters is not None:
                    iterator.count_from(checkpoint.counters)
                clock = perf_counter if self._clock is time.monotonic else self._clock
                BestEffort("times are")(partial(iterator.measure, clock), None)
            return iterator

        return self._begin(pipeline, start, step, progress)

    def leases(
        self, pipeline: Pipeline[T], *, max_open: int | None = None, max_ahead: int | None = None
    ) -> Leases[T]:
        """`Leases` of ``pipeline`` from the latest valid checkpoint on, or from the start.

        A step is an item that is done or dropped. The trigger is asked by `Leases.done` and
        `Leases.drop`, in the thread that calls them; `Leases.save` saves at once. After a kill,
        items done since the last save come again. For each item exactly once, commit the results
        together with ``leases.get_state(done=...)`` instead.

        Args:
          pipeline: the same pipeline as when the checkpoint was saved.
          max_open: as in `Leases`.
          max_ahead: as in `Leases`.

        Raises:
          InvalidArgument: as `resume`; also if this checkpointer has several ranks, ``stats`` or
            ``stop_on_signal``.
          InvalidType: if ``pipeline`` is not a pipeline.
          NameInUse, NoValidCheckpoint, NewerFormat, StateMismatch, OSError: as `resume`.
        """
        if self.ranks > 1 or self._stats or self._policy.stop_on_signal:
            raise InvalidArgument(
                "leases need a checkpointer with ranks=1, stats=False and stop_on_signal=False; for several "
                "ranks, write rs.Leases(pipeline, rank=rank, ranks=ranks, state=state) and join their states by "
                "rs.merge_states"
            )
        check_leasable(pipeline, 1)

        def start(checkpoint: Checkpoint | None, ranks: int) -> LeasedSteps[T]:
            state = None if checkpoint is None else checkpoint.state
            try:
                leases = Leases(pipeline, max_open=max_open, max_ahead=max_ahead, state=state)
            except StateMismatch as error:
                if checkpoint is not None:
                    what = f"the checkpoint of step {checkpoint.step} in {self.store!r}"
                    say_what_does_not_fit(what, error)
                raise
            return LeasedSteps(leases)

        loop = self._begin(pipeline, start, None, False)
        steps: Any = loop.iterator
        leases: Leases[T] = steps.lead(loop)
        return leases

    def _begin(
        self, pipeline: Pipeline[T], start: Callable[..., Any], step: int | None, progress: bool
    ) -> ResumedLoop[Any]:
        """A loop over the result of ``start``, given the checkpoint and the saved ranks."""
        if self._loop is not None:
            raise InvalidArgument("a checkpointer resumes one pipeline; make another one")
        # From here on signals go to the loop. If a later step fails, everything is undone.
        with ExitStack() as undo:
            signals = SignalRecorder(self.trigger.signals)
            undo.callback(signals.close)
            signals.open()
            lock = self._steps.lock()
            undo.callback(lock.close)
            checkpoint = self._chosen(step)
            saved = WHOLE if checkpoint is None else self._steps.saved_as(checkpoint.step)
            part = part_of(self.rank, self.ranks, pipeline.stage, checkpoint, saved.run)
            iterator = start(checkpoint, saved.ranks)
            undo.callback(iterator.close)
            bar = self._bar_of(pipeline, iterator) if progress else None
            if bar is not None:
                undo.callback(bar.close)
            note = note_of_changes(self._steps, checkpoint, pipeline.stage, part)
            loop = self._make_loop(iterator, checkpoint, part, note, signals, bar, lock)
            if step is not None:
                supersede_after(self._steps, step)
            former = former_work(self.ranks, pipeline.stage)
            began = START if checkpoint is None else checkpoint.step
            self._steps.begin(part, began, former, anew=step is not None)
            if lock.is_held:
                self._steps.remove_unfinished()
            undo.pop_all()
        self._loop, self._lock = loop, lock
        return loop

    def latest(self) -> Checkpoint | None:
        """The newest valid checkpoint; None if the store has no checkpoint.

        The call changes nothing, and works in any process. Damaged checkpoints are passed over,
        with a warning each.

        Raises:
          NoValidCheckpoint: if checkpoints exist and all are damaged.
          NewerFormat: if a later version of the library wrote the newest checkpoint.
        """
        return newest_valid(self._steps)

    def steps(self) -> list[int]:
        """The steps that have a checkpoint, ascending; damaged checkpoints count too."""
        return self._steps.steps()

    def load(self, step: int) -> Checkpoint:
        """The checkpoint of ``step``; the call changes nothing.

        Raises:
          NoValidCheckpoint: if ``step`` has no checkpoint, or a damaged checkpoint.
          NewerFormat: if a later version of the library wrote the checkpoint.
          InvalidArgument: if ``step`` is below 0.
          InvalidType: if ``step`` is not an integer.
        """
        return read_valid(self._steps, check_int("step", step, minimum=0))

    def origins(self, pipeline: Pipeline[Any], step: int, *, rank: int | None = None) -> ItemOrigin:
        """The origin of the item handed out at ``step``.

        The call changes nothing, and works in any process, also during the run. With random access
        the cost is the origins of one step. Without, the items since the previous checkpoint are
        computed again.

        Args:
          pipeline: the same as when the step was made, of any rank.
          step: from 1, as `step` in the body of the loop.
          rank: the rank with the item, among the ranks of the run at ``step``; by default the rank
            of this checkpointer. If this checkpointer has one rank only, the default is the rank to
            which ``pipeline`` deals items.

        Raises:
          InvalidArgument: if the run has no such step or rank.
          InvalidType: if an argument has the wrong type.
          StateMismatch: if the previous checkpoint belongs to another pipeline.
          OSError: if the store cannot be read.
        """
        step = check_int("step", step, minimum=1)
        stage = check_pipeline(pipeline).stage
        if rank is None:
            # One checkpointer may save for all ranks, without knowing its rank.
            rank = self.rank if self.ranks > 1 else rank_share_of(stage).rank
        found = traced_step(self.store, lambda _: stage, step, rank)
        if not found:
            raise InvalidArgument(f"step must be one of the run, which ends before, got {step}")
        return found[0].origin

    @property
    def step(self) -> int:
        """Number of items handed out, across resumes, including the step in work.

        After a change of the number of ranks, the count continues from the step of the furthest
        rank.
        """
        return 0 if self._loop is None else self._loop.step

    @property
    def signals(self) -> frozenset[int]:
        """Numbers of the trigger's signals received since `resume`.

        A long step may check the signals, and `save` at once, or ``break`` when its work is done.
        """
        return frozenset() if self._loop is None else self._loop.signals

    def save(self) -> str | None:
        """Save now; returns the path of the checkpoint, or None if this step is saved already.

        In the body of the loop, the item in work counts as done.

        Raises:
          SaveError: an OSError, if the store cannot keep the checkpoint.
          InvalidArgument: before `resume`, or in another thread than the loop's.
          ResumableError: if the state cannot be saved exactly.
        """
        if self._loop is None:
            raise InvalidArgument("there is nothing to save before resume()")
        return self._loop.save()

    def close(self) -> None:
        """Wait for an unfinished save, end threads and handlers, and release the lock.

        No new save is made.

        Raises:
          SaveError: if the unfinished save failed.
        """
        try:
            if self._loop is not None:
                self._loop.close()
        finally:
            self._lock.close()

    def __repr__(self) -> str:
        return f"Checkpointer({self.store!r}, {self.trigger!r})"

    def __enter__(self) -> Checkpointer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            try:
                if self._loop is not None:
                    self._loop.finish()
            finally:
                self.close()
            return
        try:
            self.close()
        except Exception as failure:
            # The exception of the loop is raised, also where warnings are turned into errors.
            with suppress(RuntimeWarning):
                warnings.warn(f"after the loop had failed: {failure}", RuntimeWarning, stacklevel=2)

    def _chosen(self, step: int | None) -> Checkpoint | None:
        """The checkpoint to resume from; None for the start."""
        if step is None:
            return newest_valid(self._steps, set_aside=True)
        if check_int("step", step, minimum=0) == 0 and 0 not in self._steps.steps():
            return None
        return self.load(step)

    def _bar_of(self, pipeline: Pipeline[T], iterator: PipelineIterator[T]) -> StepBar:
        share = (lambda: iterator.counters().wait_share) if self._stats else None
        return StepBar(pipeline.length, iterator.step, share)

    def _make_loop(
        self,
        iterator: PipelineIterator[T],
        checkpoint: Checkpoint | None,
        part: RankPart,
        note: AfterSave | None,
        signals: SignalRecorder,
        bar: StepBar | None,
        lock: StoreLock,
    ) -> ResumedLoop[T]:
        clock: Callable[[], float] = self._clock
        if clock is not time.monotonic:  # the monotonic clock is never set back
            clock = SteadyClock(clock)
        log = None
        if self._stats:
            log = StatsLog(self._steps, iterator.noted_stats, self.rank, self.ranks)
        policy = self._policy
        if bar is not None:
            policy = replace(policy, listeners=(*policy.listeners, bar))
        saver = Saver(
            partial(
                take_checkpoint,
                iterator.get_state,
                self._wall_clock,
                part,
                None if log is None else partial(log.note, iterator.counters),
            ),
            partial(write_checkpoint, self._steps),
            self._asynchronous,
            policy.listeners,
            both(note, log and log.write),
            retainer(self.retention, self._steps, part),
            clock,
            save_point_of(checkpoint, clock, self._wall_clock),
        )
        lock.close_with(saver)  # a thread may still run the saver after the loop
        return ResumedLoop(iterator, saver, signals, policy, clock, bar)
