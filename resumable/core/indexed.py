"""The items of a stage by their index."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from operator import methodcaller
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar, final

import numpy as np

from .block import Block, Indices, block_items
from .foreseen import Needs, PartUses
from .prepared_items import JoinedItems, PlainItems, PreparedItems, choose, grouped

T = TypeVar("T")

Route: TypeAlias = Callable[[Indices], tuple[Indices, Indices]]

EPOCHS_AHEAD: Final = 32
"""How many epochs of a `repeat` are planned ahead. Whoever reads a strided part of short epochs may need
one item of each."""


class EpochAt(NamedTuple):
    """The epoch of an item.

    Attributes:
      epoch: its number.
      ascending: whether no later item belongs to an earlier epoch.
    """

    epoch: int
    ascending: bool


@final
class Indexed(Generic[T]):
    """Random access to the items of one epoch.

    Stages that make their items from the items of other stages use `reordered`, `joined` or `chosen`,
    so that the orders before them are computed for many indices at once.

    Args:
      gather: returns the items at ``indices``, an int64 array within the length, as a new block.
      item: returns the item at one index; by default a `gather` of one.
      arithmetic_range: returns the items from a start to a stop, if they are pure arithmetic and so may
        be computed ahead.
      prepare: returns the `PreparedItems` of the items at ``indices``, and calls no user function yet; by
        default items that use ``gather`` and ``item``.
      gather_range: returns the items from a start to a stop, as a new block; by default a `gather`.
      every_epoch: whether the items are the same in every epoch.
      indices_per_epoch: about how many consecutive indices lie in one epoch of a `repeat`. Each epoch
        has an order of its own to be set up, so this bounds how many indices are planned ahead.
      plans_far: whether many indices are to be planned from the first item on, since what is read for
        one item may serve others.
      needs: tells which parts of files in a cache the items need; None if they need none.
      last_of: what the items are made of, several neighbours perhaps, and the index there of the last that the item
        at an index is made of; for an `epoch_at` that does not follow from the other functions.
      items_each: about how many items of the sources are read for each item, at least 1.
    """

    __slots__ = (
        "arithmetic_range",
        "ascending",
        "base",
        "choice",
        "epochs",
        "every_epoch",
        "gather",
        "gather_range",
        "index_map",
        "indices_per_epoch",
        "item",
        "items_each",
        "last_of",
        "needs",
        "numbered_by",
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
        last_of: tuple[Indexed[Any], Callable[[int], int]] | None = None,
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
        self.last_of = last_of
        self.items_each = items_each
        self.prepared = prepare or partial(
            PlainItems, gather, self.item, arithmetic_range is not None
        )
        # For items that are only reordered: where they are, and the map to their indices there.
        self.base: Indexed[T] | None = None
        self.index_map: Callable[[Indices], Indices] | None = None
        # For items that are each made of one item: it has the same index here.
        self.numbered_by: Indexed[Any] | None = None
        # For items that are each taken from one of several inputs: `input_at` and `route` of `chosen`.
        self.choice: tuple[Callable[[int], Indexed[T]], Route] | None = None
        # For items of several epochs: the epoch of the item at an index, its items, and the index there.
        self.epochs: Callable[[int], tuple[int, Indexed[T], int]] | None = None
        # Whether items that come later are also made of items that come later, or of those of a later epoch.
        self.ascending = True

    @classmethod
    def reordered(
        cls,
        base: Indexed[T],
        index_map: Callable[[Indices], Indices],
        *,
        every_epoch: bool = False,
        stride: float = 1,
        ascending: bool = False,
    ) -> Indexed[T]:
        """The items of ``base`` in another order.

        Args:
          base: holds the items.
          index_map: turns indices of the result into those of ``base``, both of shape (n,).
          every_epoch: whether the items, in this order, are the same in every epoch.
          stride: how far apart in ``base`` neighbours lie; 0 if they may lie anywhere.
          ascending: whether items that come later also lie later in ``base``.
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
        indexed.ascending = ascending
        return indexed

    @classmethod
    def joined(
        cls,
        inputs: Sequence[Indexed[Any]],
        blocks: Callable[..., Block],
        items: Callable[..., Iterator[T]],
        *,
        every_epoch: bool = False,
        numbered_by: Indexed[Any] | None = None,
    ) -> Indexed[T]:
        """Items made from those at the same index of all ``inputs``.

        Args:
          inputs: one or more.
          blocks: makes a block from one block of each input.
          items: makes an iterator from one iterator of each input, as the built-in `map` and `zip`
            do: no item is computed before it is taken.
          every_epoch: whether the items are the same in every epoch.
          numbered_by: the input whose items these are, if the others only add to them; the only
            one by default.
        """

        def item(index: int) -> T:
            return next(items(*[iter((each.item(index),)) for each in inputs]))

        indexed = cls(
            lambda indices: blocks(*map(methodcaller("gather", indices), inputs)),
            item,
            prepare=lambda indices: JoinedItems(
                blocks, items, list(map(methodcaller("prepared", indices), inputs))
            ),
            every_epoch=every_epoch,
            indices_per_epoch=min(each.indices_per_epoch for each in inputs),
            plans_far=any(each.plans_far for each in inputs),
            needs=_needs_of_all([each.needs for each in inputs if each.needs is not None]),
            items_each=max(each.items_each for each in inputs),
        )
        indexed.numbered_by = inputs[0] if len(inputs) == 1 else numbered_by
        return indexed

    @classmethod
    def chosen(
        cls,
        input_at: Callable[[int], Indexed[T]],
        route: Route,
        *,
        indices_per_epoch: float = math.inf,
        items_each: int = 1,
    ) -> Indexed[T]:
        """Items that are each taken from one of several inputs.

        Args:
          input_at: returns the input with a number.
          route: returns for indices of shape (n,) the number of the input of each item, and its
            index there; both of shape (n,).
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

        indexed = cls(
            lambda indices: prepare(indices).gather(range(len(indices))),
            item,
            prepare=prepare,
            indices_per_epoch=indices_per_epoch,
            needs=needs,
            items_each=items_each,
        )
        indexed.choice = input_at, route
        return indexed

    def made_of(self, index: int) -> tuple[Indexed[Any], int] | None:
        """The items that the item at ``index`` is taken from or made of, and its index there.

        None if the items are held here, or each is made of several.
        """
        if self.base is not None and self.index_map is not None:
            return self.base, int(self.index_map(np.array([index], np.int64))[0])
        if self.choice is not None:
            input_at, route = self.choice
            numbers, indices = route(np.array([index], np.int64))
            return input_at(int(numbers[0])), int(indices[0])
        return self.numbered_by and (self.numbered_by, index)

    def epoch_at(self, index: int) -> EpochAt | None:
        """The epoch of the item at ``index``, or of the last of those that it is made of; None if all are in one epoch.

        If a repeat stands within a repeat, the inner one tells it.
        """
        found: EpochAt | None = None
        indexed: Indexed[Any] | None = self
        ascending = True
        while indexed is not None:
            epoch, upstream, index = indexed._last_of_what_makes(index)
            if epoch is not None:
                found = EpochAt(epoch, ascending)
            ascending = ascending and indexed.ascending
            indexed = upstream
        return found

    @property
    def first_epoch(self) -> int | None:
        """The first epoch of what the items, at least one, are taken from; None if all are in one epoch."""
        first: int | None = None
        indexed: Indexed[Any] | None = self
        while indexed is not None:
            epoch, indexed, _ = indexed._last_of_what_makes(0)
            first = first if epoch is None else epoch
        return first

    def _last_of_what_makes(self, index: int) -> tuple[int | None, Indexed[Any] | None, int]:
        """The epoch of the item at ``index`` if the items are of several, and like `made_of` what makes it.

        It may be the last of several neighbours. There is none for one of several inputs.
        """
        if self.epochs is not None:
            return self.epochs(index)
        if self.last_of is not None:
            upstream, last = self.last_of
            return None, upstream, last(index)
        found = None if self.choice else self.made_of(index)
        return (None, None, index) if found is None else (None, *found)

    def needs_of(self, index_map: Callable[[Indices], Indices]) -> Needs | None:
        """What is needed by other indices, which ``index_map`` turns into ours, both of shape (n,)."""
        needs = self.needs
        return needs and (lambda indices, at: needs(index_map(indices), at))

    def most_ahead(self, indices: int) -> int:
        """How many of up to ``indices`` consecutive ones are planned at once, at least 1."""
        return max(int(min(indices, EPOCHS_AHEAD * self.indices_per_epoch)), 1)

    def items_within(self, most: int) -> int:
        """For how many items about ``most`` items of the sources are read, at least 1."""
        return max(most // self.items_each, 1)

    def flattened(self) -> tuple[Indexed[T], list[Callable[[Indices], Indices]]]:
        """The base that holds the items, and the maps from our indices to its; shape is kept."""
        indexed, maps = self, []
        while indexed.base is not None and indexed.index_map is not None:
            maps.append(indexed.index_map)
            indexed = indexed.base
        return indexed, maps


def _needs_of_all(needs: Sequence[Needs]) -> Needs | None:
    """What items made from several need."""
    if len(needs) <= 1:
        return needs[0] if needs else None
    return lambda indices, at: chain.from_iterable(each(indices, at) for each in needs)


def _one_by(gather: Callable[[Indices], Block]) -> Callable[[int], Any]:
    return lambda index: block_items(gather(np.array([index], np.int64)))[0]


OWN_INDICES: Indexed[int] = Indexed(np.copy, int, range)
"""Items that are their indices."""
