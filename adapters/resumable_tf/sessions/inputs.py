"""All inputs of one hook: restored together, and saved together under one step."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import tensorflow as tf
import tensorflow.compat.v1 as tf1

import resumable as rs
from resumable.checkpoint.opening import as_store
from resumable.state.value import State

from ..checkpoints import InputCheckpoints
from ..policy import check_policy
from ..tasks import TaskFiles
from .dataset import NAME, ResumableIterator, iterators_of
from .model_folder import models_in, others_in
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
      files: the checkpoints.
      policy: what to do about sources that cannot be saved exactly.
    """

    iterator: ResumableIterator
    files: TaskFiles
    policy: str

    def check(self) -> None:
        """Make sure that the position can be saved.

        Raises:
          ExternalStateError: if saving is impossible under the policy ``"fail"``.
        """
        check_policy(self.iterator.feed.pipeline, self.policy)


def saved_inputs(
    task: Task, pipeline: rs.Pipeline[Any] | None, name: str | None, policy: str, allow_fresh: bool
) -> list[SavedInput]:
    """The inputs of the default graph for a task, or only the input of ``pipeline``."""
    base = task.name if name is None else name
    found = []
    for iterator in iterators_of(pipeline):
        own = base if pipeline is not None else f"{base}{iterator.name.removeprefix(NAME)}"
        files = TaskFiles(
            as_store(task.folder, own),
            iterator.feed,
            task.leads,
            # A task other than the chief may join when the model has moved on.
            allow_fresh or not task.is_chief,
            partial(others_in, task.folder, own),
        )
        found.append(SavedInput(iterator, files, policy))
    return found


class Inputs:
    """The checkpoints of some inputs, all at the position of one step.

    Args:
      inputs: of one graph.
      options: further arguments of `InputCheckpoints`.

    Attributes:
      checkpoints: saves the inputs; `take` must come before each save.
    """

    def __init__(self, inputs: Sequence[SavedInput], **options: Any) -> None:
        self._inputs = inputs
        self._numbers: list[int] = []
        self.checkpoints = InputCheckpoints(
            {each.iterator.name: each.files for each in inputs}, self._get_state, **options
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

    def keep_of_models(
        self, folder: str | os.PathLike[str], others: Iterable[int] = (), latest: int = 1
    ) -> str | None:
        """Remove all but the ``latest`` checkpoints, and those of ``others`` and the models in ``folder``.

        Returns:
          the failure, if any.
        """
        try:
            self.checkpoints.keep_only(models_in(folder).union(others), latest)
        except (OSError, tf.errors.OpError) as error:
            return f"old checkpoints of the input could not be removed: {error}"
        return None
