"""Give each item its place in the global order shared by all ranks."""

# After `shard`, item n of rank i of r has the place n * r + i in the global order. After stages
# that drop, add or group items, these numbers are no longer places in the global order. They still
# differ from rank to rank, as random numbers need.

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, count, repeat
from typing import Any, TypeAlias, final

from ..core import (
    Block,
    CountingIterator,
    Indexed,
    Items,
    Joined,
    Relation,
    Same,
    Stage,
    StageIterator,
    Transform,
    block_items,
    block_length,
    computed_once,
)
from ..core.fingerprint import holds_items_of_rank
from ..core.graph import with_inputs
from ..core.indexed import OWN_INDICES
from ..core.rank_share import RankShare
from ..core.relation import one_for_each
from ..order.random_bits import derive
from ..state.value import LARGEST_COUNT, State
from .dealing import Deals
from .partition import Partition, has_partitions

Placed: TypeAlias = tuple[int, int, Any]
"""The key of an epoch, a place in it, and the item at that place."""


def rank_share_of(stage: Stage[Any]) -> RankShare:
    """How the items of ``stage`` were dealt out; of several inputs, the deal to most ranks."""
    return stage._rank_share


def differs_by_rank(stage: Stage[Any]) -> bool:
    """Whether the state differs from rank to rank when the items of ``stage`` are dealt out."""
    return has_partitions(stage) or holds_items_of_rank(stage)


def for_rank(stage: Stage[Any], rank: int, ranks: int) -> Stage[Any] | None:
    """The pipeline for another ``rank`` of ``ranks``; ``stage`` itself if it deals nothing out.

    None if ``stage`` deals out items that were dealt out before, to another number of ranks in all.

    Raises:
      InvalidArgument: if the items cannot be dealt to ``ranks`` ranks.
    """
    if isinstance(stage, Partition):
        return replace(stage, index=rank, ranks=ranks)
    if not is_dealt(stage):
        return stage
    if isinstance(stage, Deals):
        before = rank_share_of(stage.upstream).ranks
        if before == 1:
            return replace(stage, index=rank, count=ranks)
        if before * stage.count != ranks:
            return None
        upstream = for_rank(stage.upstream, rank % before, before)
        return upstream and replace(stage, upstream=upstream, index=rank // before)
    inputs = [for_rank(upstream, rank, ranks) for upstream in stage.inputs]
    found = tuple(upstream for upstream in inputs if upstream is not None)
    return with_inputs(stage, found) if len(found) == len(inputs) else None


def dealt_order(stage: Stage[Any]) -> Stage[Any] | None:
    """The order that was dealt out, if ``stage`` delivers a rank's items one for one; else None."""
    while one_for_each(stage):
        (stage,) = stage.inputs
    dealt = isinstance(stage, Deals) and rank_share_of(stage.upstream).ranks == 1
    return stage.upstream if dealt else None  # type: ignore[attr-defined]


def is_dealt(stage: Stage[Any]) -> bool:
    """Whether ``stage`` or any stage before it deals items out to ranks or partitions."""
    waiting, seen = [stage], {id(stage)}
    while waiting:
        found = waiting.pop()
        if isinstance(found, Deals):
            return True
        new = [upstream for upstream in found.inputs if id(upstream) not in seen]
        seen.update(map(id, new))
        waiting += new
    return False


@final
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Places(Transform[Placed]):
    """The items of upstream with their places and a key made of (seed, epoch).

    State: O(1), the place after the items that all ranks have handed out, and upstream's. Random
    access is kept.
    """

    seed: int

    def relation(self, epoch: int) -> Relation:
        key, (rank, ranks) = derive(self.seed, epoch), self.rank_share
        places = Indexed.reordered(OWN_INDICES, lambda indices: indices * ranks + rank)
        placed = Joined(
            lambda places, block: _placed(key, places.tolist(), block),
            partial(zip, repeat(key)),
            places,
        )
        return Same(self, epoch, make=placed)

    @computed_once
    def rank_share(self) -> RankShare:
        return rank_share_of(self.upstream)

    @computed_once
    def total(self) -> int | None:
        """The place after the last item; None if the end is unknown, or upstream is endless."""
        order = dealt_order(self.upstream)
        length, ranks = (self.length, self.rank_share.ranks) if order is None else (order.length, 1)
        return None if length is None or length == math.inf else int(length) * ranks

    def start(self, epoch: int = 0) -> StageIterator[Placed]:
        return _PlacesIterator(self, epoch)


class _PlacesIterator(CountingIterator[Placed]):
    """Motion of `Places`. The position is the place after the items handed out by all ranks.

    The n-th item from here on, with n from 0, has the place position + n * ranks + rank. At the end
    the position is the same on every rank, though some ranks get one item less from a short last
    round.
    """

    _stage: Places

    def __init__(self, stage: Places, epoch: int) -> None:
        super().__init__(stage, epoch)
        self._key = derive(stage.seed, epoch)
        self._ended = False

    def pull(self, count: int) -> Block:
        block = self._upstream.pull(count)
        (rank, ranks), length = self._stage.rank_share, block_length(block)
        first = self._position + rank
        places = range(first, first + length * ranks, ranks)
        placed = _placed(self._key, places, block)
        self._advance_over(length, count)
        return placed

    def items(self) -> Items[Placed]:
        (rank, ranks), items = self._stage.rank_share, self._upstream.items()
        placed = zip(repeat(self._key), count(self._position + rank, ranks), items, strict=False)
        return Items(chain(self._item_position.counting(placed, ranks), self._end()))

    def _end(self) -> Iterator[Placed]:
        self._ended = True
        yield from ()

    def skip(self, count: int) -> int:
        passed = self._upstream.skip(count)
        self._advance_over(passed, count)
        return passed

    def state_at(self, offset: int) -> tuple[State, int] | None:
        found = self._upstream.state_at(offset)
        if found is None:
            return None
        position = self._position + found[1] * self._stage.rank_share.ranks
        return {"position": self._within(position), "upstream": found[0]}, found[1]

    def get_state(self) -> State:
        total = self._stage.total
        position = total if self._ended and total is not None else self._within(self._position)
        return {"position": position, "upstream": self._upstream.get_state()}

    def _advance_over(self, passed: int, asked: int) -> None:
        self._position += passed * self._stage.rank_share.ranks
        self._ended = passed < asked

    def _within(self, position: int) -> int:
        """``position``, or the end if a short last round would go beyond the end."""
        total = self._stage.total
        return position if total is None else min(position, total)

    def _limit(self) -> int:
        # The items of all ranks are counted, so the count may exceed the limit of one pipeline.
        total = self._stage.total
        return LARGEST_COUNT if total is None else total


def _placed(key: int, places: Sequence[int], block: Block) -> list[Placed]:
    return list(zip(repeat(key), places, block_items(block), strict=False))
