"""One save after another: take the state, call the listeners, commit, keep count."""

# An interrupt may come at any moment of a save, and the loop may continue afterwards. So a thread
# does the writing, since no signal handler runs in the thread, and the loop waits for the thread.
# (If no thread can be started, the loop writes.) A `_Save` records the progress of the loop in the
# save: if a save is begun again for the same step, the save continues where it was interrupted,
# with the same bytes.

from __future__ import annotations

import math
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from functools import partial
from typing import TypeAlias, final

import numpy as np

from ..core.home_process import HomeProcess
from ..errors import InvalidArgument, InvalidType, IteratorClosed, SaveError, WorkerError, shorten
from ..workers.answers import Answer, Job
from ..workers.threads import HEARTBEAT, LONG_PATIENCE, Threads
from .envelope import Checkpoint, encode
from .history import AfterSave
from .listener import CheckpointListener
from .store import Store

Calls: TypeAlias = "list[Callable[[], object]]"


@final
@dataclass(frozen=True)
class SavePoint:
    """The facts of a begun or finished save that later saves need.

    Attributes:
      step: the saved step; None without a save.
      seconds: time of the save, on the clock of the loop.
      signals: how often each signal had been received at the time of the save.
    """

    step: int | None
    seconds: float
    signals: Mapping[int, int] = field(default_factory=Counter)


@final
@dataclass(frozen=True)
class _Written:
    """The report of a commit: the path of the checkpoint, and a complaint about later work."""

    path: str
    complaint: str | None = None


@final
@dataclass
class _Save:
    """A begun save.

    Attributes:
      point: for later saves.
      job: writes the checkpoint, then applies the retention; a second try writes the same bytes.
        The value of the job is the complaint of the retention.
      stored: the outcome once the checkpoint is stored; the job continues afterwards.
      calls_before: calls of `before_save` still to be made.
      submitted: whether the writer has the job.
    """

    point: SavePoint
    job: Job[str | None]
    stored: Answer[_Written]
    calls_before: Calls
    submitted: bool = False


@final
@dataclass(eq=False)
class Saver:
    """Makes the saves of one loop, at most one unfinished save at a time.

    Invariant: a step counts as saved from the beginning of its save, unless the save fails.

    Args:
      take_checkpoint: returns the checkpoint of a step, at the beginning of a save.
      write: stores a checkpoint; returns the path. Called again after an interrupt, with the same
        checkpoint.
      asynchronous: whether the loop continues while a save is written.
      listeners: called at the saves.
      note: called with step and time once a checkpoint is stored; returns an error message, or
        None.
      retain: like ``note``, but the loop need not wait.
      clock: monotonic seconds.
      resumed: the save that the loop was resumed from.

    Attributes:
      stopped: whether a listener asked the loop to stop.
    """

    take_checkpoint: Callable[[int], Checkpoint]
    write: Callable[[Checkpoint], str]
    asynchronous: bool
    listeners: Sequence[CheckpointListener]
    note: AfterSave | None
    retain: AfterSave | None
    clock: Callable[[], float]
    resumed: InitVar[SavePoint]
    stopped: bool = field(default=False, init=False)

    def __post_init__(self, resumed: SavePoint) -> None:
        self._writer = Threads(1, "resumable-writer", thorough=True)
        self._process = HomeProcess()
        self._done = resumed
        # The last begun save, until the writer has its job; and the save in the writer, until the
        # outcome is known.
        self._beginning: _Save | None = None
        self._pending: _Save | None = None
        # The last acknowledged save, while the writer applies the retention.
        self._followed: _Save | None = None
        # Listener calls still due for the finished saves.
        self._calls_after: Calls = []
        self._failures: list[SaveError] = []
        self._in_listener = False
        self._closed = False

    @property
    def last_save(self) -> SavePoint:
        """The last begun save, or the save from which the loop resumed."""
        return self._done if self._pending is None else self._pending.point

    @property
    def busy(self) -> bool:
        """Whether a save is being written."""
        save = self._pending or self._followed
        return save is not None and not save.job.given

    @property
    def idle(self) -> bool:
        """Whether nothing is left to acknowledge or to raise."""
        waiting = self._pending is not None or self._followed is not None
        return not waiting and not self._failures and not self._calls_after

    @property
    def closed(self) -> bool:
        """Whether no more saves are made."""
        return self._closed

    @property
    def foreign(self) -> bool:
        """Whether this is a forked copy, without the thread and the store of the original."""
        return not self._process.is_this_one()

    def begin(self, point: SavePoint) -> None:
        """Take the state after ``point.step``, and let the writer write the state.

        Waits for an unfinished previous save. `collect` reports the outcome.
        """
        self._check_may_save()
        self.collect(wait_for_it=True)
        step = point.step
        assert step is not None
        save = self._beginning
        if save is None or save.point.step != step:
            stored = Answer[_Written]()
            job = Job(partial(self._commit, self.take_checkpoint(step), stored))
            calls: Calls = [partial(one.before_save, step) for one in self.listeners]
            save = self._beginning = _Save(point, job, stored, calls)
        self._call_before_save(save)
        self._beginning, self._pending = None, save
        self._write(save)

    def collect(
        self, *, wait_for_it: bool = False, wait_seconds: float | None = None
    ) -> str | None:
        """Acknowledge the save being written, if finished; returns the path of the checkpoint.

        The listeners are called. If the save failed, `raise_failure` raises its error later. A save
        still unfinished after ``wait_seconds`` counts as failed. The retention is waited for only
        if ``wait_for_it`` or ``wait_seconds`` is given.
        """
        if self.foreign:
            return None
        save, path = self._pending, None
        if save is not None and not save.submitted:  # an interrupt came before the submission
            self._write(save)
        if save is not None and wait_seconds is not None:
            self._wait_for(save, wait_seconds)
        elif save is not None and (wait_for_it or not self.asynchronous):
            self._wait_for(save)
        if save is not None and save.stored.given:
            path = self._acknowledge(save)
        self._follow_up(math.inf if wait_for_it else wait_seconds or 0.0)
        if not self._in_listener:
            self._call_after_saves(self._calls_after)
        return path

    def raise_failure(self) -> None:
        """Raise the errors of the saves that failed since the last call."""
        if not self._failures:
            return
        *others, failure = self._failures
        if others:
            message = "; ".join(map(str, self._failures))
            cause, failure = failure.__cause__, SaveError(message, failure.step)
            failure.__cause__ = cause
        self._failures = []
        raise failure

    def close(self) -> None:
        """Wait up to a minute for an unfinished save, and end the writer; may be called again."""
        self._closed = True
        try:
            self.collect(wait_seconds=LONG_PATIENCE)
        finally:
            self._writer.close(0)
            self._writer.forget_jobs()  # `collect` has waited for all writing

    def _check_may_save(self) -> None:
        if self.foreign:
            raise WorkerError("this loop belongs to the process that forked this one; resume anew")
        if self._closed:
            raise IteratorClosed("the checkpointer was closed; make another one and resume")
        if self._in_listener:
            raise InvalidArgument("a listener cannot save: it is called during a save")

    def _call_before_save(self, save: _Save) -> None:
        """Call `before_save` of each listener.

        If a listener raises, nothing is saved unless `begin` is called again for the step. The
        calls then resume at the raising listener, since a checkpoint commits the work of every
        listener.
        """
        self._in_listener = True
        try:
            while save.calls_before:
                save.calls_before[0]()
                del save.calls_before[0]
        finally:
            self._in_listener = False

    def _call_after_saves(self, calls: Calls) -> None:
        """Call the listeners after a save, each once; a second time only after an interrupt.

        If a listener raises, the next call of this method resumes at the following listener.
        """
        self._in_listener = True
        try:
            call_each(calls)
        finally:
            self._in_listener = False

    def _write(self, save: _Save) -> None:
        try:
            self._writer.submit(save.job)
        except WorkerError:  # no thread can be started, or not any more as the process ends
            save.job.run()
        save.submitted = True

    def _wait_for(self, save: _Save, seconds: float = math.inf) -> None:
        """Wait until ``save`` is written; after ``seconds`` the save counts as failed."""
        ends = time.monotonic() + seconds
        while not save.stored.wait(min(HEARTBEAT, ends - time.monotonic())):
            if time.monotonic() >= ends:
                save.stored.give(None, TimeoutError(f"it is not written after {seconds:g} s"))
            elif not self._writer.alive:  # as while the interpreter exits
                save.job.run()
                if not save.stored.given:
                    save.stored.give(None, InterruptedError("it was interrupted"))

    def _follow_up(self, seconds: float) -> None:
        """Note complaints of the retention after the last save; wait up to ``seconds``."""
        save, ends = self._followed, time.monotonic() + seconds
        if save is None or not (seconds or save.job.given):
            return
        while not save.job.wait(min(HEARTBEAT, ends - time.monotonic())):
            if time.monotonic() >= ends:
                save.job.give(None, TimeoutError(f"it is not done after {seconds:g} s"))
            elif not self._writer.alive:
                save.job.give(None, InterruptedError("it was interrupted"))
        complaint, error, due = save.job.value, save.job.error, list(self._calls_after)
        if isinstance(error, Exception):
            complaint = f"the retention after the save of step {save.point.step} failed: {error}"
        if complaint is not None:
            due.append(partial(warnings.warn, complaint, RuntimeWarning, stacklevel=4))
        self._followed, self._calls_after = None, due
        if error is not None and not isinstance(error, Exception):  # the store ends the process
            raise error

    def _commit(self, checkpoint: Checkpoint, stored: Answer[_Written]) -> str | None:
        """Store ``checkpoint`` and apply the retention; the job of the writer's thread."""
        step, seconds = checkpoint.step, checkpoint.time
        try:
            path = self.write(checkpoint)
            written = _Written(path, self.note(step, seconds) if self.note else None)
        except BaseException as error:
            stored.give(None, error)
            return None
        # The loop continues: on a busy disk, removing an old checkpoint may take as long as a
        # write.
        stored.give(written)
        return self.retain(step, seconds) if self.retain else None

    def _acknowledge(self, save: _Save) -> str | None:
        """Count ``save``, written or failed, and note the listener calls due."""
        written, error = save.stored.value, save.stored.error
        if written is None:
            assert error is not None
            if not isinstance(error, Exception):  # the store ends the process
                self._pending = None
                raise error
            failures = [*self._failures, _failure(save.point, error)]
            self._failures, self._pending = failures, None
            return None
        # Seconds count from the end of the save, so a long save does not make the next save due.
        done = replace(save.point, seconds=self.clock())
        report = partial(self._call_after_save, done=done, path=written.path)
        due: Calls = [*self._calls_after, *(partial(report, one) for one in self.listeners)]
        if written.complaint is not None:
            due.append(partial(warnings.warn, written.complaint, RuntimeWarning, stacklevel=4))
        self._done, self._pending, self._followed, self._calls_after = done, None, save, due
        return written.path

    def _call_after_save(self, listener: CheckpointListener, done: SavePoint, path: str) -> None:
        assert done.step is not None
        answer = listener.after_save(done.step, path)
        if answer is not None and not isinstance(answer, (bool, np.bool_)):
            raise InvalidType(f"after_save must return a bool or None, got {shorten(answer)}")
        self.stopped = self.stopped or bool(answer)


def _failure(point: SavePoint, error: BaseException) -> SaveError:
    assert point.step is not None
    reason = str(error) or type(error).__name__
    failure = SaveError(f"step {point.step} could not be saved: {reason}", point.step)
    failure.__cause__ = error
    failure.errno = getattr(error, "errno", None)
    return failure


def call_each(calls: Calls) -> None:
    """Make the calls, each once; a second time only if an interrupt cut the first call short.

    A call that raises an exception is not made again; later calls are still made. An interrupt of
    type `Exception` cannot be distinguished from an error of the listener.
    """
    while calls:
        try:
            calls[0]()
        except Exception:
            del calls[0]
            raise
        del calls[0]


def write_checkpoint(store: Store, checkpoint: Checkpoint) -> str:
    """Keep ``checkpoint`` in ``store``; returns the path."""
    return store.save(checkpoint.step, encode(checkpoint))
