"""Save the position of an input while a loop consumes it, and resume from the last save."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Generic, TypeVar, final

from ..arguments import check_bool, check_int, shorten
from ..errors import (
    CorruptCheckpoint,
    InvalidArgument,
    InvalidType,
    NoValidCheckpoint,
    StateMismatch,
)
from ..iterator import PipelineIterator
from ..pipeline import Pipeline
from ..triggers.base import Progress, Trigger
from .directory import Directory
from .envelope import Checkpoint, decode, encode
from .listener import CheckpointListener
from .store import Store

__all__ = ["Checkpointer", "ResumedLoop"]

T = TypeVar("T")


@final
class Checkpointer:
    """Saves the input's position when ``trigger`` says so; a context manager around the loop.

    A save at step k means: k items were handed out, and the loop came back for the next one. At
    a clean end (the pipeline is exhausted, or the ``with`` block ends without an exception, as
    after a ``break``) there is a last save; after an exception there is none. So leave the loop
    by ``break`` only when the work on the item is done.

    Args:
      store: a directory path, which becomes a `Directory`, or a `Store`.
      trigger: when to save.
      name: of the input, if several share a directory.
      listeners: told about the saves, in this order.
      save_at_end: whether to save at a clean end.
      clock: monotonic seconds; replaced in tests.

    Raises:
      InvalidType: if ``trigger`` is not a trigger, or a listener lacks the methods.
    """

    def __init__(
        self,
        store: str | os.PathLike[str] | Store,
        trigger: Trigger,
        *,
        name: str = "input",
        listeners: Sequence[CheckpointListener] = (),
        save_at_end: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not isinstance(trigger, Trigger):
            raise InvalidType(
                f"trigger must be a trigger such as EverySteps(100), got {shorten(trigger)}"
            )
        if isinstance(listeners, CheckpointListener):
            raise InvalidType(f"listeners must be a list of listeners, got {shorten(listeners)}")
        for listener in listeners:
            if not isinstance(listener, CheckpointListener):
                raise InvalidType(
                    f"listeners must be CheckpointListener objects, got {shorten(listener)}"
                )
        if isinstance(store, Store) and name != "input":
            raise InvalidArgument(f"name belongs to a directory, got {name!r} with {store!r}")
        self.store = store if isinstance(store, Store) else Directory(store, name)
        self.trigger = trigger
        self.listeners = tuple(listeners)
        self._save_at_end = check_bool("save_at_end", save_at_end)
        self._clock = clock
        self._loop: ResumedLoop[Any] | None = None
        self._saved_step = 0
        self._saved_seconds = 0.0
        self._stopped = False

    def resume(self, pipeline: Pipeline[T], *, step: int | None = None) -> ResumedLoop[T]:
        """The items of ``pipeline`` from the latest valid checkpoint on, or from the start.

        Damaged checkpoints are set aside, never deleted, with a warning each.

        Args:
          pipeline: as it was when the checkpoint was saved.
          step: resume from this step instead of the latest; checkpoints after it are set aside.

        Raises:
          NoValidCheckpoint: if there are checkpoints and all are damaged, or none for ``step``.
          StateMismatch: if the checkpoint belongs to another pipeline.
          ExternalStateError: if the pipeline has a source that cannot be saved exactly.
        """
        if self._loop is not None:
            raise InvalidArgument("a checkpointer resumes one pipeline; make another one")
        if not isinstance(pipeline, Pipeline):
            raise InvalidType(f"pipeline must be a pipeline, got {shorten(pipeline)}")
        checkpoint = self.latest() if step is None else self._at(step)
        iterator = pipeline.start()
        if checkpoint is not None:
            try:
                iterator.set_state(checkpoint.state)
            except StateMismatch as error:
                iterator.close()
                raise StateMismatch(
                    f"the checkpoint of step {checkpoint.step} in {self.store!r} does not fit: "
                    f"{error}"
                ) from error
            except BaseException:
                iterator.close()
                raise
            for later in self.store.steps():
                if later > checkpoint.step:
                    self.store.set_aside(later, "superseded")
        try:
            iterator.get_state()  # what cannot be saved is told before the first item
        except BaseException:
            iterator.close()
            raise
        self._saved_step = iterator.step
        self._saved_seconds = self._clock()
        self._loop = ResumedLoop(self, iterator)
        return self._loop

    def latest(self) -> Checkpoint | None:
        """The newest valid checkpoint; None if there is none yet. Damaged ones are set aside.

        Raises:
          NoValidCheckpoint: if there are checkpoints and all are damaged.
        """
        for step in reversed(self.store.steps()):
            try:
                return self._read(step)
            except CorruptCheckpoint as error:
                aside = self.store.set_aside(step, "damaged")
                warnings.warn(
                    f"the checkpoint of step {step} is damaged: {error}; it was set aside as "
                    f"{aside}",
                    RuntimeWarning,
                    stacklevel=3,
                )
        if self.store.has_damaged():
            raise NoValidCheckpoint(
                f"every checkpoint of {self.store!r} is damaged; to start from the beginning, "
                "remove the files set aside"
            )
        return None

    def __repr__(self) -> str:
        return f"Checkpointer({self.store!r}, {self.trigger!r})"

    @property
    def step(self) -> int:
        """Steps finished: items handed out, across resumes."""
        return 0 if self._loop is None else self._loop.step

    def save(self) -> str | None:
        """Save now; returns where, or None if this step is saved already.

        Called from the loop, it counts the item in work as done.

        Raises:
          OSError: if the store cannot keep it.
          ResumableError: if the state cannot be saved exactly.
        """
        if self._loop is None:
            raise InvalidArgument("there is nothing to save before resume()")
        step = self._loop.step
        if step == self._saved_step and step in self.store.steps():
            return None
        checkpoint = Checkpoint(step, time.time(), self._loop.iterator.get_state())
        data = encode(checkpoint)
        for listener in self.listeners:
            listener.before_save(step)
        path = self.store.save(step, data)
        self._saved_step, self._saved_seconds = step, self._clock()
        asked = [listener.after_save(step, path) for listener in self.listeners]
        self._stopped = self._stopped or any(answer is True for answer in asked)
        return path

    def close(self) -> None:
        """End the loop's threads; without a save."""
        if self._loop is not None:
            self._loop.iterator.close()

    def __enter__(self) -> Checkpointer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if kind is None and self._loop is not None:
                self.finish()
        finally:
            self.close()

    def save_if_due(self) -> bool:
        """Save if the trigger says so; whether the loop is to go on."""
        progress = Progress(self.step, self._saved_step, self._clock(), self._saved_seconds)
        if progress.step != self._saved_step and self.trigger.is_due(progress):
            self.save()
        return not self._stopped

    def finish(self) -> None:
        """The last save and the farewell, once."""
        assert self._loop is not None
        if self._loop.finished or not self._loop.begun:
            return
        self._loop.finished = True
        if self._save_at_end:
            self.save()
        for listener in self.listeners:
            listener.end(self.step)

    def _read(self, step: int) -> Checkpoint:
        checkpoint = decode(self.store.load(step))
        if checkpoint.step != step:
            raise CorruptCheckpoint(f"it holds step {checkpoint.step}")
        return checkpoint

    def _at(self, step: int) -> Checkpoint:
        step = check_int("step", step, minimum=0)
        if step not in self.store.steps():
            raise NoValidCheckpoint(
                f"there is no checkpoint for step {step}; there are {self.store.steps()}"
            )
        try:
            return self._read(step)
        except CorruptCheckpoint as error:
            raise NoValidCheckpoint(f"the checkpoint of step {step} is damaged: {error}") from error


@final
class ResumedLoop(Generic[T]):
    """The items of a pipeline, with a save wherever one is due.

    Attributes:
      iterator: the running pass.
      begun: whether the first item was asked for.
      finished: whether the loop came to a clean end.
    """

    def __init__(self, checkpointer: Checkpointer, iterator: PipelineIterator[T]) -> None:
        self._checkpointer = checkpointer
        self.iterator = iterator
        self.finished = False
        self.begun = False

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        checkpointer = self._checkpointer
        if self.finished:
            raise StopIteration
        if not self.begun:
            self.begun = True
            for listener in checkpointer.listeners:
                listener.begin()
        elif not checkpointer.save_if_due():
            checkpointer.finish()
            raise StopIteration
        try:
            return next(self.iterator)
        except StopIteration:
            checkpointer.finish()
            raise

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
