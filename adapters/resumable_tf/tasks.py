"""Join the states of one input, saved by the tasks of a job under separate names."""

# Each task saves alone, and tasks exchange nothing else. A job with another number of tasks needs
# the saved states of all tasks at the step of the model. Files of another life of the job must
# never be joined: a life with four workers, say, may have come further than the model from which
# two workers continue.
#
# - Only files of exactly the model's step are joined, and only if all files together have all
#   partitions, even partitions that this task does not need. A task that continues from a model
#   sets its own later files aside. So the files of another life lack the partitions of each task
#   that is in both lives. Such files contradict the files of the other tasks of this life, or
#   leave a gap.
# - The chief of an Estimator also sets aside later files of other tasks, which may be gone. No task
#   of this job can be further than the model from which all tasks begin.
#
# The state of a `shard` is the same on all tasks. A task that returns after a job without it has an
# older state, and must adopt the state of the other tasks. But if each task goes at its own pace, as
# with parameter servers, the task continues from its own state. Equal states of two other tasks at
# one step show the former case.

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, final

import resumable as rs
from resumable.checkpoint.reading import read_valid, supersede_after
from resumable.core.merging import merge_owner_states
from resumable.state.value import State

from .feed import Feed

__all__ = ["TaskFiles"]

TASK: Final = re.compile(r"_(chief|master|worker)_[0-9]+(?=_|$)")
"""The part of an input's name that is missing in a job with one task."""


@final
class TaskFiles:
    """The checkpoints of one input, of this task and of other tasks.

    Args:
      store: of this task. A store given by the user is not searched for other tasks.
      feed: of the input.
      leads: whether this task is the chief of all tasks that save here.
      may_be_fresh: whether the input of a store without checkpoints may begin at the start, with a
        warning, although the model does not.
      others_in: for a store without checkpoints, says what other hooks have saved instead.

    Attributes:
      store: the argument.
      may_be_fresh: the argument.
      others_in: the argument.
    """

    def __init__(
        self,
        store: rs.Store,
        feed: Feed[Any],
        leads: bool = False,
        may_be_fresh: bool = False,
        others_in: Callable[[], str] = str,
    ) -> None:
        self.store = store
        self.may_be_fresh = may_be_fresh
        self.others_in = others_in
        self._name = store.name if isinstance(store, (rs.Directory, rs.Remote)) else ""
        self._feed = feed
        self._leads = leads

    def joined(self, step: int, exactly: bool) -> State | None:
        """The state at ``step`` joined from several tasks' files, if this task needs other files.

        Args:
          step: of the model.
          exactly: whether an earlier checkpoint of this task is not enough.

        Raises:
          StateMismatch: if all files of the step do not make up a suitable state.
        """
        others = self._others(step)
        steps = self.store.steps()
        older = [earlier for earlier in steps if earlier < step]
        is_saved = step in steps
        is_needed = exactly or is_saved or self._feed.has_partitions
        if not others or not (is_saved or step):
            return None
        if older and not is_needed and not self._go_together(others):
            return None
        if is_saved and self._fits(step):
            return None
        read: dict[str, State] = {}
        for name, store in {**others, **({self._name: self.store} if is_saved else {})}.items():
            with suppress(rs.NoValidCheckpoint):
                read[name] = read_valid(store, step).state
        if not read:
            return None
        try:
            merged = merge_owner_states(read.values())
            self._feed.check_whole(merged)
        except rs.StateMismatch as error:
            if not is_needed or (older and not exactly and not is_saved and self._fits(older[-1])):
                return None
            error.reword(
                f"the model is at step {step}, and what was saved at that step does not make up the "
                f"state of the input, whose files of {', '.join(sorted(read))} were read: {error}"
            )
            raise
        return merged

    def has_after(self, step: int) -> bool:
        """Whether there are checkpoints after ``step`` that `supersede_after` would set aside."""
        return any(saved > step for store in self._superseded() for saved in store.steps())

    def supersede_after(self, step: int) -> None:
        """Rename the checkpoints after ``step``, as the training resumes there."""
        for store in self._superseded():
            supersede_after(store, step)

    def _superseded(self) -> list[rs.Store]:
        return [self.store, *(self._others().values() if self._leads else [])]

    def _others(self, step: int | None = None) -> dict[str, rs.Store]:
        """The stores of other tasks, by name; with ``step``, only stores that have the step."""
        own = self.store
        if not isinstance(own, (rs.Directory, rs.Remote)):
            return {}
        return {
            name: own.named(name)
            for name, steps in own.steps_by_name().items()
            if name != self._name
            and _without_task(name) == _without_task(self._name)
            and (step is None or step in steps)
        }

    def _go_together(self, others: Mapping[str, rs.Store]) -> bool:
        """Whether ``others`` with equal states were saved by tasks that go in step."""
        # Tasks that go at their own pace hardly ever have the same position at the same step.
        return len(others) > 1 or _without_task(self._name) in others

    def _fits(self, step: int) -> bool:
        """Whether this task's checkpoint at ``step`` has all needed partitions, or is damaged."""
        try:
            self._feed.check(read_valid(self.store, step).state)
        except rs.StateMismatch:
            return False
        except rs.NoValidCheckpoint:  # the caller gets this error on loading
            pass
        return True


def _without_task(name: str) -> str:
    return TASK.sub("", name, count=1)
