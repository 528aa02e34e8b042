"""The items of a stage by their index."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import methodcaller
from typing import Any, Generic, TypeVar, final

import numpy as np

from .block import Block, Indices, block_items
from .runs import Joined, Plain, Run, choose

T = TypeVar("T")


@final
class Indexed(Generic[T]):
    """Random access to the items of one epoch.

    Stages that make their items of those of others have `reordered`, `joined` and `chosen`, so that
    the orders before them are computed for many indices at once.

    Args:
      gather: the items at ``indices``, an int64 array within the length, as a block of its own.
      item: the item at one index; by default a `gather` of one.
      span: the items from a start to a stop, for items that are pure arithmetic: these may be
        computed ahead.
      prepare: the `Run` of the items at ``indices``, which calls no function of the user's yet;
        by default these are looked up by ``gather`` and ``item``.
      between: the items from a start to a stop, as a block of its own; by default a `gather`.
    """

    __slots__ = ("base", "between", "gather", "index_map", "item", "prepare", "run", "span")

    def __init__(
        self,
        gather: Callable[[Indices], Block],
        item: Callable[[int], T] | None = None,
        span: Callable[[int, int], Sequence[T]] | None = None,
        prepare: Callable[[Indices], Run[T]] | None = None,
        between: Callable[[int, int], Block] | None = None,
    ) -> None:
        self.gather = gather
        self.between = between or (
            lambda start, stop: gather(np.arange(start, stop, dtype=np.int64))
        )
        self.item = item or _one_by(gather)
        self.span = span
        self.prepare = prepare
        self.run = prepare or partial(Plain, gather, self.item, span is not None)
        # Of items that are only reordered: where they come from, and our indices there.
        self.base: Indexed[T] | None = None
        self.index_map: Callable[[Indices], Indices] | None = None

    @classmethod
    def reordered(cls, base: Indexed[T], index_map: Callable[[Indices], Indices]) -> Indexed[T]:
        """The items of ``base`` in another order.

        Args:
          base: holds the items.
          index_map: turns indices of the result into those of ``base``, both of shape (n,).
        """
        indexed = cls(
            lambda indices: base.gather(index_map(indices)),
            lambda index: base.item(int(index_map(np.array([index], np.int64))[0])),
            prepare=lambda indices: base.run(index_map(indices)),
        )
        indexed.base, indexed.index_map = base, index_map
        return indexed

    @classmethod
    def joined(
        cls,
        inputs: Sequence[Indexed[Any]],
        blocks: Callable[..., Block],
        items: Callable[..., Iterator[T]],
    ) -> Indexed[T]:
        """Items made of those at the same index of all ``inputs``.

        Args:
          inputs: one or more.
          blocks: makes a block of one of each input.
          items: makes an iterator of one of each input, as the built-in `map` and `zip` do:
            no item is computed before it is taken.
        """

        def item(index: int) -> T:
            return next(items(*[iter((each.item(index),)) for each in inputs]))

        return cls(
            lambda indices: blocks(*map(methodcaller("gather", indices), inputs)),
            item,
            prepare=lambda indices: Joined(
                blocks, items, list(map(methodcaller("run", indices), inputs))
            ),
        )

    @classmethod
    def chosen(
        cls,
        input_at: Callable[[int], Indexed[T]],
        route: Callable[[Indices], tuple[Indices, Indices]],
    ) -> Indexed[T]:
        """Items each of which is one of one of several inputs.

        Args:
          input_at: the input with a number.
          route: for indices of shape (n,) the number of the input of each, and the index in it;
            both of shape (n,).
        """

        def prepare(indices: Indices) -> Run[T]:
            return choose(*route(indices), lambda number, within: input_at(number).run(within))

        def item(index: int) -> T:
            numbers, indices = route(np.array([index], np.int64))
            return input_at(int(numbers[0])).item(int(indices[0]))

        return cls(
            lambda indices: prepare(indices).gather(range(len(indices))), item, prepare=prepare
        )

    def flattened(self) -> tuple[Indexed[T], list[Callable[[Indices], Indices]]]:
        """What holds the items, and the maps from our indices to its indices, of the same shape."""
        indexed, maps = self, []
        while indexed.base is not None and indexed.index_map is not None:
            maps.append(indexed.index_map)
            indexed = indexed.base
        return indexed, maps


def _one_by(gather: Callable[[Indices], Block]) -> Callable[[int], Any]:
    return lambda index: block_items(gather(np.array([index], np.int64)))[0]


OWN_INDICES: Indexed[int] = Indexed(np.copy, int, range)
"""Items that are their indices."""
