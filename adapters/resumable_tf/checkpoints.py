"""Checkpoints of the input, labelled with the steps of the model."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Final
from weakref import WeakValueDictionary

import resumable as rs
from resumable.checkpoint.reading import read_valid, supersede_after
from resumable.checkpoint.saver import Mark, Saver
from resumable.checkpoint.store import StoreLock
from resumable.state.value import State

__all__ = ["InputCheckpoints"]

_writing: Final[WeakValueDictionary[str, InputCheckpoints]] = WeakValueDictionary()
"""The last object of this process that wrote to a store, by the name of the store."""


class InputCheckpoints:
    """Saves the state of the input under the step of the model, and restores the one of that step.

    Args:
      store: where the checkpoints are kept.
      get_state: returns the state to save.
      asynchronous: whether the training goes on while a checkpoint is written.
      listeners: called at the saves.
      retain: called with step and time after each save; returns what failed.
    """

    def __init__(
        self,
        store: rs.Store,
        get_state: Callable[[], State],
        asynchronous: bool = False,
        listeners: Iterable[rs.CheckpointListener] = (),
        retain: Callable[[int, float], str | None] | None = None,
    ) -> None:
        self.store = store
        self._get_state = get_state
        self._asynchronous = asynchronous
        self._listeners = tuple(listeners)
        self._retain = retain
        self._saver: Saver | None = None
        self._lock = StoreLock()

    def restore(self, step: int, *, exactly: bool = True) -> rs.Checkpoint | None:
        """The checkpoint that belongs to the model at ``step``; None for the start.

        Later checkpoints are renamed to ``*.superseded``. From now on no other process may write to the
        store. An object of this process that wrote to it before, such as the hook of a training that
        failed, no longer does.

        Args:
          step: of the model.
          exactly: whether it must be the checkpoint of this very step; else it is the newest one that is
            not after it.

        Raises:
          NameInUse: if another process writes to the store.
          NoValidCheckpoint: if there are checkpoints but none that fits, or that one is damaged.
        """
        self.close()
        with ExitStack() as undo:
            lock = self._locked()
            undo.callback(lock.close)
            found = self._find(step, exactly)
            supersede_after(self.store, step)
            if lock.is_held:
                self.store.remove_unfinished()
            self._begin(None if found is None else found.step, lock)
            undo.pop_all()
        return found

    def save(self, step: int) -> None:
        """Save the state now as that of ``step``, unless that step is saved already.

        Raises:
          SaveError: if this save failed, or an asynchronous one before.
        """
        saver = self._running
        if saver.begun.step != step:
            saver.begin(Mark(step, time.monotonic()))
        self.collect()

    def collect(self, *, wait_for_it: bool = False) -> bool:
        """Acknowledge a save that is done; returns whether a listener has stopped the training.

        Raises:
          SaveError: if a save has failed.
        """
        saver = self._running
        saver.collect(wait_for_it=wait_for_it)
        saver.raise_failure()
        return saver.stopped

    def keep_only(self, steps: set[int], latest: int = 1) -> None:
        """Remove the checkpoints of all steps but these and the ``latest`` newest ones."""
        for step in self.store.steps()[:-latest]:
            if step not in steps:
                self.store.remove(step)

    def close(self) -> None:
        """Wait for a save that is being written, and release the store; may be called again.

        Raises:
          SaveError: if the save failed.
        """
        saver, self._saver = self._saver, None
        try:
            if saver is not None:
                saver.close()
                saver.raise_failure()
        finally:
            self._lock.close()

    @property
    def _running(self) -> Saver:
        if self._saver is None:
            raise rs.InvalidArgument("there is nothing to save before restore()")
        return self._saver

    def _find(self, step: int, exactly: bool) -> rs.Checkpoint | None:
        steps = self.store.steps()
        found = self._newest_until(step, steps) if not exactly else None
        if exactly and step in steps:
            found = read_valid(self.store, step)
        elif step and found is None:
            self._tell_of_none(step, steps)
        return found

    def _newest_until(self, step: int, steps: list[int]) -> rs.Checkpoint | None:
        """The newest valid checkpoint that is not after ``step``."""
        for earlier in reversed([saved for saved in steps if saved <= step]):
            try:
                return read_valid(self.store, earlier)
            except rs.NoValidCheckpoint as error:
                place = self.store.set_aside(earlier, "damaged")
                warnings.warn(f"{error}; it was set aside as {place}", RuntimeWarning, stacklevel=5)
        return None

    def _tell_of_none(self, step: int, steps: list[int]) -> None:
        if steps or self.store.has_damaged():
            raise rs.NoValidCheckpoint(
                f"the model is at step {step}, and {self.store!r} has no checkpoint of the input "
                f"for that step, but for {steps or 'none'}; restore the model of one of these, or "
                "remove them to begin the input anew"
            )
        warnings.warn(
            f"the model is at step {step}, and there are no checkpoints of its input in "
            f"{self.store!r}: the input begins at its start",
            RuntimeWarning,
            stacklevel=5,
        )

    def _locked(self) -> StoreLock:
        """The lock of the store; another object of this process that has it must give it up."""
        try:
            return self.store.lock()
        except rs.NameInUse:
            before = _writing.pop(repr(self.store), None)
            if before is None:
                raise
            before.close()
            return self.store.lock()

    def _begin(self, saved: int | None, lock: StoreLock) -> None:
        self._lock = lock
        _writing[repr(self.store)] = self
        self._saver = Saver(
            self._get_state,
            self.store,
            self._asynchronous,
            self._listeners,
            self._retain,
            time.monotonic,
            time.time,
            Mark(saved, time.monotonic()),
        )
        lock.close_with(self._saver)
