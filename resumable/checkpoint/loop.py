"""The items of a resumed pipeline, and what happens between two steps."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar, final

from ..iterator import PipelineIterator
from ..triggers.base import Progress, Trigger
from ..triggers.signals import SignalRecorder
from .listener import CheckpointListener
from .progress_bar import StepBar
from .saver import Mark, Saver

__all__ = ["LoopPolicy", "ResumedLoop"]

T = TypeVar("T")

NO_SIGNALS: frozenset[int] = frozenset()


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
    """The items of a pipeline, with a save wherever one is due.

    Attributes:
      iterator: the running pass.
      begun: whether the first item was asked for.
      finished: whether the loop came to a clean end.
      skipped: how often a save was put off because the one before was still being written.
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
        self._saver = saver
        self._signals = signals
        self._policy = policy
        self._clock = clock
        self._bar = bar
        self._first_step = iterator.step
        self._put_off = False
        # A loop that is dropped leaves no handler behind.
        weakref.finalize(self, signals.close)

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        if self.finished:
            raise StopIteration
        if self.begun:
            self._between_steps()
        else:
            self.begun = True
            for listener in self._policy.listeners:
                listener.begin()
        if self._saver.stopped or self._signals.received:
            self._stop_if_asked()
        try:
            return next(self.iterator)
        except StopIteration:
            self.finish()
            raise
        except Exception as error:
            if not (self._policy.stop_on_signal and self._signals.received):
                raise
            # Workers may have died of the same signal. The position is that before the call,
            # so a resume tries the same item again.
            warnings.warn(
                f"the pipeline failed after a signal to stop, at step {self.step}: {error!r}",
                RuntimeWarning,
                stacklevel=2,
            )
            self.finish()
            raise StopIteration from error

    def __repr__(self) -> str:
        return f"<loop over {self.iterator!r}>"

    @property
    def step(self) -> int:
        """Steps finished: items handed out, across resumes."""
        return self.iterator.step

    @property
    def epoch(self) -> int:
        """The epoch of the next item."""
        return self.iterator.epoch

    @property
    def signals(self) -> frozenset[int]:
        """Numbers of the trigger's signals that were received since the resume."""
        return frozenset(self._signals.received)

    def save(self) -> str | None:
        """Save now, and wait until it is done; returns where, or None if this step is saved."""
        self._saver.collect(wait_for_it=True)
        path = None
        if not self._is_saved():
            self._saver.begin(self._mark())
            path = self._saver.collect(wait_for_it=True)
        self._saver.raise_failure()
        return path

    def finish(self) -> None:
        """The last save and the farewell, once; nothing if the loop was never begun."""
        if self.finished or not self.begun:
            return
        self.finished = True
        self._saver.collect(wait_for_it=True)
        self._save_if_due(at_end=True)
        self._saver.collect(wait_for_it=True)
        self._saver.raise_failure()
        if self._bar is not None:
            self._bar.move_to(self.step)
        for listener in self._policy.listeners:
            listener.end(self.step)
        self._signals.raise_deferred()

    def close(self) -> None:
        """Wait for a save being written, and end threads and handlers; without another save.

        Raises:
          SaveError: if that save failed.
        """
        try:
            self._saver.close()
        finally:
            self._signals.close()
            self.iterator.close()
            if self._bar is not None:
                self._bar.close()
        self._saver.raise_failure()

    def _between_steps(self) -> None:
        if self._bar is not None:
            self._bar.move_to(self.step)
        self._saver.collect()
        self._save_if_due()
        self._saver.collect()
        self._saver.raise_failure()

    def _save_if_due(self, *, at_end: bool = False) -> None:
        if self._is_saved():
            return
        mark, done = self._mark(), self._saver.begun
        signals = _received_since(mark, done) if mark.signals else NO_SIGNALS
        progress = Progress(self.step, done.step or 0, mark.seconds, done.seconds, signals, at_end)
        due = self._policy.trigger.is_due(progress)
        if not (due or self._put_off or (at_end and self._policy.save_at_end)):
            return
        in_hurry = at_end or signals
        if self._policy.skip_when_busy and self._saver.busy and not in_hurry:
            self._put_off = True
            self.skipped += 1
            return
        self._put_off = False
        self._saver.begin(mark)

    def _stop_if_asked(self) -> None:
        """Stop for a listener, or for a signal once nothing would be lost by it."""
        nothing_lost = self._is_saved() or self.step == self._first_step
        if self._saver.stopped or (nothing_lost and self._policy.stop_on_signal):
            self.finish()
            raise StopIteration
        if nothing_lost:
            self._signals.raise_deferred()

    def _is_saved(self) -> bool:
        return self._saver.begun.step == self.iterator.step

    def _mark(self) -> Mark:
        return Mark(self.iterator.step, self._clock(), self._signals.received.copy())


def _received_since(mark: Mark, before: Mark) -> frozenset[int]:
    return frozenset(
        number for number, count in mark.signals.items() if count > before.signals.get(number, 0)
    )
