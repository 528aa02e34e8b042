"""Draw items of a random-access pipeline by their weights, with replacement."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any, ClassVar, Final, TypeVar, final

from ..core import (
    ALWAYS,
    LISTS,
    SEED,
    Drawn,
    IdentityField,
    IdentityFields,
    LookedUp,
    Relation,
    Transform,
    check_int,
    check_seed,
)
from ..core.arguments import check_field
from ..core.layout import Layout
from ..core.orders import MOST_ITEMS
from ..core.stage import known_length
from ..errors import InvalidArgument
from ..order.drawing import WeightTable
from ..order.random_bits import derive

T = TypeVar("T")

DRAWS: Final = 0x5A
"""Keeps the draws apart from a shuffle with the same seed."""


@final
@dataclass(frozen=True, eq=False, repr=False)
class Sample(LookedUp[T], Transform[T]):
    """Items drawn with replacement, each with a chance in proportion to its weight.

    Each draw is a pure function of (``seed``, epoch, index), so the draws differ from epoch to
    epoch. This is torch's ``WeightedRandomSampler`` with a seed. Put `shard` after ``sample``: then
    the ranks share the draws.

    State: O(1), the position. Random access is kept. A resume reads nothing. The weights take 8 bytes each.

    Args:
      upstream: a random-access stage of finite length.
      weights: one for each item of ``upstream``, in any proportion: a list, an array or a tensor. An item
        of weight 0 is never drawn. Other weights at the resume are refused.
      seed: in [0, 2**64).
      count: number of items in an epoch, at least 1; by default the number of items of
        ``upstream``.

    Raises:
      InvalidArgument: if ``upstream`` is a stream or endless, there are more or fewer weights than
        items, a weight is negative, infinite or NaN, or all are 0.
      InvalidType: if ``weights`` are not several numbers, or ``seed`` or ``count`` is not an integer.

    >>> sorted(rs.range(3).sample([0, 1, 2], seed=1, count=6))
    [1, 1, 1, 2, 2, 2]
    """

    block_layout: ClassVar[Layout] = LISTS
    identity: ClassVar[IdentityFields] = {
        "digest": IdentityField(ALWAYS, shown_as="weights"),
        "seed": SEED,
        "count": ALWAYS,
    }
    state_cost = "the position"

    weights: Any
    _: KW_ONLY
    seed: int = 0
    count: int | None = None
    digest: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        table = self.weights
        if not isinstance(table, WeightTable):  # a copy of the stage already has a table
            table = WeightTable(table)
            object.__setattr__(self, "weights", table)
        object.__setattr__(self, "digest", table.digest)
        check_field(self, "seed", check_seed)
        check_field(self, "count", check_int, optional=True, minimum=1, maximum=MOST_ITEMS)
        length = known_length(self.upstream) if self.upstream.random_access else math.inf
        if length == math.inf:
            raise InvalidArgument(
                f"sample needs a random-access pipeline that ends, got {self.upstream!r}; sample before "
                "filter, repeat and whatever makes it a stream"
            )
        if length != len(table):
            raise InvalidArgument(
                f"weights must be one for each of {length} items, got {len(table)}"
            )

    def relation(self, epoch: int) -> Relation:
        draw = partial(self.weights.draw, derive(self.seed, epoch, DRAWS))
        return Drawn(self, epoch, draw=draw, items=self.count or len(self.weights))
