"""Which slot of a window each step of a windowed shuffle empties."""

# Every fourth step takes the next slot of a round: a seeded order over all slots, new each
# time round. The other steps take a random slot. Any 8 * window steps hold one whole round, so
# each slot is emptied in them, however unlucky the random choices; this bounds how old an
# item in the window can be, and so how far back a resume has to read.

from __future__ import annotations

from typing import final

import numpy as np

from ..block import Indices
from ..order import derive, permutation, random_below

__all__ = ["OLDEST_WINDOWS", "SlotChoice"]

OLDEST_WINDOWS = 8
"""No item stays longer than this many times ``window`` steps."""

ROUND_EVERY = 4
SLOT, ROUND, DRAIN = 1, 2, 3


@final
class SlotChoice:
    """The slots that the steps of one epoch empty: a pure function of the step.

    Args:
      seed, epoch: what the order is drawn from.
      window: number of slots, at most 2**31.
    """

    def __init__(self, seed: int, epoch: int, window: int) -> None:
        self._window = window
        self._slot_key = derive(seed, epoch, SLOT)
        self._round_seed = derive(seed, epoch, ROUND)
        self._drain_seed = derive(seed, epoch, DRAIN)

    def of_steps(self, start: int, stop: int) -> Indices:
        """The slots of steps ``start`` to ``stop``, shape (stop - start,), int64."""
        steps = np.arange(start, stop, dtype=np.int64)
        slots = random_below(self._slot_key, steps, self._window)
        in_round = steps % ROUND_EVERY == ROUND_EVERY - 1
        turns = steps[in_round] // ROUND_EVERY
        rounds = turns // self._window
        chosen = np.empty_like(turns)
        for number in np.unique(rounds).tolist():
            here = rounds == number
            order = permutation(self._window, self._round_seed, number)
            chosen[here] = order(turns[here] - number * self._window)
        slots[in_round] = chosen
        return slots

    def draining(self, count: int) -> Indices:
        """The order in which the last ``count`` items leave, shape (count,), int64."""
        return permutation(count, self._drain_seed, 0)(np.arange(count, dtype=np.int64))

    def contents(self, steps: int) -> Indices:
        """Index of the item in each slot after ``steps`` steps; shape (window,), int64.

        The slot that the last step emptied still names the item it gave.
        """
        window = self._window
        items = np.arange(window, dtype=np.int64)
        # A slot holds the item that its last step let in, which has the largest number.
        first = max(0, steps - 1 - OLDEST_WINDOWS * window)
        chunk = max(window, 1 << 16)
        for start in range(first, steps - 1, chunk):
            stop = min(start + chunk, steps - 1)
            numbers = np.arange(start, stop, dtype=np.int64) + window
            np.maximum.at(items, self.of_steps(start, stop), numbers)
        return items
