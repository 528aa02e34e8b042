"""The start of the `Trainer` of transformers after a resume, as computed from its step."""

# The trainer counts optimizer steps. From the number of batches in an epoch the trainer computes
# the epoch of the resume, and passes the epoch to the loader. With another number of ranks an epoch
# may have another number of batches. If the loader has no length, each `train` begins with epoch 0.
# So the loader's own position decides, and the trainer's position is compared with the loader's.
#
# In the first epoch of a resume the trainer counts batches from 0, so its `epoch` is too low.

from __future__ import annotations

from typing import NamedTuple

import resumable as rs

__all__ = ["TrainerStart", "same_on_all_ranks"]


class TrainerStart(NamedTuple):
    """The start of the trainer.

    Attributes:
      epoch: the number in its first call of `set_epoch`.
      trained: number of batches of the epoch already trained on, by its step.
      length: batches of an epoch; None if unknown, as for a stream.
    """

    epoch: int
    trained: int
    length: int | None

    @classmethod
    def at(cls, step: int, length: int | None, accumulation: int, max_steps: int) -> TrainerStart:
        """The start after ``step`` optimizer steps of ``accumulation`` batches each.

        Args:
          step: number of optimizer steps.
          length: batches of an epoch, if known.
          accumulation: batches of an optimizer step.
          max_steps: of the whole training.
        """
        if length is None:
            return cls(step // max_steps, 0, None)
        epoch, steps = divmod(step, max(-(-length // accumulation), 1))
        return cls(epoch, steps * accumulation, length)

    @property
    def left(self) -> int:
        """Number of batches of the epoch expected by the trainer."""
        return (self.length or 0) - self.trained

    @property
    def as_number(self) -> float:
        """The trainer's `epoch` at the start."""
        return self.epoch + self.trained / (self.length or 1)


def same_on_all_ranks(lengths: list[int | None]) -> int | None:
    """The batches of an epoch of each rank, in the order of the ranks.

    Raises:
      InvalidArgument: if the numbers differ, since a rank would then wait for the others for ever.
    """
    if len(set(lengths)) > 1:
        raise rs.InvalidArgument(
            f"all ranks must have the same number of batches in an epoch, got {lengths}: ranks that own "
            'partitions need shard(rank, ranks, uneven="drop"), or repeat in the partitions and max_steps'
        )
    return lengths[0]
