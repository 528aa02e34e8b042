"""The items at many indices known ahead, taken in blocks or one by one."""

# A vectorised order costs less per index when more indices are computed at once, and a Python call
# for an item costs more than the item. So up to 65,536 indices run ahead, and the way to their
# items is prepared for all of them. The preparation takes a few MB, mostly for Python integers.
# `gather` computes a part of the items when called, `items` computes each item when taken. Items
# run ahead only where computing an item has no effects: numbers that are `pure`, and items of files
# whose pages hold many items (`formats/ahead.py`). No function of the user is called ahead.

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from operator import methodcaller
from typing import Any, Generic, TypeVar, final

import numpy as np
import numpy.typing as npt

from .block import Block, Indices, block_items, ungroup
from .old_names import OldName, read_renamed

T = TypeVar("T")


class PreparedItems(ABC, Generic[T]):
    """The items at some indices; an item is known by the place of its index among the indices.

    Attributes:
      pure: whether items are numbers that may be computed ahead.
    """

    pure = False

    turns = OldName("iterators_for")

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        read_renamed(cls, {"turns": "iterators_for"})

    @abstractmethod
    def gather(self, places: range) -> Block:
        """The items at ``places``, a range of step 1, as a new block."""

    @abstractmethod
    def items(self, places: range) -> Iterator[T]:
        """The items at ``places`` one by one, each computed when taken."""

    def iterators_for(self, places: range) -> Iterator[Iterator[T]]:
        """For each of ``places`` an iterator positioned at its item, with a ``length_hint``."""
        return repeat(self.items(places), len(places))


@final
@dataclass(eq=False)
class PlainItems(PreparedItems[T]):
    """Items looked up by their indices.

    Args:
      gather_at: makes a block of the items at some indices.
      items_at: makes an iterator of the items at some indices, each computed when taken.
      indices: of the items, shape (places,), int64.
      pure: whether items are numbers that may be computed ahead.
    """

    gather_at: Callable[[Indices], Block]
    items_at: Callable[[list[int]], Iterator[T]]
    indices: Indices
    pure: bool = False

    def gather(self, places: range) -> Block:
        return self.gather_at(self.indices[places.start : places.stop])

    def items(self, places: range) -> Iterator[T]:
        if self.pure:
            return iter(block_items(self.gather(places)))
        return self.items_at(self.indices[places.start : places.stop].tolist())


@final
@dataclass(eq=False)
class Computed(PreparedItems[T]):
    """Numbers already computed: a list, or an array of shape (places,)."""

    numbers: list[T] | npt.NDArray[Any]

    pure = True

    def gather(self, places: range) -> Block:
        return self.numbers[places.start : places.stop].copy()

    def items(self, places: range) -> Iterator[T]:
        numbers: list[T] = block_items(self.numbers[places.start : places.stop])
        return iter(numbers)


@final
@dataclass(eq=False)
class JoinedItems(PreparedItems[T]):
    """Items made from one item of each of several inputs.

    Args:
      make_block: makes a block from one block of each input.
      make_items: makes an iterator from one iterator of each input; no item is computed before it
        is taken.
      inputs: one or more, of equal length.
    """

    make_block: Callable[..., Block]
    make_items: Callable[..., Iterator[T]]
    inputs: Sequence[PreparedItems[Any]]

    def gather(self, places: range) -> Block:
        return self.make_block(*map(methodcaller("gather", places), self.inputs))

    def items(self, places: range) -> Iterator[T]:
        return self.make_items(*map(methodcaller("items", places), self.inputs))


@final
@dataclass(eq=False)
class ChosenItems(PreparedItems[T]):
    """Items each taken from one of several inputs.

    Args:
      inputs: one or more.
      numbers: number of the input of the item at each place, shape (places,).
      places_within: place of each item in its input, shape (places,), ascending by 1 for each
        input.
    """

    inputs: list[PreparedItems[T]]
    numbers: Any
    places_within: Indices

    def gather(self, places: range) -> Block:
        if not places:
            return []
        order, parts = self._parts(places)
        return ungroup([prepared.gather(its_places) for _, prepared, its_places in parts], order)

    def items(self, places: range) -> Iterator[T]:
        return map(next, self.iterators_for(places))

    def iterators_for(self, places: range) -> Iterator[Iterator[T]]:
        _, parts = self._parts(places)
        iterators = {number: prepared.items(its_places) for number, prepared, its_places in parts}
        numbers = self.numbers[places.start : places.stop].tolist()
        return iter(list(map(iterators.__getitem__, numbers)))

    def _parts(
        self, places: range
    ) -> tuple[Indices, Iterable[tuple[int, PreparedItems[T], range]]]:
        """``places`` sorted by input; then each input's number, items and places in the input."""
        order, groups = grouped(self.numbers[places.start : places.stop])
        places_within = self.places_within[places.start : places.stop]
        return order, (
            (number, self.inputs[number], range(first_place, first_place + last - first))
            for number, first, last in groups
            for first_place in (int(places_within[order[first]]),)
        )


def choose(
    numbers: Indices, indices: Indices, prepared_of: Callable[[int, Indices], PreparedItems[T]]
) -> PreparedItems[T]:
    """The `PreparedItems` of items each taken from one of several inputs.

    Args:
      numbers: number of the input of each item, integers of shape (places,).
      indices: index of each item in its input, int64, of the same shape.
      prepared_of: returns the `PreparedItems` of the input with a number, at some of its indices.
    """
    order, groups = grouped(numbers)
    if len(groups) == 1:
        return prepared_of(groups[0][0], indices)
    found = [prepared_of(number, indices[order[first:last]]) for number, first, last in groups]
    if all(prepared.pure for prepared in found):  # at once, however few items each input has
        blocks = [
            prepared.gather(range(last - first))
            for prepared, (_, first, last) in zip(found, groups, strict=True)
        ]
        block = ungroup(blocks, order)
        if isinstance(block, (list, np.ndarray)):
            return Computed(block)
    inputs: list[PreparedItems[T]] = []
    chosen, places_within = np.empty_like(indices), np.empty_like(indices)
    for prepared, (_, first, last) in zip(found, groups, strict=True):
        places = order[first:last]
        # The inputs of a nested choice become direct inputs, so nesting costs nothing per item.
        if isinstance(prepared, ChosenItems):
            chosen[places] = prepared.numbers
            chosen[places] += len(inputs)
            places_within[places] = prepared.places_within
            inputs += prepared.inputs
        else:
            chosen[places] = len(inputs)
            places_within[places] = np.arange(last - first)
            inputs.append(prepared)
    return ChosenItems(inputs, chosen.astype(np.min_scalar_type(len(inputs))), places_within)


def grouped(numbers: Any) -> tuple[Indices, list[tuple[int, int, int]]]:
    """The places of ``numbers``, shape (n,), in ascending order of the numbers.

    Returns:
      the places, shape (n,); and (number, begin, end) for each different number, where ``begin``
      and ``end`` delimit the places of the number.
    """
    if not len(numbers):
        return np.empty(0, np.int64), []
    compared = numbers
    if numbers.dtype.itemsize > 2:
        least, most = int(numbers.min()), int(numbers.max())
        if least == most:
            return np.arange(len(numbers)), [(least, 0, len(numbers))]
        if most - least < 1 << 16:  # a stable sort of 16-bit numbers is faster
            compared = (numbers - least).astype(np.uint16)
    order = np.argsort(compared, kind="stable")
    ascending = numbers[order]
    firsts = np.flatnonzero(ascending[1:] != ascending[:-1]) + 1
    starts = [0, *firsts.tolist()]
    stops = [*starts[1:], len(numbers)]
    return order, list(zip(ascending[starts].tolist(), starts, stops, strict=True))
