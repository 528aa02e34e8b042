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
class Choices:
    """The slots of consecutive steps.

    Args:
      start: the first step.
      slots: shape (steps,), int64, each below 2**31.
    """

    def __init__(self, start: int, slots: Indices) -> None:
        self._start = start
        self._slots = slots
        self._before = _places_before(slots)

    def __len__(self) -> int:
        return len(self._slots)

    def include(self, start: int, count: int) -> bool:
        """Whether the steps from ``start`` on are among these, all ``count``."""
        return self._start <= start and start + count <= self._start + len(self._slots)

    def slots_of(self, start: int, count: int) -> Indices:
        """The slots of ``count`` steps from ``start`` on."""
        first = start - self._start
        return self._slots[first : first + count]

    def before(self, start: int, count: int) -> Indices:
        """For each of these steps the last one before it with its slot, counted from ``start``.

        Less than 0 if that was before ``start``.
        """
        first = start - self._start
        return self._before[first : first + count] - first


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
        # The turns of the round in these steps, and where the first of them is.
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
            order = permutation(window, self._round_seed, number)
            slots.append(order(np.arange(start, stop, dtype=np.int64)))
        return np.concatenate(slots)

    def choices(self, start: int, stop: int) -> Choices:
        """The slots of steps ``start`` to ``stop``, kept to be asked for."""
        return Choices(start, self.of_steps(start, stop))

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


def _places_before(values: Indices) -> Indices:
    """For each of ``values``, below 2**31, the index of the last equal one before it; else -1."""
    bits = len(values).bit_length()
    ordered = np.sort(values << bits | np.arange(len(values), dtype=np.int64))
    places = ordered & ((1 << bits) - 1)
    equal = np.flatnonzero(ordered[1:] >> bits == ordered[:-1] >> bits)
    before = np.full(len(values), -1, np.int64)
    before[places[equal + 1]] = places[equal]
    return before
