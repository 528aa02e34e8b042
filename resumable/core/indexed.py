"""The items of a stage by their index."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from operator import attrgetter, methodcaller
from typing import Any, Final, Generic, TypeAlias, TypeVar, final

import numpy as np

from .block import Block, Indices, block_items
from .foreseen import Needs, PartUses
from .prepared_items import JoinedItems, PlainItems, PreparedItems, choose, grouped

T = TypeVar("T")

Route: TypeAlias = Callable[[Indices], tuple[Indices, Indices]]

FIRST_BLOCK: Final = 512
LARGEST_BLOCK: Final = 65536
EPOCHS_AHEAD: Final = 32
"""Epochs of a `repeat` planned ahead. A strided part of short epochs may need one item of each."""


@final
class Indexed(Generic[T]):
    """Random access to the items of one epoch.

    Stages that make items from the items of other stages use `reordered`, `joined` or `chosen`, so
    that the orders of earlier stages are computed for many indices at once.

    Args:
      gather: returns the items at ``indices``, an int64 array within the length, as a new block.
      item: returns the item at one index; by default a `gather` of one index.
      arithmetic_range: returns the items from a start to a stop, if items are pure arithmetic and
        so may be computed ahead.
      prepare: returns the `PreparedItems` of the items at ``indices``, and calls no user function
        yet; by default items that use ``gather`` and ``item``.
      gather_range: returns the items from a start to a stop, as a new block; by default a `gather`.
      every_epoch: whether the items are the same in every epoch.
      indices_per_epoch: about how many consecutive indices lie in one epoch of a `repeat`. Each
        epoch has a separate order to be set up, so this number limits how many indices are planned
        ahead.
      plans_far: whether many indices are to be planned from the first item on, since data read for
        one item may serve others.
      needs: returns the needed parts of files in a cache; None if the items need no parts.
      items_each: about how many items of the sources are read for each item, at least 1.
    """

    __slots__ = (
        "arithmetic_range",
        "base",
        "every_epoch",
        "gather",
        "gather_range",
        "index_map",
        "indices_per_epoch",
        "item",
        "items_each",
        "needs",
        "plans_far",
        "prepare",
        "prepared",
    )  # fmt: skip

    def __init__(
        self,
        gather: Callable[[Indices], Block],
        item: Callable[[int], T] | None = None,
        arithmetic_range: Callable[[int, int], Sequence[T]] | None = None,
        prepare: Callable[[Indices], PreparedItems[T]] | None = None,
        gather_range: Callable[[int, int], Block] | None = None,
        *,
        every_epoch: bool = False,
        indices_per_epoch: float = math.inf,
        plans_far: bool = False,
        needs: Needs | None = None,
        items_each: int = 1,
    ) -> None:
        self.gather = gather
        self.gather_range = gather_range or (
            lambda start, stop: gather(np.arange(start, stop, dtype=np.int64))
        )
        self.item = item or _one_by(gather)
        self.arithmetic_range = arithmetic_range
        self.prepare = prepare
        self.every_epoch = every_epoch
        self.indices_per_epoch = indices_per_epoch
        self.plans_far = plans_far
        self.needs = needs
        self.items_each = items_each
        self.prepared = prepare or partial(
            PlainItems, gather, partial(map, self.item), pure=arithmetic_range is not None
        )
        # For reordered items only: the base with the items, and the map to indices of the base.
        self.base: Indexed[T] | None = None
        self.index_map: Callable[[Indices], Indices] | None = None

    @classmethod
    def reordered(
        cls,
        base: Indexed[T],
        index_map: Callable[[Indices], Indices],
        *,
        every_epoch: bool = False,
        stride: float = 1,
    ) -> Indexed[T]:
        """The items of ``base`` in another order.

        Args:
          base: holds the items.
          index_map: turns indices of the result into indices of ``base``, both of shape (n,).
          every_epoch: whether the items, in this order, are the same in every epoch.
          stride: distance of neighbours in ``base``; 0 if arbitrary.
        """
        indexed = cls(
            lambda indices: base.gather(index_map(indices)),
            lambda index: base.item(int(index_map(np.array([index], np.int64))[0])),
            prepare=lambda indices: base.prepared(index_map(indices)),
            every_epoch=every_epoch,
            indices_per_epoch=base.indices_per_epoch / stride if stride else math.inf,
            plans_far=base.plans_far,
            needs=base.needs_of(index_map),
            items_each=base.items_each,
        )
        indexed.base, indexed.index_map = base, index_map
        return indexed

    @classmethod
    def joined(
        cls,
        inputs: Sequence[Indexed[Any]],
        blocks: Callable[..., Block],
        items: Callable[..., Iterator[T]],
        *,
        every_epoch: bool = False,
    ) -> Indexed[T]:
        """Items made from the items at the same index of all ``inputs``.

        Args:
          inputs: one or more.
          blocks: makes a block from one block of each input.
          items: makes an iterator from one iterator of each input, as the built-in `map` and `zip`
            do: no item is computed before it is taken.
          every_epoch: whether the items are the same in every epoch.
        """

        def item(index: int) -> T:
            return next(items(*[iter((each.item(index),)) for each in inputs]))

        return cls(
            lambda indices: blocks(*map(methodcaller("gather", indices), inputs)),
            item,
            prepare=lambda indices: JoinedItems(
                blocks, items, list(map(methodcaller("prepared", indices), inputs))
            ),
            every_epoch=every_epoch,
            indices_per_epoch=min(map(attrgetter("indices_per_epoch"), inputs)),
            plans_far=any(map(attrgetter("plans_far"), inputs)),
            needs=_needs_of_all([each.needs for each in inputs if each.needs is not None]),
            items_each=max(map(attrgetter("items_each"), inputs)),
        )

    @classmethod
    def chosen(
        cls,
        input_at: Callable[[int], Indexed[T]],
        route: Route,
        *,
        indices_per_epoch: float = math.inf,
        items_each: int = 1,
    ) -> Indexed[T]:
        """Items each taken from one of several inputs.

        Args:
          input_at: returns the input with a number.
          route: returns for indices of shape (n,) the number of the input of each item, and the
            item's index in the input; both of shape (n,).
          indices_per_epoch: as of the result.
          items_each: as of the result.
        """

        def prepare(indices: Indices) -> PreparedItems[T]:
            return choose(*route(indices), lambda number, within: input_at(number).prepared(within))

        def needs(indices: Indices, at: Indices) -> Iterator[PartUses]:
            numbers, within = route(indices)
            order, groups = grouped(numbers)
            for number, first, last in groups:
                places, chosen = order[first:last], input_at(number)
                if chosen.needs is not None:
                    yield from chosen.needs(within[places], at[places])

        def item(index: int) -> T:
            numbers, indices = route(np.array([index], np.int64))
            return input_at(int(numbers[0])).item(int(indices[0]))

        return cls(
            lambda indices: prepare(indices).gather(range(len(indices))),
            item,
            prepare=prepare,
            indices_per_epoch=indices_per_epoch,
            needs=needs,
            items_each=items_each,
        )

    def needs_of(self, index_map: Callable[[Indices], Indices]) -> Needs | None:
        """The needs at other indices; ``index_map`` maps to indices here, both of shape (n,)."""
        needs = self.needs
        return needs and (lambda indices, at: needs(index_map(indices), at))

    def most_ahead(self, indices: int) -> int:
        """How many of up to ``indices`` consecutive indices to plan at once, at least 1."""
        return max(int(min(indices, EPOCHS_AHEAD * self.indices_per_epoch)), 1)

    def items_within(self, most: int) -> int:
        """Number of items that read about ``most`` items of the sources, at least 1."""
        return max(most // self.items_each, 1)

    def flattened(self) -> tuple[Indexed[T], list[Callable[[Indices], Indices]]]:
        """The base that holds the items, and the maps to indices of the base; shape is kept."""
        indexed, maps = self, []
        while indexed.base is not None and indexed.index_map is not None:
            maps.append(indexed.index_map)
            indexed = indexed.base
        return indexed, maps


def _needs_of_all(needs: Sequence[Needs]) -> Needs | None:
    """The needs of items made from several inputs."""
    if len(needs) <= 1:
        return needs[0] if needs else None
    return lambda indices, at: chain.from_iterable(each(indices, at) for each in needs)


def _one_by(gather: Callable[[Indices], Block]) -> Callable[[int], Any]:
    return lambda index: block_items(gather(np.array([index], np.int64)))[0]


OWN_INDICES: Indexed[int] = Indexed(np.copy, int, range)
"""Items that equal their indices."""
