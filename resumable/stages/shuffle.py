"""Shuffle all items of a random-access pipeline, in O(1) memory."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import ClassVar, TypeVar, final

from ..core import (
    ALWAYS,
    SEED,
    IdentityFields,
    LookedUp,
    Permuted,
    Relation,
    Transform,
    check_int,
    check_seed,
)
from ..core.arguments import check_field
from ..core.orders import MOST_ITEMS
from ..core.stage import known_length
from ..errors import InvalidArgument
from ..order.block_permutation import BlockPermutation, block_permutation
from ..order.permutation import Permutation, permutation

T = TypeVar("T")


@final
@dataclass(frozen=True, eq=False, repr=False)
class Shuffle(LookedUp[T], Transform[T]):
    """The items in a random order, drawn from (``seed``, epoch) and so different in each epoch.

    This is a global shuffle without a buffer. A permutation maps each index. It is computed on
    demand and never stored (see `resumable.order.permutation`).

    With ``block``, blocks of neighbouring items come in a random order. Each 8 consecutive blocks
    of the new order form a group, and the items of a group are shuffled. If blocks are small, a
    group has more blocks, with at least 1,024 items. A loop then needs the blocks of one group at a
    time, and each block once. This suits row groups, record batches and pages. A global shuffle
    would need all of them at any time.

    State: O(1), the position. Random access is kept. A resume reads nothing.

    Args:
      upstream: a random-access stage of finite length, at most 2**62.
      seed: in [0, 2**64).
      block: items in a block, at least 1; None shuffles all items globally.

    Raises:
      InvalidArgument: if ``upstream`` is a stream, endless or longer than 2**62 (shuffle the first
        two through a window), or if ``block`` is less than 1.
      InvalidType: if ``seed`` or ``block`` is not an integer.

    >>> sorted(rs.range(5).shuffle(seed=0))
    [0, 1, 2, 3, 4]
    >>> sorted(rs.range(5).shuffle(seed=0, block=2))
    [0, 1, 2, 3, 4]
    """

    identity: ClassVar[IdentityFields] = {"seed": SEED, "block": ALWAYS}
    state_cost = "the position"

    seed: int
    _: KW_ONLY
    block: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_field(self, "seed", check_seed)
        check_field(self, "block", check_int, optional=True, minimum=1)
        if not self.upstream.random_access:
            raise InvalidArgument(
                f"shuffle needs a window for a stream, got window=None over {self.upstream!r}; "
                "use shuffle(seed, window=n)"
            )
        length = known_length(self.upstream)
        if length == math.inf:
            raise InvalidArgument(
                "shuffle needs a window for an endless pipeline, got window=None; "
                "shuffle before repeat, or use shuffle(seed, window=n)"
            )
        if length > MOST_ITEMS:
            raise InvalidArgument(f"shuffle takes at most 2**62 items, got {length}")

    def relation(self, epoch: int) -> Relation:
        return Permuted(
            self, epoch, order=partial(self._order, epoch), local=self.block is not None
        )

    def _order(self, epoch: int) -> Permutation | BlockPermutation:
        count, seed, block = int(known_length(self.upstream)), self.seed, self.block
        if block is None:
            return permutation(count, seed, epoch)
        return block_permutation(count, block, seed, epoch)
