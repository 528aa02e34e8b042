"""Apply a function that draws random numbers, the same for an item in every run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, TypeVar, final

import numpy as np

from ..core.arguments import check_seed
from ..core.block import Block, Indices, block_items
from ..core.carried import CallsFunction
from ..core.random_access import Indexed
from ..core.stage import ALWAYS, Reliance
from ..core.stage_iterator import StageIterator
from ..core.transform import CountingIterator, IndexedTransform
from ..order.random_bits import derive, generator

T = TypeVar("T")


@final
@dataclass(frozen=True, eq=False, repr=False)
class RandomMap(CallsFunction[T], IndexedTransform[T]):
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

    identity: ClassVar[Mapping[str, Reliance]] = {"seed": ALWAYS}

    fn: Callable[[Any, np.random.Generator], T]
    _: KW_ONLY
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "seed", check_seed("seed", self.seed))

    @property
    def state_cost(self) -> str:
        return "the position and the function's state" if self.carries_state else "the position"

    def start_calling(self, epoch: int) -> StageIterator[T]:
        return _RandomMapIterator(self, epoch)

    def indexed(self, epoch: int = 0) -> Indexed[T] | None:
        upstream, key = self.upstream.indexed(epoch), derive(self.seed, epoch)
        if upstream is None or self.carries_state:
            return None

        def gather(indices: Indices) -> Block:
            items = block_items(upstream.gather(indices))
            numbered = zip(items, indices.tolist(), strict=True)
            return [self.fn(item, generator(key, index)) for item, index in numbered]

        return Indexed(gather)


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
