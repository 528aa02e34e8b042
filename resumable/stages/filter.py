"""Keep the items that a predicate accepts."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import compress
from typing import Any, ClassVar, TypeVar, final

from ..core.block import Block, block_items, concatenate, take_rows
from ..core.carried import CallsFunction
from ..core.stage import RANK, Reliance
from ..core.stage_iterator import Items, StageIterator
from ..core.transform import SteadyIterator

T = TypeVar("T")


@final
@dataclass(frozen=True, eq=False, repr=False)
class Filter(CallsFunction[T]):
    """The items for which ``predicate`` is true.

    State: upstream's, and the predicate's own if it carries one. No random access: only calling
    ``predicate`` tells which items remain.

    Args:
      upstream: stage whose items are tested.
      predicate: called with one item.

    Raises:
      InvalidType: if ``predicate`` cannot be called.

    >>> list(rs.range(6).filter(lambda item: item % 2))
    [1, 3, 5]
    """

    relies_on: ClassVar[Reliance] = RANK
    calls: ClassVar[str] = "predicate"

    predicate: Callable[[Any], object]

    def start_calling(self, epoch: int) -> StageIterator[T]:
        return _FilterIterator(self, epoch)


class _FilterIterator(SteadyIterator[T]):
    _stage: Filter[T]

    def pull(self, count: int) -> Block:
        kept: list[Block] = []
        predicate = self._stage.predicate
        missing = count
        while missing:
            block = self._upstream.pull(missing)
            items = block_items(block)
            flags = list(map(predicate, items))
            if len(flags) != len(items):  # `map` takes a StopIteration for its end
                raise RuntimeError("a user function raised StopIteration")
            rows = list(compress(items if block is items else range(len(items)), flags))
            kept.append(rows if block is items else take_rows(block, rows))
            if len(items) < missing:
                break
            missing -= len(rows)
        return concatenate(kept)

    def items(self) -> Items[T]:
        return self._upstream.items().through(partial(builtins.filter, self._stage.predicate))
