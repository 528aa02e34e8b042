"""One save after another: take the state, tell the listeners, commit, keep count."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future, wait
from dataclasses import dataclass, field
from typing import Any, final

from ..errors import IteratorClosed, SaveError, WorkerError
from ..iterator import PipelineIterator
from .envelope import Checkpoint, encode
from .listener import CheckpointListener
from .retention import Retainer
from .store import Store

__all__ = ["Mark", "Saver"]


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
    complaint: str | None


@final
class Saver:
    """Makes the saves of one loop, at most one of them unfinished at a time.

    Invariant: ``begun`` is the mark of the last save begun, and equals ``done`` unless one is
    being written. A save that fails puts ``begun`` back, so the step does not count as saved.

    Attributes:
      begun: the last save begun, or what the loop was resumed from.
      stopped: whether a listener asked the loop to stop.
    """

    def __init__(
        self,
        iterator: PipelineIterator[Any],
        store: Store,
        writer: Executor,
        listeners: Sequence[CheckpointListener],
        retainer: Retainer | None,
        wall_clock: Callable[[], float],
        resumed: Mark,
    ) -> None:
        self._iterator = iterator
        self._store = store
        self._writer = writer
        self._listeners = listeners
        self._retainer = retainer
        self._wall_clock = wall_clock
        self._process = os.getpid()
        self.begun = self._done = resumed
        self.stopped = False
        self._closed = False
        self._pending: Future[_Written] | None = None
        self._failures: list[SaveError] = []

    @property
    def busy(self) -> bool:
        """Whether a save is being written."""
        return self._pending is not None and not self._pending.done()

    def begin(self, mark: Mark) -> None:
        """Take the state, which is that of ``mark.step``, and have it written.

        Waits for the save before, if that is still being written. How the writing ends is known
        by `collect`.
        """
        if os.getpid() != self._process:
            raise WorkerError("this loop belongs to the process that forked this one; resume anew")
        if self._closed:
            raise IteratorClosed("the checkpointer was closed; make another one and resume")
        self.collect(wait_for_it=True)
        assert mark.step is not None
        checkpoint = Checkpoint(mark.step, self._wall_clock(), self._iterator.get_state())
        for listener in self._listeners:
            listener.before_save(mark.step)
        self._pending = self._writer.submit(self._commit, checkpoint)
        self.begun = mark

    def collect(self, *, wait_for_it: bool = False) -> str | None:
        """Acknowledge the save being written if it is done; returns where it is.

        If it failed, `raise_failure` will say so.
        """
        pending = self._pending
        if pending is None or os.getpid() != self._process:
            return None
        if not pending.done():
            if not wait_for_it:
                return None
            wait([pending])
        self._pending = None
        step = self.begun.step
        assert step is not None
        error = pending.exception()
        if error is not None:
            self.begun = self._done
            failure = SaveError(f"step {step} could not be saved: {error}", step)
            failure.__cause__ = error
            failure.errno = getattr(error, "errno", None)
            self._failures.append(failure)
            return None
        self._done = self.begun
        written = pending.result()
        if written.complaint is not None:
            warnings.warn(written.complaint, RuntimeWarning, stacklevel=2)
        for listener in self._listeners:
            if listener.after_save(step, written.path) is True:
                self.stopped = True
        return written.path

    def raise_failure(self) -> None:
        """Raise what saves have failed with since this was last asked."""
        failures, self._failures = self._failures, []
        if len(failures) == 1:
            raise failures[0]
        if failures:
            several = SaveError("; ".join(map(str, failures)), failures[-1].step)
            raise several from failures[-1].__cause__

    def close(self) -> None:
        """Wait for the save being written, and end the writer; may be called again."""
        self._closed = True
        try:
            self.collect(wait_for_it=True)
        finally:
            self._writer.shutdown()

    def _commit(self, checkpoint: Checkpoint) -> _Written:
        path = self._store.save(checkpoint.step, encode(checkpoint))
        if self._retainer is None:
            return _Written(path, None)
        return _Written(path, self._retainer.apply(checkpoint.step, checkpoint.time))
