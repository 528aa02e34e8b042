"""Shuffle all items of a random-access pipeline, in O(1) memory."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeVar, final

from ..core.arguments import check_seed
from ..core.indexed import LookedUp
from ..core.random_access import Indexed
from ..core.stage import ALWAYS, MOST_ITEMS, Reliance
from ..core.transform import IndexedTransform
from ..errors import InvalidArgument
from ..order.permutation import permutation

T = TypeVar("T")


@final
@dataclass(frozen=True, eq=False, repr=False)
class Shuffle(LookedUp[T], IndexedTransform[T]):
    """The items in an order drawn from (``seed``, epoch), new in every epoch.

    A global shuffle without a buffer: each index goes through a permutation that is computed on
    demand and never stored (see `resumable.order.permutation`).

    State: O(1), the position. Random access is kept; a resume reads nothing.

    Args:
      upstream: a random-access stage of finite length, at most 2**62.
      seed: in [0, 2**64).

    Raises:
      InvalidArgument: if ``upstream`` is a stream or endless; a stream is shuffled through a
        window.
      InvalidType: if ``seed`` is not an integer.

    >>> sorted(rs.range(5).shuffle(seed=0))
    [0, 1, 2, 3, 4]
    """

    identity: ClassVar[Mapping[str, Reliance]] = {"seed": ALWAYS}
    state_cost = "the position"

    seed: int

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "seed", check_seed("seed", self.seed))
        if not self.upstream.random_access:
            raise InvalidArgument(
                f"shuffle needs a window for a stream, got window=None over {self.upstream!r}; "
                "use shuffle(seed, window=n)"
            )
        length = self.upstream.length
        assert length is not None
        if length == math.inf:
            raise InvalidArgument(
                "shuffle needs a window for an endless pipeline, got window=None; "
                "shuffle before repeat, or use shuffle(seed, window=n)"
            )
        if length > MOST_ITEMS:
            raise InvalidArgument(f"shuffle takes at most 2**62 items, got {length}")

    def indexed(self, epoch: int = 0) -> Indexed[T] | None:
        upstream, length = self.upstream.indexed(epoch), self.upstream.length
        if upstream is None or not length:
            return upstream
        # Looked up for each block, in a cache: setting up a permutation takes time.
        return Indexed.reordered(
            upstream, lambda indices: permutation(int(length), self.seed, epoch)(indices)
        )
