"""A one-to-one stage of a user's stands wherever `map` may."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar

import pytest

import resumable as rs
from resumable.core import NOTHING, Block, Flow, Reliance, SteadyIterator, block_items
from resumable.testing import check_stage

RANKS = 2


class DoubledIterator(SteadyIterator[int]):
    def pull(self, count: int) -> Block:
        return [2 * int(item) for item in block_items(self._upstream.pull(count))]


@dataclass(frozen=True, eq=False, repr=False)
class Doubled(rs.Transform[int]):
    """Each item twice as large. State: upstream's."""

    flow = Flow.ONE_TO_ONE
    relies_on: ClassVar[Reliance] = NOTHING
    state_cost = "nothing"

    def start(self, epoch: int = 0) -> rs.StageIterator[int]:
        return DoubledIterator(self, epoch)


@dataclass(frozen=True, eq=False, repr=False)
class Unsaid(Doubled):
    """The same, which does not say so."""

    flow = Flow.ANY


def parted(stage: type[Doubled]) -> rs.Pipeline[int]:
    return rs.range(50).partition(4, lambda part: part.filter(lambda n: n % 3)).apply(stage)


def test_it_obeys_the_laws() -> None:
    check_stage(rs.range(30).apply(Doubled))


def test_between_partition_and_shard_the_number_of_ranks_may_change() -> None:
    running = [iter(parted(Doubled).shard(rank, RANKS)) for rank in range(RANKS)]
    taken = [item for iterator in running for item in islice(iterator, 5)]
    state = rs.merge_states([iterator.get_state() for iterator in running])
    for rank in range(RANKS + 1):
        with parted(Doubled).shard(rank, RANKS + 1).resume(state) as resumed:
            taken += resumed
    assert Counter(taken) == Counter(parted(Doubled))


def test_a_stage_that_says_nothing_is_refused_there() -> None:
    with pytest.raises(
        rs.InvalidArgument,
        match=r"partitions before Unsaid\(\) apart, since Unsaid declares no flow",
    ) as told:
        parted(Unsaid).shard(0, RANKS)
    assert "write `flow = Flow.ONE_TO_ONE` in the class" in str(told.value)
    with pytest.raises(rs.InvalidArgument, match=r"partitions before MapBatches\(.*\) apart; put"):
        rs.range(9).partition(3, lambda part: part).map_batches(list, 2).shard(0, RANKS)


def test_after_shard_a_random_map_knows_the_order_that_all_ranks_share() -> None:
    def drawn(pipeline: rs.Pipeline[Any]) -> rs.Pipeline[Any]:
        return pipeline.random_map(lambda item, rng: (item, rng.random()), seed=3)

    dealt = rs.range(20).shard(1, RANKS)
    mapped, doubled = drawn(dealt.map(lambda item: 2 * item)), drawn(dealt.apply(Doubled))
    assert list(doubled) == list(mapped)
    assert doubled.stage.relies_on == mapped.stage.relies_on
    assert drawn(dealt.apply(Unsaid)).stage.relies_on != mapped.stage.relies_on
