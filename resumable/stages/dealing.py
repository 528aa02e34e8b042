"""The base of stages that deal items out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from ..core import LookedUp, Transform
from ..core.rank_share import RankShare

T = TypeVar("T")


@dataclass(frozen=True, eq=False, repr=False)
class Deals(LookedUp[T], Transform[T]):
    """A stage that gives a rank or a partition every n-th item.

    Args:
      index: of the rank or the partition.
      count: number of ranks, or of partitions.
    """

    index: int
    count: int

    @property
    def _rank_share(self) -> RankShare:
        before = self.upstream._rank_share
        return RankShare(self.index * before.ranks + before.rank, self.count * before.ranks)
