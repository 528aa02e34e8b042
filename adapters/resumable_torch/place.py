"""Where a loop stands in the epochs of a pipeline, as a value, and what it has counted there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import length_hint
from typing import Any, Final, NamedTuple

from resumable.consumed import ConsumedStates

from .worker_shares import WorkerShares

__all__ = ["ONE", "BatchSize", "EpochProgress", "Place"]


class BatchSize(NamedTuple):
    """How many items of the pipeline are taken at a time.

    Attributes:
      items: in a whole batch.
      fewest: with which a batch is made.
    """

    items: int = 1
    fewest: int = 1


ONE: Final = BatchSize()


@dataclass
class EpochProgress:
    """How far a loop is in an epoch. Each loop has its own, and each move of the cursor to another place begins one.

    Attributes:
      per_batch: the items of a batch of the loop.
      is_second_look: whether the loop before was left at its first batch, which is also the first of this loop.
      handed_out: how many of the received batches the loop has; None if it has all, since none lie ahead of it.
      received: number of batches that the loader has given out.
      is_saved: whether a state was taken after a batch of this loop.
      shares: the states of workers that own partitions; None if they own none.
      kept: states after numbers of items, taken when these items were drawn ahead of the loop.
      drawn: number of items that a sampler or a data set in this process has taken from the pipeline.
      block: those of the last of them that it has not yielded yet; None if nothing draws in this process.
      left_by: the call that moved the cursor elsewhere; empty while the cursor is here.
    """

    per_batch: BatchSize = ONE
    is_second_look: bool = False
    handed_out: int | None = None
    received: int = 0
    is_saved: bool = False
    shares: WorkerShares | None = None
    kept: dict[int, bytes] = field(default_factory=dict)
    drawn: int = 0
    block: Iterator[Any] | None = None
    left_by: str = ""

    @property
    def consumed(self) -> int:
        """How many batches the loop has received."""
        return self.received if self.handed_out is None else self.handed_out

    @property
    def yielded(self) -> int:
        """How many items were yielded in this process; the loop may have consumed fewer."""
        return self.drawn - length_hint(self.block or ())

    def items_of_workers(self, has_ended: bool) -> int | None:
        """The number of items that workers have made for the loop; None if this process made them."""
        # One batch more than were received is the end.
        batches = self.received + has_ended
        return batches * self.per_batch.items if batches and self.block is None else None


@dataclass(frozen=True)
class Place:
    """Where a cursor stands. The cursor goes elsewhere by one assignment, so an interrupt leaves no half of a move.

    Attributes:
      states: of the epoch from where it begins, or was resumed.
      epoch: its number.
      is_begun: whether a loop is in the epoch; otherwise this epoch comes next.
      is_loaded: whether a state was loaded and no loop has begun since.
      is_chosen: whether this very epoch comes next: again from its start if it has begun, and as an empty rest if
        nothing is left of a resumed one.
      is_led_by_state: whether only a loaded state has said which epoch comes next.
      follows: whether torch's persistent workers may be used again.
      end_before: what a loader saves until the epoch begins: the state at the end of the epoch before, or
        None if it saves the state at the start of this one.
      unknown: why it is not known what the functions are at the start of this epoch.
      enough: whether a resumed epoch has at least so many items left, as far as that was asked.
      progress: of the loop.
    """

    states: ConsumedStates[Any]
    epoch: int
    is_begun: bool = False
    is_loaded: bool = False
    is_chosen: bool = False
    is_led_by_state: bool = False
    follows: bool = False
    end_before: dict[str, bytes] | None = None
    unknown: Exception | None = None
    enough: dict[int, bool] = field(default_factory=dict)
    progress: EpochProgress = field(default_factory=EpochProgress)
