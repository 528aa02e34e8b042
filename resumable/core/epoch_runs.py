"""Where epochs lie among the items of a repeat, in runs of epochs of equal length."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, final

import numpy as np

from .block import Indices
from .orders import MOST_ITEMS, Length

ENDLESS: Final = math.inf


@final
@dataclass(frozen=True)
class EpochRuns:
    """Runs of epochs; all epochs of a run have the same number of items.

    Every result is arithmetic over the runs, however many epochs the runs have.

    Args:
      firsts: the first epoch of each run, ascending from 0.
      lengths: the number of items of an epoch of each run; `math.inf` if endless, None if unknown.
      epochs: number of epochs; `math.inf` for epochs until the first epoch without items.
    """

    firsts: Sequence[int]
    lengths: Sequence[Length]
    epochs: float
    # The number of items before each run, as far as known.
    _starts: Sequence[int] = field(init=False)

    def __post_init__(self) -> None:
        epochs = self.epochs
        if epochs == ENDLESS and 0 in self.lengths:
            epochs = self.firsts[list(self.lengths).index(0)]
            object.__setattr__(self, "epochs", epochs)
        count = max(sum(first < epochs for first in self.firsts), 1)
        object.__setattr__(self, "firsts", tuple(self.firsts[:count]))
        object.__setattr__(self, "lengths", tuple(self.lengths[:count]))
        starts = [0]
        for (first, stop), length in zip(pairwise(self.firsts), self.lengths, strict=False):
            if length is None or length == ENDLESS:
                break
            starts.append(starts[-1] + int(length) * (stop - first))
        object.__setattr__(self, "_starts", tuple(starts))

    @property
    def total(self) -> Length:
        """The number of items of all epochs; `math.inf` if endless, None if unknown."""
        if not self.epochs:
            return 0
        if None in self.lengths:
            return None
        return self.items_before(self.epochs) if self.known else ENDLESS

    @property
    def known(self) -> bool:
        """Whether all epochs have a known, finite length."""
        return None not in self.lengths and ENDLESS not in self.lengths

    def items_before(self, epoch: float) -> int | float:
        """The number of items in the epochs before ``epoch``, if their lengths are `known`."""
        run = self._run(epoch)
        length = self.lengths[run]
        assert length is not None
        within = epoch - self.firsts[run]
        return self._starts[run] + (length * within if length else 0)

    def length_of(self, epoch: int) -> int:
        """The number of items of ``epoch``, if `known`."""
        return int(self.lengths[self._run(epoch)] or 0)

    def epoch_with(self, item: int) -> int:
        """The epoch of ``item``, a number below `total`, if all lengths are `known`."""
        run = bisect_right(self._starts, item) - 1
        return self.firsts[run] + (item - self._starts[run]) // self.length_of(self.firsts[run])

    def after(self, epoch: int) -> int:
        """The next epoch after ``epoch``, leaving out epochs known to have no items."""
        following = epoch + 1
        while following < self.epochs and self.lengths[run := self._run(following)] == 0:
            following = self.firsts[run + 1] if run + 1 < len(self.firsts) else int(self.epochs)
        return following

    def places(self, indices: Indices) -> tuple[Indices, Indices]:
        """The epoch of each item, and its index in the epoch; all of shape (n,)."""
        if len(self.firsts) == 1:
            return np.divmod(indices, max(self.length_of(0), 1))
        starts = np.array([min(start, MOST_ITEMS) for start in self._starts], np.int64)
        runs = np.searchsorted(starts, indices, side="right") - 1
        lengths = np.maximum(np.array(self.lengths, np.int64), 1)[runs]
        numbers, within = np.divmod(indices - starts[runs], lengths)
        return np.array(self.firsts, np.int64)[runs] + numbers, within

    def _run(self, epoch: float) -> int:
        return bisect_right(self.firsts, epoch) - 1
