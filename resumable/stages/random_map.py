"""Apply a function that draws random numbers, the same for an item in every run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, TypeVar, final

import numpy as np

from ..core.arguments import check_callable, check_seed
from ..core.block import Block, Indices, block_items
from ..core.carried import initial_state, with_carried_state
from ..core.stage_iterator import StageIterator
from ..core.transform import CountingIterator, IndexedTransform
from ..order.random_bits import derive, generator
from ..state.value import TakenState

__all__ = ["RandomMap"]

T = TypeVar("T")


@final
@dataclass(frozen=True, eq=False, repr=False)
class RandomMap(IndexedTransform[T]):
    """The result of ``fn(item, rng)`` for every item.

    ``rng`` is a `numpy.random.Generator` made from (seed, epoch, index of the item in
    ``upstream``): an item meets the same randomness in every run. Beneath ``shard`` the index
    is the global one; put it there if ranks should agree.

    State: O(1), the position and upstream's; the function's own, if it carries one. Random access
    is kept by a function without state.

    Args:
      upstream: stage whose items are mapped.
      fn: called with an item and its generator.
      seed: in [0, 2**64).
    """

    identity: ClassVar[tuple[str, ...]] = ("seed",)

    fn: Callable[[Any, np.random.Generator], T]
    _: KW_ONLY
    seed: int = 0
    initial: TakenState | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_callable("fn", self.fn)
        object.__setattr__(self, "initial", initial_state(self.fn))
        object.__setattr__(self, "seed", check_seed("seed", self.seed))

    @property
    def random_access(self) -> bool:
        return self.initial is None and self.upstream.random_access

    @property
    def carries_state(self) -> bool:
        return self.initial is not None

    @property
    def state_cost(self) -> str:
        return "the position and the function's state" if self.carries_state else "the position"

    def start(self, epoch: int = 0) -> StageIterator[T]:
        iterator = _RandomMapIterator(self, epoch)
        return with_carried_state(self, iterator, self.fn, self.initial, epoch)

    def gather(self, indices: Indices, epoch: int = 0) -> Block:
        key = derive(self.seed, epoch)
        items = block_items(self.upstream.gather(indices, epoch))
        return [
            self.fn(item, generator(key, index))
            for item, index in zip(items, indices.tolist(), strict=True)
        ]


class _RandomMapIterator(CountingIterator[T]):
    _stage: RandomMap[T]

    def __init__(self, stage: RandomMap[T], epoch: int) -> None:
        super().__init__(stage, epoch)
        self._key = derive(stage.seed, epoch)

    def pull(self, count: int) -> Block:
        items = block_items(self._upstream.pull(count))
        first = self._position
        mapped = [
            self._stage.fn(item, generator(self._key, first + number))
            for number, item in enumerate(items)
        ]
        self._position += len(items)
        return mapped

    def skip(self, count: int) -> int:
        return self.skip_counted(count)
