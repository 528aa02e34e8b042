"""Keep the items that a predicate accepts."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar, final

from ..core.arguments import check_callable
from ..core.block import Block, block_items, block_length, concatenate, take_rows
from ..core.carried import initial_state, with_carried_state
from ..core.stage import RANK
from ..core.stage_iterator import StageIterator
from ..core.transform import Transform, TransformIterator
from ..state.value import TakenState

__all__ = ["Filter"]

T = TypeVar("T")


@final
@dataclass(frozen=True, eq=False, repr=False)
class Filter(Transform[T]):
    """The items for which ``predicate`` is true.

    State: upstream's, and the predicate's own if it carries one. No random access: which items remain is known only by trying.

    Args:
      upstream: stage whose items are tried.
      predicate: called with one item.

    >>> list(Filter(Range(6), lambda item: item % 2))
    [1, 3, 5]
    """

    relies_on: ClassVar[frozenset[str]] = frozenset({RANK})

    predicate: Callable[[Any], object]
    initial: TakenState | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_callable("predicate", self.predicate)
        object.__setattr__(self, "initial", initial_state(self.predicate))

    @property
    def carries_state(self) -> bool:
        return self.initial is not None

    @property
    def state_cost(self) -> str:
        return "the function's state" if self.carries_state else "nothing"

    def start(self, epoch: int = 0) -> StageIterator[T]:
        iterator = _FilterIterator(self, epoch)
        return with_carried_state(self, iterator, self.predicate, self.initial, epoch)


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
        return builtins.filter(self._stage.predicate, self.upstream_items())

    @property
    def exhausted(self) -> bool:
        return self.upstream_exhausted()
