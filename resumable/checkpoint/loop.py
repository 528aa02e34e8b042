"""The items of a resumed pipeline, and the work between two steps."""

# An interrupt may come at any moment, and the loop may be continued after the interrupt. So the
# work between two steps can be started again: finished work is detected. The iterator counts an
# item, and hands the item to the training loop, in one step without a chance for interrupts.

from __future__ import annotations

import warnings
import weakref
from _thread import get_ident
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar, final

from ..core.ended import warn_of_ended_run
from ..core.iterator import PipelineIterator
from ..core.runnable import RunnablePipeline
from ..core.savers import GuardedStateDict
from ..core.stage import Stage
from ..errors import InvalidArgument, StateMismatch, WorkerError
from ..state.encoding import dumps_frozen
from ..triggers.base import Progress, Trigger
from ..triggers.signals import SignalRecorder
from .listener import CheckpointListener
from .progress_bar import StepBar
from .saver import SavePoint, Saver, call_each

T = TypeVar("T")

NO_SIGNALS: Final[frozenset[int]] = frozenset()
NO_COUNTS: Final[Mapping[int, int]] = MappingProxyType({})


@final
@dataclass(frozen=True)
class LoopPolicy:
    """When a loop saves and stops; the fields are arguments of `Checkpointer`."""

    trigger: Trigger
    listeners: tuple[CheckpointListener, ...]
    save_at_end: bool
    stop_on_signal: bool
    skip_when_busy: bool


@final
class ResumedLoop(Generic[T]):
    """The items of a pipeline, once, with a save whenever due.

    Attributes:
      iterator: the running epoch.
      begun: whether the loop has called for its first item.
      finished: whether the loop came to a clean end.
      skipped: how many saves were put off because the previous save was still being written.
    """

    def __init__(
        self,
        iterator: PipelineIterator[T],
        saver: Saver,
        signals: SignalRecorder,
        policy: LoopPolicy,
        clock: Callable[[], float],
        bar: StepBar | None,
    ) -> None:
        self.iterator = iterator
        self.finished = False
        self.begun = False
        self.skipped = 0
        # The thread of the loop; no other thread may save.
        self._thread: int | None = None
        self._saver = saver
        self._signals = signals
        self._policy = policy
        self._clock = clock
        self._bar = bar
        self._first_step = iterator.step
        self._put_off = False
        # The listener calls still due, at the beginning and at the end.
        self._begin_calls: list[Callable[[], object]] = [one.begin for one in policy.listeners]
        self._end_calls: list[Callable[[], object]] | None = None
        # A dropped loop leaves no handler installed.
        weakref.finalize(self, signals.close)

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        try:
            if self._prepare_next():
                before = self._counts()
                try:
                    # Not by `next`: an interrupt could come between its return and ours.
                    for item in self.iterator:
                        return item
                except Exception as error:
                    self._end_after(error, interrupted=self._counts() != before)
                else:
                    self.finish()
                    if self.step == self._first_step > 0:
                        warn_of_ended_run(self.step, "use another folder, or resume with step=0")
        except StopIteration as error:
            raise RuntimeError(
                "a listener, a trigger or a signal handler raised StopIteration"
            ) from error
        raise StopIteration

    def __repr__(self) -> str:
        return f"<loop over {self.iterator!r}>"

    @property
    def _stage(self) -> Stage[T]:
        return self.iterator._stage

    @property
    def step(self) -> int:
        """Number of items handed out, across resumes, including the step in work.

        After a change of the number of ranks, the count continues from the step of the furthest
        rank.
        """
        return self.iterator.step

    @property
    def epoch(self) -> int:
        """The epoch of the last item handed out; before any, the first epoch."""
        return self.iterator.epoch

    def stats(self) -> dict[str, Any]:
        """The stats of the run, as in `PipelineIterator.stats`; times need ``stats=True``.

        A save that the loop waits for is time of the loop, not a wait for input. Listeners may call
        this.
        """
        return self.iterator.stats()

    def count_tokens(self, tokens: Mapping[str, int]) -> None:
        """Add to the ``tokens`` of each input in `stats`, as `PipelineIterator.count_tokens` does."""
        self.iterator.count_tokens(tokens)

    @property
    def signals(self) -> frozenset[int]:
        """Numbers of the trigger's signals received since the resume."""
        return frozenset(self._signals.received)

    @GuardedStateDict
    def state_dict(self) -> dict[str, bytes]:
        """The state after the last item handed out, as in `PipelineIterator.state_dict`."""
        return self.iterator.state_dict()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Refuse ``state_dict`` unless the loop has the same position; the loop does not move.

        The `Checkpointer` has chosen where the loop begins, and its saves follow from there.

        Raises:
          StateMismatch: for another pipeline or another position, with advice.
        """
        with PipelineIterator(RunnablePipeline(self._stage)) as there:
            there.load_state_dict(state_dict)
            self.check_stands_at(there)

    def check_stands_at(self, there: PipelineIterator[T]) -> None:
        """Refuse the state of ``there`` unless the loop has the same state.

        Raises:
          StateMismatch: with advice.
        """
        if dumps_frozen(there.get_state()) != dumps_frozen(self.iterator.get_state()):
            raise StateMismatch(
                f"the state is at step {there.step}, and the loop of the Checkpointer stands at step "
                f"{self.step}: begin it with resume(pipeline, step={there.step}), or load into "
                "iter(pipeline)"
            )

    def save(self) -> str | None:
        """Save now, and wait for the end; returns the path, or None if this step is saved."""
        if self._thread not in (None, get_ident()):
            raise InvalidArgument("save() must come from the thread that runs the loop")
        self._saver.collect(wait_for_it=True)
        self._saver.raise_failure()
        if self._is_saved():
            return None
        self._begin_save(SavePoint(self.step, self._clock(), self._counts()))
        path = self._saver.collect(wait_for_it=True)
        self._saver.raise_failure()
        return path

    def finish(self) -> None:
        """Make the last save and call `end` of the listeners, once; nothing if the loop never began."""
        if self.finished or not self.begun or self._saver.foreign or self._saver.closed:
            return
        self._saver.collect(wait_for_it=True)
        self._save_if_due(at_end=True)
        self._saver.collect(wait_for_it=True)
        self._saver.raise_failure()
        if self._bar is not None:
            self._bar.move_to(self.step)
        if self._end_calls is None:
            self._end_calls = [partial(one.end, self.step) for one in self._policy.listeners]
        call_each(self._end_calls)
        self.finished = True
        self._signals.close()
        self._signals.raise_deferred()

    def close(self) -> None:
        """Wait up to a minute for an unfinished save, and end threads and handlers.

        No new save is made.

        Raises:
          SaveError: if the unfinished save failed.
        """
        with ExitStack() as stack:
            stack.callback(self._signals.raise_deferred)
            stack.callback(self._saver.raise_failure)
            if self._bar is not None:
                stack.callback(self._bar.close)
            stack.callback(self.iterator.close)
            stack.callback(self._signals.close)
            stack.callback(self._saver.close)

    def begin(self) -> None:
        """Call `begin` of the listeners."""
        call_each(self._begin_calls)
        self.begun = True

    def _prepare_next(self) -> bool:
        """Do everything due before the next item; returns whether a next item follows."""
        if self.finished:
            return False
        if self.begun:
            self.between_steps()
        else:
            self._thread = get_ident()
            self.begin()
        if (self._saver.stopped or self._signals.received) and self._is_to_stop():
            self.finish()
            return False
        return True

    def _end_after(self, error: Exception, *, interrupted: bool) -> None:
        """End cleanly if workers died of the signal that stops the loop; else raise ``error``.

        The position stays before the failed item, so a resume tries the item again.
        """
        stopping = self._policy.stop_on_signal and self._signals.received
        if not (stopping and (interrupted or isinstance(error, WorkerError))):
            raise error
        self.finish()
        warnings.warn(
            f"the pipeline failed after a signal to stop, at step {self.step}: {error!r}",
            RuntimeWarning,
            stacklevel=3,
        )

    def between_steps(self) -> None:
        """Save if due, and acknowledge finished saves."""
        # Called at every step, so this must be fast.
        if self._bar is not None:
            self._bar.move_to(self.step)
        if not self._saver.idle:
            self._collect()
        self._save_if_due()
        if not self._saver.idle:
            self._collect()

    def _collect(self) -> None:
        self._saver.collect()
        self._saver.raise_failure()

    def _save_if_due(self, *, at_end: bool = False) -> None:
        step, done = self.iterator.step, self._saver.last_save
        if step == done.step:
            return
        # Time and signals are read before the trigger is called: later signals count as later.
        seconds, received = self._clock(), self._counts()
        signals = _received_since(received, done.signals) if received else NO_SIGNALS
        progress = Progress(step, done.step or 0, seconds, done.seconds, signals, at_end)
        due = self._policy.trigger.is_due(progress)
        if not (due or self._put_off or (at_end and self._policy.save_at_end)):
            return
        in_hurry = at_end or signals
        if self._policy.skip_when_busy and self._saver.busy and not in_hurry:
            self.skipped += not self._put_off
            self._put_off = True
            return
        self._begin_save(SavePoint(step, seconds, received))

    def _begin_save(self, point: SavePoint) -> None:
        self._put_off = False
        self._saver.begin(point)

    def _is_to_stop(self) -> bool:
        """Whether to stop: for a listener, or for a signal if the step is saved."""
        nothing_lost = self._is_saved() or self.step == self._first_step
        if self._saver.stopped or (nothing_lost and self._policy.stop_on_signal):
            return True
        if nothing_lost:
            self._signals.raise_deferred()
        return False

    def _is_saved(self) -> bool:
        return self._saver.last_save.step == self.iterator.step

    def _counts(self) -> Mapping[int, int]:
        """How often each signal has been received by now."""
        return self._signals.received.copy() if self._signals.received else NO_COUNTS


def _received_since(now: Mapping[int, int], before: Mapping[int, int]) -> frozenset[int]:
    return frozenset(number for number, count in now.items() if count > before.get(number, 0))
