"""The slot of a window emptied by each step of a windowed shuffle."""

# Every fourth step takes the next slot of a round: a seeded order over all slots, different in each
# round. The other steps take a random slot. Any 8 * window steps include a whole round, so each
# slot is emptied, however unlucky the random choices. This bounds the age of an item in the window,
# and so how far back a resume has to read.

from __future__ import annotations

from typing import final

import numpy as np

from ..core.block import Indices
from .permutation import permutation
from .random_bits import derive, random_below

OLDEST_WINDOWS = 8
"""No item stays longer than this many times ``window`` steps."""

ROUND_EVERY = 4
# A round of at most this many slots is computed whole and kept, at 8 bytes a slot: computing many
# small parts would take several times as long.
LARGEST_KEPT_ROUND = 1 << 16
SLOT, ROUND, DRAIN = 1, 2, 3


@final
class Choices:
    """The slots of consecutive steps.

    Args:
      start: the first step.
      slots: of ``start`` and the following steps.
    """

    def __init__(self, start: int, slots: list[int]) -> None:
        self._start = start
        self._slots = slots

    def __len__(self) -> int:
        return len(self._slots)

    def include(self, start: int, count: int) -> bool:
        """Whether all ``count`` steps from ``start`` on are included."""
        return self._start <= start and start + count <= self._start + len(self._slots)

    def slots_of(self, start: int, count: int) -> list[int]:
        """The slots of ``count`` steps from ``start`` on."""
        first = start - self._start
        return self._slots[first : first + count]


@final
class SlotChoice:
    """The slot emptied by each step of an epoch: a pure function of the step.

    Args:
      seed, epoch: the order is drawn from both.
      window: number of slots, at most 2**31.
    """

    def __init__(self, seed: int, epoch: int, window: int) -> None:
        self._window = window
        self._slot_key = derive(seed, epoch, SLOT)
        self._round_seed = derive(seed, epoch, ROUND)
        self._drain_seed = derive(seed, epoch, DRAIN)
        self._kept_round: tuple[int, Indices] | None = None

    def of_steps(self, start: int, stop: int) -> Indices:
        """The slots of steps ``start`` to ``stop``, shape (stop - start,), int64."""
        steps = np.arange(start, stop, dtype=np.int64)
        slots = random_below(self._slot_key, steps, self._window)
        # Every fourth step here is one of the turns ``first`` to ``end`` of the rounds.
        first, end = start // ROUND_EVERY, stop // ROUND_EVERY
        if first < end:
            slots[ROUND_EVERY - 1 - start % ROUND_EVERY :: ROUND_EVERY] = self._rounds(first, end)
        return slots

    def _rounds(self, first: int, end: int) -> Indices:
        """The slots of turns ``first`` to ``end``, counted over all rounds."""
        window = self._window
        slots = []
        for number in range(first // window, (end - 1) // window + 1):
            start, stop = max(first - number * window, 0), min(end - number * window, window)
            slots.append(self._round(number, start, stop))
        return np.concatenate(slots)

    def _round(self, number: int, start: int, stop: int) -> Indices:
        """The slots of turns ``start`` to ``stop`` of one round."""
        if self._kept_round is None or self._kept_round[0] != number:
            order = permutation(self._window, self._round_seed, number)
            if self._window > LARGEST_KEPT_ROUND:
                return order(np.arange(start, stop, dtype=np.int64))
            self._kept_round = number, order(np.arange(self._window, dtype=np.int64))
        return self._kept_round[1][start:stop]

    def choices(self, start: int, stop: int) -> Choices:
        """The slots of steps ``start`` to ``stop``, as `Choices`."""
        return Choices(start, self.of_steps(start, stop).tolist())

    def draining(self, count: int) -> Indices:
        """The order in which the last ``count`` items leave, shape (count,), int64."""
        return permutation(count, self._drain_seed, 0)(np.arange(count, dtype=np.int64))

    def contents(self, steps: int) -> Indices:
        """Index of the item in each slot after ``steps`` steps; shape (window,), int64.

        The slot emptied by the last step still has the index of the item handed out.
        """
        window = self._window
        items = np.arange(window, dtype=np.int64)
        # A slot holds the last item put into it, with the largest index.
        first = max(0, steps - 1 - OLDEST_WINDOWS * window)
        chunk = max(window, 1 << 16)
        for start in range(first, steps - 1, chunk):
            stop = min(start + chunk, steps - 1)
            numbers = np.arange(start, stop, dtype=np.int64) + window
            np.maximum.at(items, self.of_steps(start, stop), numbers)
        return items
