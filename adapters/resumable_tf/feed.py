"""Numbered items for a framework that runs ahead, and the state after each number."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

import numpy as np
import tensorflow as tf

import resumable as rs
from resumable.checkpoint.opening import check_pipeline
from resumable.consumed import ConsumedStates
from resumable.core.block import Indices
from resumable.core.ended import warn_of_ended_run
from resumable.core.graph import rebuilt, walk, without_threads
from resumable.core.stage import Stage
from resumable.stages.partition import Partition, has_partitions
from resumable.stages.repeat import Repeat
from resumable.state.value import State

from .blocks import NumberedBlocks
from .columns import Columns
from .failures import Failures
from .policy import without_policy

__all__ = ["Feed"]

T = TypeVar("T")


class Feed(Generic[T]):
    """One epoch of a pipeline, with items produced ahead of consumption.

    Args:
      pipeline: the pipeline with the items.

    Attributes:
      pipeline: the argument.
      failures: the exceptions of the items.

    Raises:
      InvalidType: if ``pipeline`` is not a pipeline.
    """

    def __init__(self, pipeline: rs.Pipeline[T]) -> None:
        self.pipeline = check_pipeline(pipeline)
        self._is_restored = False
        self._states = ConsumedStates(without_policy(pipeline))
        self.failures = Failures(self._states.pipeline)

    @property
    def is_endless(self) -> bool:
        """Whether the epoch never ends: by the length if known, else by an endless `repeat`."""
        length = self.pipeline.length
        if length is not None:
            return length == math.inf
        stages = (stage for stage, _ in walk(self.pipeline.stage))
        return any(isinstance(stage, Repeat) and stage.epochs is None for stage in stages)

    @property
    def origin(self) -> int:
        """The number of items before the first item of this epoch."""
        return int(self._states.origin["step"])

    def items(self) -> Iterator[tuple[np.int64, T]]:
        """The numbered items from the origin on. The very first item has number 1."""
        self._is_restored = False
        return NumberedBlocks(self._states, None, self.failures, self._note_end)

    def blocks(self, columns: Columns) -> Iterator[tuple[Indices, Any]]:
        """The same as `items`, in blocks: the numbers, and the items as the arrays of ``columns``."""
        self._is_restored = False
        return NumberedBlocks(self._states, columns, self.failures, self._note_end)

    def state_after(self, number: int) -> State:
        """The state after the item with this number."""
        return self._states.after(number)

    @property
    def has_partitions(self) -> bool:
        """Whether a rank of the pipeline owns partitions, and saves only its partitions."""
        return has_partitions(self.pipeline.stage)

    def check(self, state: State) -> None:
        """Make sure that `move_to` can move to ``state``.

        Raises:
          StateMismatch: if ``state`` belongs to another pipeline, or lacks partitions.
        """
        self._states.checked(state)

    def check_whole(self, state: State) -> None:
        """Do as `check`, and make sure that ``state`` has the partitions of all ranks.

        Raises:
          StateMismatch: as `check`.
        """
        self.check(state)
        if self.has_partitions:
            whole = rebuilt(without_threads(self.pipeline.stage), _of_one_rank)
            rs.Pipeline(whole).resume(state).close()

    def move_to(self, state: State | None) -> None:
        """Begin the next `items` at ``state``, or at the very start for None.

        Raises:
          StateMismatch: if ``state`` belongs to another pipeline; then nothing changes.
        """
        states = self._states
        start = states.first_of(0) if state is None else states.checked(state)
        self._states = states.starting_at(start)
        self._is_restored = state is not None

    def begin_anew(self, keep_restored: bool) -> int:
        """Begin the next `items` at the very start; returns the new origin.

        Args:
          keep_restored: whether to stay at a restored state if no item was asked for since.
        """
        if not self._is_restored or not keep_restored:
            if self._is_restored:
                tf.get_logger().warning(
                    f"the input was restored after item {self.origin}, and is initialized before the "
                    "next one: it begins at its start"
                )
            self.move_to(None)
        return self.origin

    def _note_end(self, number: int) -> None:
        """Warn once if the epoch ends at ``number``, the restored position."""
        if number == self.origin > 0:
            warn_of_ended_run(number, "use another folder for model and input")


def _of_one_rank(number: int, stage: Stage[Any]) -> Stage[Any]:
    if isinstance(stage, Partition):
        return dataclasses.replace(stage, index=0, ranks=1, uneven="keep")
    return stage
