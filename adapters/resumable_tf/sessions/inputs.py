"""All inputs of one hook: restored together, and saved together under one step."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import tensorflow.compat.v1 as tf1

import resumable as rs
from resumable.checkpoint.opening import as_store
from resumable.state.value import State

from ..checkpoints import InputCheckpoints
from ..policy import check_policy
from ..tasks import TaskFiles
from .dataset import NAME, ResumableIterator, iterators_of
from .model_folder import others_in
from .settings import Task

__all__ = ["INPUT_HOOKS", "MODEL_HOOKS", "Inputs", "SavedInput", "saved_inputs"]

# Collections of a graph: hooks that save inputs, and hooks that save the model and the inputs in a
# thread. Hooks of the first kind leave the inputs to a hook of the second kind, if any.
INPUT_HOOKS: Final = ("resumable_input_hooks",)
MODEL_HOOKS: Final = ("resumable_model_hooks",)


@dataclass(frozen=True)
class SavedInput:
    """An input of a graph, and the place of its checkpoints.

    Attributes:
      iterator: of the input.
      folder: of the model.
      name: of the input in the folder.
      store: with its checkpoints.
      policy: what to do about sources that cannot be saved exactly.
      may_be_fresh: whether the input may begin at the start where the model does not.
      leads: whether the task is the chief of all tasks that save in the folder.
    """

    iterator: ResumableIterator
    folder: str | os.PathLike[str]
    name: str
    store: rs.Store
    policy: str
    may_be_fresh: bool
    leads: bool = False

    def check(self) -> None:
        """Make sure that the position can be saved.

        Raises:
          ExternalStateError: if saving is impossible under the policy ``"fail"``.
        """
        check_policy(self.iterator.feed.pipeline, self.policy)


def saved_inputs(
    task: Task,
    pipeline: rs.Pipeline[Any] | None,
    name: str | None,
    policy: str,
    allow_fresh: bool,
) -> list[SavedInput]:
    """The inputs of the default graph for a task, or only the input of ``pipeline``."""
    base = task.name if name is None else name
    found = []
    for iterator in iterators_of(pipeline):
        own = base if pipeline is not None else f"{base}{iterator.name.removeprefix(NAME)}"
        store = as_store(task.folder, own)
        # A task other than the chief may join when the model has moved on.
        fresh = allow_fresh or not task.is_chief
        found.append(SavedInput(iterator, task.folder, own, store, policy, fresh, task.leads))
    return found


class Inputs:
    """The checkpoints of some inputs, all at the position of one step.

    Args:
      inputs: of one graph.
      asynchronous: whether the training continues while a checkpoint is written.
      listeners: called at the saves.
      retain: called with step and time after each save; returns the failure, if any.
      after: called with the step in each save, once the inputs are stored.

    Attributes:
      checkpoints: saves the inputs; `take` must come before each save.
    """

    def __init__(
        self,
        inputs: Sequence[SavedInput],
        *,
        asynchronous: bool,
        listeners: Iterable[rs.CheckpointListener] = (),
        retain: Callable[[int, float], str | None] | None = None,
        after: Callable[[int], object] | None = None,
    ) -> None:
        self._inputs = inputs
        self._numbers: list[int] = []
        self.checkpoints = InputCheckpoints(
            {
                each.iterator.name: TaskFiles(each.store, each.iterator.feed, each.leads)
                for each in inputs
            },
            self._get_state,
            lambda store: self._of(store).may_be_fresh,
            asynchronous,
            listeners,
            retain,
            lambda store: others_in(self._of(store).folder, self._of(store).name),
            after,
        )

    def restore(
        self, session: tf1.Session, step: int, *, exactly: bool = True, supersede: bool = True
    ) -> None:
        """Resume inputs of ``session`` at the checkpoint of ``step``; see `InputCheckpoints`."""
        found = self.checkpoints.restore(step, exactly=exactly, supersede=supersede)
        states: dict[str, Any] = {} if found is None else dict(found.state)
        for each in self._inputs:
            # In this order, as the iterator starts at the position of the feed.
            each.iterator.feed.move_to(states.get(each.iterator.name))
            session.run(each.iterator.starter)

    def take(self, session: tf1.Session) -> None:
        """Note the consumed items, for the next save."""
        consumed = [each.iterator.consumed for each in self._inputs]
        self._numbers = [int(number) for number in session.run(consumed)]

    def _get_state(self) -> State:
        return {
            each.iterator.name: each.iterator.feed.state_after(number)
            for each, number in zip(self._inputs, self._numbers, strict=True)
        }

    def _of(self, store: rs.Store) -> SavedInput:
        return next(each for each in self._inputs if each.store is store)
