"""The common part of samplers, data sets and loaders: all go through the epochs of a cursor."""

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
      per_batch: number of items of the pipeline delivered at a time.
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
        """The epoch in progress; before its first item, the next epoch."""
        return self.cursor.epoch_to_come(self.per_batch)

    def set_epoch(self, epoch: int) -> None:
        """Let ``epoch`` come next, or the rest of a resumed epoch.

        Raises:
          InvalidArgument: if a state of a later epoch was loaded.
        """
        self.cursor.set_epoch(epoch)


class DrawsItems(HasCursor):
    """A sampler or a data set. Without a loader, the items are delivered ahead of the loop."""

    def set_epoch(self, epoch: int) -> None:
        """Let ``epoch`` come next, or the rest of a resumed epoch.

        If a loader is the owner, the number never leads back: a loaded place is kept, and epochs
        continue.

        Raises:
          InvalidArgument: without an owner, if a state of a later epoch was loaded.
        """
        cursor = self.cursor
        (cursor.follow if cursor.has_owner else cursor.set_epoch)(epoch)

    def state_dict(self, consumed: int | None = None) -> dict[str, bytes]:
        """The state after the items consumed by the loop.

        Args:
          consumed: number of items, or of batches for a sampler of batches, consumed by the loop
            since the epoch began or was resumed. By default, the number yielded, correct only if
            nothing runs ahead.
        """
        if consumed is None:
            return self.cursor.state_dict(self.cursor.progress.yielded)
        count = check_int("consumed", consumed, minimum=0)
        return self.cursor.state_dict(count * self.per_batch.items)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue at ``state_dict`` in the next loop.

        Raises:
          StateMismatch: if ``state_dict`` belongs to another order.
        """
        self.cursor.load(state_dict)
