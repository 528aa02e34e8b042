"""The position of a loop in the epochs of a pipeline, as a value, and the loop's counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import length_hint
from typing import Any, Final, NamedTuple

from resumable.consumed import ConsumedStates

from .worker_shares import WorkerShares

__all__ = ["ONE", "BatchSize", "EpochProgress", "Place"]


class BatchSize(NamedTuple):
    """Number of items of the pipeline taken at a time.

    Attributes:
      items: in a whole batch.
      fewest: smallest number for a batch.
    """

    items: int = 1
    fewest: int = 1


ONE: Final = BatchSize()


@dataclass
class EpochProgress:
    """The progress of a loop in an epoch.

    Each loop, and each move of the cursor, has separate progress.

    Attributes:
      per_batch: the items of a batch of the loop.
      is_second_look: whether the previous loop was left at its first batch, also the first batch of
        this loop.
      handed_out: number of received batches handed to the loop; None if equal to ``received``,
        without batches ahead.
      received: number of batches given out by the loader.
      is_saved: whether a state was taken after a batch of this loop.
      shares: the states of workers with own partitions; None without own partitions.
      kept: states after numbers of items, taken when the items were drawn ahead of the loop.
      drawn: number of items taken from the pipeline by a sampler or a data set in this process.
      block: drawn items not yielded yet; None if nothing draws in this process.
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
        """Number of batches received by the loop."""
        return self.received if self.handed_out is None else self.handed_out

    @property
    def yielded(self) -> int:
        """Number of items yielded in this process; the loop may have consumed fewer."""
        return self.drawn - length_hint(self.block or ())

    def items_of_workers(self, has_ended: bool) -> int | None:
        """The number of items made by workers for the loop; None if this process made the items."""
        # A batch beyond the received batches is the end.
        batches = self.received + has_ended
        return batches * self.per_batch.items if batches and self.block is None else None


@dataclass(frozen=True)
class Place:
    """Position of a cursor.

    The cursor moves by one assignment, so an interrupt leaves no half of a move.

    Attributes:
      states: of the epoch from its beginning, or its resume.
      epoch: number of the epoch.
      is_begun: whether a loop is in the epoch; otherwise this epoch comes next.
      is_loaded: whether a state was loaded and no loop has begun since.
      is_chosen: whether this very epoch comes next: again from the start if already begun, and as
        an empty rest if a resumed epoch has nothing left.
      is_led_by_state: whether a loaded state alone decided which epoch comes next.
      follows: whether torch's persistent workers may be used again.
      end_before: state saved by a loader until the epoch begins: the state at the end of the
        previous epoch, or None for the state at the start of this epoch.
      unknown: why the state of functions at the start of this epoch is unknown.
      enough: whether a resumed epoch has at least a number of items left, by number, as far as
        checked.
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
