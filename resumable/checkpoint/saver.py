"""One save after another: take the state, tell the listeners, commit, keep count."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future, wait
from dataclasses import dataclass, field, replace
from typing import final

import numpy as np

from ..core.home_process import HomeProcess
from ..errors import InvalidArgument, InvalidType, IteratorClosed, SaveError, WorkerError, shorten
from ..state.value import State
from .envelope import Checkpoint, encode
from .listener import CheckpointListener
from .store import Store
from .writer import direct_writer


@final
@dataclass(frozen=True)
class Mark:
    """A save that was begun or done, as the next ones have to know it.

    Attributes:
      step: that was saved; None if there is no save.
      seconds: when, on the loop's clock.
      signals: how often each signal had been received by then.
    """

    step: int | None
    seconds: float
    signals: Mapping[int, int] = field(default_factory=Counter)


@final
@dataclass(frozen=True)
class _Written:
    """What a commit reports: where the checkpoint is, and what went wrong afterwards."""

    path: str
    complaint: str | None = None


@final
class Saver:
    """Makes the saves of one loop, at most one of them unfinished at a time.

    Invariant: a step counts as saved from when its save is begun, and no longer if that fails.

    Args:
      get_state: gives the state of the step at which a save is begun.
      store: keeps what is saved.
      writer: does the writing.
      listeners: told about the saves.
      retain: called with step and time once a checkpoint is stored; returns what went wrong.
      clock: monotonic seconds.
      wall_clock: seconds since the epoch, to label checkpoints.
      resumed: what the loop was resumed from.

    Attributes:
      stopped: whether a listener asked the loop to stop.
    """

    def __init__(
        self,
        get_state: Callable[[], State],
        store: Store,
        writer: Executor,
        listeners: Sequence[CheckpointListener],
        retain: Callable[[int, float], str | None] | None,
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
        resumed: Mark,
    ) -> None:
        self._get_state = get_state
        self._store = store
        self._writer = writer
        self._listeners = listeners
        self._retain = retain
        self._clock = clock
        self._wall_clock = wall_clock
        self._process = HomeProcess()
        self.stopped = False
        self._done = resumed
        self._pending: tuple[Mark, Future[_Written]] | None = None
        # The last step stored, and where: an interrupt may come before it is acknowledged.
        self._stored: tuple[int, str] | None = None
        self._failures: list[SaveError] = []
        self._telling = False
        self._closed = False

    @property
    def begun(self) -> Mark:
        """The last save begun, or what the loop was resumed from."""
        return self._done if self._pending is None else self._pending[0]

    @property
    def busy(self) -> bool:
        """Whether a save is being written."""
        return self._pending is not None and not self._pending[1].done()

    @property
    def settled(self) -> bool:
        """Whether there is nothing to acknowledge and nothing to raise."""
        return self._pending is None and not self._failures

    @property
    def closed(self) -> bool:
        """Whether no more saves are made."""
        return self._closed

    @property
    def foreign(self) -> bool:
        """Whether this is a forked copy, to which neither the thread nor the store belongs."""
        return not self._process.is_this_one()

    def begin(self, mark: Mark) -> None:
        """Take the state, which is that of ``mark.step``, and have it written.

        Waits for the save before, if that is still being written. How the writing ends is known
        by `collect`.
        """
        self._check_may_save()
        self.collect(wait_for_it=True)
        assert mark.step is not None
        time = float(self._wall_clock())
        checkpoint = Checkpoint(mark.step, time, self._get_state())
        self._tell(lambda listener: listener.before_save(checkpoint.step))
        self._pending = mark, self._submit(checkpoint)

    def collect(self, *, wait_for_it: bool = False) -> str | None:
        """Acknowledge the save being written if it is done; returns where it is.

        The listeners hear of it. If it failed, `raise_failure` will say so.
        """
        if self._pending is None or self.foreign:
            return None
        mark, future = self._pending
        if not future.done():
            if not wait_for_it:
                return None
            wait([future])
        error = future.exception()
        self._pending = None
        if error is not None:
            self._note_failure(mark, error)
            return None
        return self._acknowledge(mark, future.result())

    def raise_failure(self) -> None:
        """Raise what saves have failed with since this was last asked."""
        if not self._failures:
            return
        failures, self._failures = self._failures, []
        if len(failures) == 1:
            raise failures[0]
        several = SaveError("; ".join(map(str, failures)), failures[-1].step)
        raise several from failures[-1].__cause__

    def close(self) -> None:
        """Wait for the save being written, and end the writer; may be called again."""
        self._closed = True
        try:
            self.collect(wait_for_it=True)
        finally:
            self._writer.shutdown()

    def _check_may_save(self) -> None:
        if self.foreign:
            raise WorkerError("this loop belongs to the process that forked this one; resume anew")
        if self._closed:
            raise IteratorClosed("the checkpointer was closed; make another one and resume")
        if self._telling:
            raise InvalidArgument("a listener cannot save: it is told of a save")

    def _tell(self, event: Callable[[CheckpointListener], object]) -> None:
        self._telling = True
        try:
            for listener in self._listeners:
                event(listener)
        finally:
            self._telling = False

    def _submit(self, checkpoint: Checkpoint) -> Future[_Written]:
        try:
            return self._writer.submit(self._commit, checkpoint)
        except RuntimeError:  # no thread can be started, or not any more as the process ends
            return direct_writer().submit(self._commit, checkpoint)

    def _commit(self, checkpoint: Checkpoint) -> _Written:
        """Store ``checkpoint``; runs in the writer's thread, and again after an interrupt."""
        if self._stored is None or self._stored[0] != checkpoint.step:
            self._stored = checkpoint.step, self._store.save(checkpoint.step, encode(checkpoint))
        path = self._stored[1]
        if self._retain is None:
            return _Written(path)
        return _Written(path, self._retain(checkpoint.step, checkpoint.time))

    def _acknowledge(self, mark: Mark, written: _Written) -> str:
        # Counted from its end, so that a save that takes long does not make the next one due.
        self._done = replace(mark, seconds=self._clock())
        step = mark.step
        assert step is not None

        def tell(listener: CheckpointListener) -> None:
            answer = listener.after_save(step, written.path)
            if answer is not None and not isinstance(answer, (bool, np.bool_)):
                raise InvalidType(f"after_save must return a bool or None, got {shorten(answer)}")
            self.stopped = self.stopped or bool(answer)

        self._tell(tell)
        if written.complaint is not None:
            warnings.warn(written.complaint, RuntimeWarning, stacklevel=2)
        return written.path

    def _note_failure(self, mark: Mark, error: BaseException) -> None:
        assert mark.step is not None
        failure = SaveError(f"step {mark.step} could not be saved: {error}", mark.step)
        failure.__cause__ = error
        failure.errno = getattr(error, "errno", None)
        self._failures.append(failure)
