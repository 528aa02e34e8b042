"""What samplers, data sets and loaders have in common: they go through the epochs of a cursor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import resumable as rs
from resumable.core.arguments import check_int
from resumable.core.stage import Stage

from .cursor import Cursor
from .place import ONE, BatchSize

__all__ = ["DrawsItems", "HasCursor"]


class HasCursor:
    """The common part of all classes that go through the epochs of a pipeline.

    Attributes:
      cursor: the place of the loop.
      per_batch: the items of the pipeline in what comes out at a time.
    """

    cursor: Cursor
    per_batch: BatchSize = ONE

    @property
    def pipeline(self) -> rs.Pipeline[Any]:
        """The pipeline of the data set, or of the numbers of samples."""
        return self.cursor.pipeline

    @property
    def _stage(self) -> Stage[Any]:
        return self.cursor.pipeline.stage

    @property
    def epoch(self) -> int:
        """The epoch in progress; before its first item, the next one."""
        return self.cursor.epoch_to_come(self.per_batch)

    def set_epoch(self, epoch: int) -> None:
        """Let ``epoch`` come next, or the rest of it if it was resumed.

        Raises:
          InvalidArgument: if a state of a later epoch was loaded.
        """
        self.cursor.set_epoch(epoch)


class DrawsItems(HasCursor):
    """A sampler or a data set: it delivers the items of an epoch ahead of the loop, if no loader counts them."""

    def set_epoch(self, epoch: int) -> None:
        """Let ``epoch`` come next, or the rest of it if it was resumed.

        If a loader owns it, the number never leads back: a loaded place is kept, and epochs go on.

        Raises:
          InvalidArgument: if no loader owns it, and a state of a later epoch was loaded.
        """
        cursor = self.cursor
        (cursor.follow if cursor.has_owner else cursor.set_epoch)(epoch)

    def state_dict(self, consumed: int | None = None) -> dict[str, bytes]:
        """The state after what the loop has consumed.

        Args:
          consumed: number of items, or of batches if it yields batches, that the loop has consumed since the epoch
            began or was resumed. By default, the number of those yielded, which is right only where nothing runs
            ahead.
        """
        if consumed is None:
            return self.cursor.state_dict(self.cursor.progress.yielded)
        count = check_int("consumed", consumed, minimum=0)
        return self.cursor.state_dict(count * self.per_batch.items)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue at ``state_dict`` in the next loop.

        Raises:
          StateMismatch: if it belongs to another order.
        """
        self.cursor.load(state_dict)
