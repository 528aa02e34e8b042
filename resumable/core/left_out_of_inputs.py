"""The items left out of composed orders: of inputs that take turns, or of epochs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import final

import numpy as np

from .block import NO_INDICES, Indices
from .epoch_runs import EpochRuns
from .left_out import KEPT_EPOCHS, LeftOut, Mask
from .orders import TurnOrder


@final
class OfInputs(LeftOut):
    """Items of several inputs with left-out items.

    Args:
      inputs: the left-out items of each input.
      length: number of items.
      turns: returns the input of each item.
      alike: whether all epochs have the same items of each input.
    """

    def __init__(
        self,
        inputs: Sequence[LeftOut],
        length: int | float,
        turns: Callable[[], TurnOrder],
        *,
        alike: bool = True,
    ) -> None:
        self._inputs = inputs
        self._having = [number for number, one in enumerate(inputs) if one.total]
        self._length = length
        self._turns = turns
        self.total = 0
        # An input without left-out items in this epoch may have some in another epoch.
        self.alike = alike and all(one.alike for one in inputs)
        if self._having:
            self.total = math.inf if length == math.inf else self.before(int(length))

    def before(self, index: int) -> int:
        counts = self._turns().turns_before(int(min(index, self._length)))
        return sum(self._inputs[number].before(int(counts[number])) for number in self._having)

    def among(self, indices: Indices) -> Mask:
        mask = np.zeros(len(indices), np.bool_)
        within = np.flatnonzero(indices < self._length)
        numbers, items = self._turns().items_of(indices[within])
        for number in self._having:
            here = numbers == number
            mask[within[here]] = self._inputs[number].among(items[here])
        return mask

    def up_to(self, stop: int) -> Indices:
        turns = self._turns()
        counts = turns.turns_before(int(min(stop, self._length)))
        places = [
            turns.turn_of(number, item)
            for number in self._having
            for item in self._inputs[number].up_to(int(counts[number])).tolist()
        ]
        return np.array(sorted(places), np.int64)


@final
class LeftOutInEpochs(LeftOut):
    """Items of several epochs with left-out items.

    Args:
      runs: where the epochs lie among all items.
      kept: number of remaining items in an epoch of each run.
      in_epoch: returns the left-out items of an epoch, counted from the epoch of the first item.
    """

    def __init__(
        self, runs: EpochRuns, kept: Sequence[int], in_epoch: Callable[[int], LeftOut]
    ) -> None:
        self._runs = runs
        self._kept = EpochRuns(runs.firsts, kept, runs.epochs)
        self._in_epoch = lru_cache(KEPT_EPOCHS)(in_epoch)
        self.total = 0
        self._spans = list[tuple[int, float]]()  # of epochs with left-out items
        stops = [*runs.firsts[1:], runs.epochs]
        for first, stop, remaining in zip(runs.firsts, stops, kept, strict=True):
            if left_out := runs.length_of(first) - remaining:
                self._spans.append((first, stop))
                self.total += left_out * (stop - first)

    def before(self, index: int) -> int:
        if index >= (self._runs.total or 0):
            return int(self.total)
        epoch = self._runs.epoch_with(index)
        start = self._runs.items_before(epoch)
        within = self._in_epoch(epoch).before(index - int(start))
        return int(start - self._kept.items_before(epoch)) + within

    def among(self, indices: Indices) -> Mask:
        mask = np.zeros(len(indices), np.bool_)
        existing = indices < (self._runs.total or 0)
        if not existing.all():
            mask[existing] = self.among(indices[existing])
            return mask
        epochs, within = self._runs.places(indices)
        for epoch, here in _each(epochs):
            mask[here] = self._in_epoch(epoch).among(within[here])
        return mask

    def up_to(self, stop: int) -> Indices:
        if not stop or not self.total:
            return NO_INDICES
        last = self._runs.epoch_with(int(min(stop, self._runs.total or 0)) - 1)
        found = [NO_INDICES]
        for first, following in self._spans:
            for epoch in range(first, int(min(following, last + 1))):
                start = int(self._runs.items_before(epoch))
                found.append(start + self._in_epoch(epoch).up_to(stop - start))
        return np.concatenate(found)

    def remaining(self, places: Indices) -> Indices:
        if not self.total or not len(places):
            return places
        epochs, within = self._kept.places(places)
        found = np.empty_like(places)
        for epoch, here in _each(epochs):
            before = int(self._runs.items_before(epoch))
            found[here] = self._in_epoch(epoch).remaining(within[here]) + before
        return found


def _each(epochs: Indices) -> Iterator[tuple[int, Mask | slice]]:
    """The distinct values of ``epochs``, shape (n,), each with its places."""
    if len(epochs) and (epochs[0] == epochs).all():
        yield int(epochs[0]), slice(None)
        return
    for epoch in np.unique(epochs).tolist():
        yield epoch, epochs == epoch
