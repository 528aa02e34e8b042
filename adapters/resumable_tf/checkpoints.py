"""Checkpoints of the input, labelled with the steps of the model."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Final
from weakref import WeakValueDictionary

import resumable as rs
from resumable.checkpoint.reading import read_valid
from resumable.checkpoint.retention import Retain, Retainer
from resumable.checkpoint.saver import SavePoint, Saver, write_checkpoint
from resumable.checkpoint.store import StoreLock
from resumable.state.value import State

from .tasks import TaskFiles

__all__ = ["InputCheckpoints"]

_writing: Final[WeakValueDictionary[str, InputCheckpoints]] = WeakValueDictionary()
"""The last writer to each store in this process, by the name of the store."""


@dataclass(eq=False)
class InputCheckpoints:
    """Saves the state of the input under the step of the model, and restores the state of a step.

    Args:
      inputs: the checkpoints of each input by key.
      get_state: returns the state of each input by key.
      asynchronous: whether the training continues while a checkpoint is written.
      listeners: called at the saves.
      retain: called with step and time after each save; returns the failure, if any.
      after: called with the step in each save, once all inputs are stored.
      retention: which checkpoints of each input to keep, instead of ``retain``; all by default.
    """

    inputs: Mapping[str, TaskFiles]
    get_state: Callable[[], State]
    asynchronous: bool = False
    listeners: Sequence[rs.CheckpointListener] = ()
    retain: Retain | None = None
    after: Callable[[int], object] | None = None
    retention: rs.Retention | None = None

    def __post_init__(self) -> None:
        self._stores = {key: each.store for key, each in self.inputs.items()}
        # The step read or saved last, and its inputs, to avoid storing them again.
        self._stored: tuple[int, set[str]] = (-1, set())
        self._saver: Saver | None = None
        self._locks = ExitStack()

    def restore(
        self, step: int, *, exactly: bool = True, supersede: bool = True
    ) -> rs.Checkpoint | None:
        """The checkpoint that belongs to the model at ``step``; None for the start.

        Inputs without a state are left out. If this task's state does not fit, the states of all
        tasks are joined; see `TaskFiles`.

        Later checkpoints are renamed to ``*.superseded``. From now on no other process may write to
        the store. An earlier writer of this process, such as the hook of a failed training, no
        longer writes.

        Args:
          step: of the model.
          exactly: whether to require the checkpoint of exactly this step; otherwise take the newest
            checkpoint up to this step.
          supersede: whether to rename later checkpoints now; else call `supersede_after`.

        Raises:
          NameInUse: if another process writes to the store.
          NoValidCheckpoint: if the step has no checkpoint, or a damaged checkpoint.
          StateMismatch: if other tasks have saved the step, and the joined states do not fit.
        """
        self.close()
        with ExitStack() as undo:
            locks = self._lock(undo)
            found = self._find(step, exactly)
            if supersede:
                self.supersede_after(step)
            if all(lock.is_held for lock in locks):
                for store in self._stores.values():
                    store.remove_unfinished()
            whole = found is not None and self._with(found.step) == [*self._stores.values()]
            self._begin(found.step if found is not None and whole else None, locks)
            self._locks = undo.pop_all()
        return found

    @property
    def step(self) -> int | None:
        """The step saved last, maybe still being written, or the restored step."""
        return self._running.last_save.step

    def has_after(self, step: int) -> bool:
        """Whether there are checkpoints after ``step``."""
        return any(each.has_after(step) for each in self.inputs.values())

    def supersede_after(self, step: int) -> None:
        """Rename the checkpoints after ``step``, as the training resumes there."""
        for each in self.inputs.values():
            each.supersede_after(step)

    def save(self, step: int, *, again: bool = False) -> None:
        """Save the state now under ``step``, unless already saved.

        Args:
          step: of the model.
          again: whether to save a step that was restored or saved before, too.

        Raises:
          SaveError: if this save failed, or an asynchronous one before.
        """
        saver = self._running
        if again or saver.last_save.step != step:
            saver.begin(SavePoint(step, time.monotonic()))
        self.collect()

    def collect(self, *, wait_for_it: bool = False) -> bool:
        """Acknowledge a finished save; returns whether a listener has stopped the training.

        Raises:
          SaveError: if a save has failed.
        """
        saver = self._running
        saver.collect(wait_for_it=wait_for_it)
        saver.raise_failure()
        return saver.stopped

    def keep_only(self, steps: set[int], latest: int = 1) -> None:
        """Remove all checkpoints except those of ``steps`` and the ``latest`` newest."""
        for store in self._stores.values():
            for step in store.steps()[:-latest]:
                if step not in steps:
                    store.remove(step)

    def close(self) -> None:
        """Wait for a running save, and release the store; may be called again.

        Raises:
          SaveError: if the save failed.
        """
        saver, self._saver = self._saver, None
        try:
            if saver is not None:
                saver.close()
                saver.raise_failure()
        finally:
            self._locks.close()

    @property
    def _running(self) -> Saver:
        if self._saver is None:
            raise rs.InvalidArgument("there is nothing to save before restore()")
        return self._saver

    def _find(self, step: int, exactly: bool) -> rs.Checkpoint | None:
        joined: dict[str, State] = {}
        for key, each in self.inputs.items():
            state = each.joined(step, exactly)
            if state is not None:
                joined[key] = state
            elif step:
                self._check_begun(each, step, exactly)
        if joined:
            return self._read(step, joined)
        begun = [set(store.steps()) for store in self._begun.values()]
        steps = sorted(set.intersection(*begun)) if begun else []
        if not exactly:
            return self._newest_until(step, steps)
        return self._read(step, {}) if step in steps else None

    def _read(self, step: int, joined: Mapping[str, State]) -> rs.Checkpoint:
        """The checkpoint of ``step``, with the states in ``joined`` instead of the stored states.

        Raises:
          NoValidCheckpoint: if another begun input has no checkpoint for ``step``, or a damaged
            one.
        """
        own = {key: store for key, store in self._begun.items() if key not in joined}
        read = {key: read_valid(store, step) for key, store in own.items()}
        self._stored = step, {key for key, store in self._stores.items() if step in store.steps()}
        saved_at = min((each.time for each in read.values()), default=time.time())
        states = {key: each.state for key, each in read.items()}
        return rs.Checkpoint(step, saved_at, {**joined, **states})

    def _write(self, checkpoint: rs.Checkpoint) -> str:
        """Store the state of each input, and call ``after``."""
        step = checkpoint.step
        if self._stored[0] != step:
            self._stored = step, set()
        for key, store in self._stores.items():
            if key not in self._stored[1]:
                state: Any = checkpoint.state[key]
                write_checkpoint(store, replace(checkpoint, state=state))
                self._stored[1].add(key)
        if self.after is not None:
            self.after(step)
        return ", ".join(map(repr, self._stores.values()))

    @property
    def _begun(self) -> dict[str, rs.Store]:
        return {key: store for key, store in self._stores.items() if store.steps()}

    def _with(self, step: int) -> list[rs.Store]:
        return [store for store in self._stores.values() if step in store.steps()]

    def _newest_until(self, step: int, steps: list[int]) -> rs.Checkpoint | None:
        """The newest valid checkpoint up to ``step``."""
        for earlier in reversed([saved for saved in steps if saved <= step]):
            try:
                return self._read(earlier, {})
            except rs.NoValidCheckpoint as error:
                stores = self._with(earlier)
                place = ", ".join(store.set_aside(earlier, "damaged") for store in stores)
                warnings.warn(f"{error}; it was set aside as {place}", RuntimeWarning, stacklevel=5)
        return None

    def _check_begun(self, files: TaskFiles, step: int, exactly: bool) -> None:
        """Make sure that ``files`` has the checkpoint for the model at ``step``."""
        part = files.store
        steps = part.steps()
        if step in steps or (not exactly and any(saved <= step for saved in steps)):
            return
        if steps or part.has_damaged():
            raise rs.NoValidCheckpoint(
                f"the model is at step {step}, and {part!r} has no checkpoint of the input "
                f"for that step, but for {steps or 'none'}; restore the model of one of these, or, to "
                "begin the input anew, remove them and pass allow_fresh_input=True"
            )
        others = files.others_in()
        if not files.may_be_fresh:
            raise rs.NoValidCheckpoint(
                f"the model is at step {step}, and there are no checkpoints of its input in {part!r}"
                f"{others}; was the input renamed, or its files removed? If the model never had this "
                "input, begin it at its start by allow_fresh_input=True"
            )
        warnings.warn(
            f"the model is at step {step}, and there are no checkpoints of its input in "
            f"{part!r}{others}: the input begins at its start",
            RuntimeWarning,
            stacklevel=6,
        )

    def _lock(self, undo: ExitStack) -> list[StoreLock]:
        """The locks of the stores; an earlier writer of this process gives up its lock."""
        for store in self._stores.values():
            before = _writing.pop(repr(store), None)
            if before is not None and before is not self:
                before.close()
        locks = []
        for store in self._stores.values():
            locks.append(store.lock())
            undo.callback(locks[-1].close)
        return locks

    def _begin(self, saved: int | None, locks: Iterable[StoreLock]) -> None:
        for store in self._stores.values():
            _writing[repr(store)] = self
        self._saver = Saver(
            lambda step: rs.Checkpoint(step, time.time(), self.get_state()),
            self._write,
            self.asynchronous,
            self.listeners,
            self.retain if self.retention is None else self._retainer(self.retention),
            None,  # no checkpoint of the input is removed while a checkpoint of the model is restored
            time.monotonic,
            SavePoint(saved, time.monotonic()),
        )
        for lock in locks:
            lock.close_with(self._saver)

    def _retainer(self, retention: rs.Retention) -> Retain:
        """A function that applies ``retention``, until a restore itself removes checkpoints."""
        retainers = [Retainer(retention, store) for store in self._stores.values()]

        def apply(step: int, saved_at: float) -> str | None:
            found = (each.apply(step, saved_at) for each in retainers)
            return "; ".join(complaint for complaint in found if complaint) or None

        return apply
