"""Keep the items that a predicate accepts."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, final

from ..arguments import check_callable
from ..block import Block, block_items, block_length, concatenate, take_rows
from ..stage import StageIterator, Transform, TransformIterator

__all__ = ["Filter"]

T = TypeVar("T")


@final
@dataclass(frozen=True, eq=False, repr=False)
class Filter(Transform[T]):
    """The items for which ``predicate`` is true.

    State: upstream's. No random access: which items remain is known only by trying.

    Args:
      upstream: stage whose items are tried.
      predicate: called with one item.

    >>> list(Filter(Range(6), lambda item: item % 2))
    [1, 3, 5]
    """

    counts_items: ClassVar[bool] = False

    predicate: Callable[[Any], object]

    def __post_init__(self) -> None:
        super().__post_init__()
        check_callable("predicate", self.predicate)

    @property
    def random_access(self) -> bool:
        return False

    @property
    def length(self) -> int | float | None:
        return None

    def start(self, epoch: int = 0) -> StageIterator[T]:
        return _FilterIterator(self, epoch)


class _FilterIterator(TransformIterator[T]):
    _stage: Filter[T]

    def pull(self, count: int) -> Block:
        kept: list[Block] = []
        predicate = self._stage.predicate
        missing = count
        while missing:
            block = self._upstream.pull(missing)
            indices = [i for i, item in enumerate(block_items(block)) if predicate(item)]
            kept.append(take_rows(block, indices))
            if block_length(block) < missing:
                break
            missing -= len(indices)
        return concatenate(kept)

    def items(self) -> Iterator[T]:
        return builtins.filter(self._stage.predicate, self._upstream.items())

    @property
    def exhausted(self) -> bool:
        return self._upstream.exhausted
