"""Where the `Trainer` of transformers begins after a resume, as it computes it from its step."""

# The trainer counts optimizer steps. From the batches of an epoch it computes in which epoch it goes on, and
# tells the loader so. With another number of ranks an epoch may have another number of batches. If the
# loader has no length, each `train` begins with epoch 0. So the loader's own position is what holds, and the
# trainer's is compared with it.
#
# In the first epoch of a resume the trainer counts batches from 0, so that its `epoch` is too low.

from __future__ import annotations

from typing import NamedTuple

import resumable as rs

__all__ = ["TrainerStart", "same_on_all_ranks"]


class TrainerStart(NamedTuple):
    """Where the trainer goes on.

    Attributes:
      epoch: the number with which it first calls `set_epoch`.
      trained: how many batches of that epoch it has trained on, by its step.
      length: batches of an epoch; None if that is not known, as of a stream.
    """

    epoch: int
    trained: int
    length: int | None

    @classmethod
    def at(cls, step: int, length: int | None, accumulation: int, max_steps: int) -> TrainerStart:
        """Where it goes on after ``step`` optimizer steps of ``accumulation`` batches each.

        Args:
          step: number of optimizer steps.
          length: batches of an epoch, if that is known.
          accumulation: batches of an optimizer step.
          max_steps: of the whole training.
        """
        if length is None:
            return cls(step // max_steps, 0, None)
        epoch, steps = divmod(step, max(-(-length // accumulation), 1))
        return cls(epoch, steps * accumulation, length)

    @property
    def left(self) -> int:
        """How many batches of the epoch the trainer expects."""
        return (self.length or 0) - self.trained

    @property
    def as_number(self) -> float:
        """What the trainer then calls its epoch."""
        return self.epoch + self.trained / (self.length or 1)


def same_on_all_ranks(lengths: list[int | None]) -> int | None:
    """The batches of an epoch of each rank, in the order of the ranks.

    Raises:
      InvalidArgument: if ranks have different ones, since one would then wait for the others for ever.
    """
    if len(set(lengths)) > 1:
        raise rs.InvalidArgument(
            f"all ranks must have the same number of batches in an epoch, got {lengths}: ranks that own "
            'partitions need shard(rank, ranks, uneven="drop"), or repeat in the partitions and max_steps'
        )
    return lengths[0]
