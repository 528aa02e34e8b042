"""Shuffle all items of a random-access pipeline, in O(1) memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, TypeVar, final

from ..core.arguments import check_seed
from ..core.block import Indices
from ..core.indexed import IndexedIterator
from ..core.stage import MOST_ITEMS, Stage, check_sequential
from ..core.stage_iterator import StageIterator
from ..core.transform import IndexedTransform
from ..errors import InvalidArgument
from ..order.permutation import permutation

__all__ = ["Shuffle"]

T = TypeVar("T")


@final
@dataclass(frozen=True, eq=False, repr=False)
class Shuffle(IndexedTransform[T]):
    """The items in an order drawn from (``seed``, epoch), new in every epoch.

    A global shuffle without a buffer: each index goes through a permutation computed on demand
    (see `resumable.order.permutation`); none is stored.

    State: O(1), the position. Random access is kept; a resume reads nothing.

    Args:
      upstream: a random-access stage of finite length, at most 2**62.
      seed: in [0, 2**64).

    Raises:
      InvalidArgument: if ``upstream`` is a stream or endless; a stream is shuffled through a
        window.
    """

    identity: ClassVar[tuple[str, ...]] = ("seed",)

    seed: int

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "seed", check_seed("seed", self.seed))
        if not self.upstream.random_access:
            raise InvalidArgument(
                f"shuffle needs a window for a stream, got window=None over {self.upstream!r}; "
                "use shuffle(seed, window=n)"
            )
        check_sequential(self)
        length = self.upstream.length
        assert length is not None
        if length == math.inf:
            raise InvalidArgument(
                "shuffle needs a window for an endless pipeline, got window=None; "
                "shuffle before repeat, or use shuffle(seed, window=n)"
            )
        if length > MOST_ITEMS:
            raise InvalidArgument(f"shuffle takes at most 2**62 items, got {length}")

    @property
    def state_cost(self) -> str:
        return "the position"

    @property
    def looks_up(self) -> bool:
        return True

    def start(self, epoch: int = 0) -> StageIterator[T]:
        return IndexedIterator(self, epoch)

    def reindexing(self, epoch: int) -> tuple[Stage[T], Callable[[Indices], Indices]] | None:
        length = len(self.upstream)
        return self.upstream, permutation(length, self.seed, epoch) if length else _unchanged


def _unchanged(indices: Indices) -> Indices:
    return indices
