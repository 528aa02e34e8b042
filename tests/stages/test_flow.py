"""A stage of a user's that makes one item of one alone stands wherever `map` may."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar

import pytest

import resumable as rs
import resumable.core
from resumable.core import (
    NOTHING,
    Block,
    Dependence,
    Flow,
    OwnStateIterator,
    Relation,
    Same,
    block_items,
)
from resumable.core.relation import kind_of
from resumable.testing import check_stage

RANKS = 2


class DoubledIterator(OwnStateIterator[int]):
    def pull(self, count: int) -> Block:
        return [2 * int(item) for item in block_items(self._upstream.pull(count))]


@dataclass(frozen=True, eq=False, repr=False)
class Doubled(rs.Transform[int]):
    """Each item twice as large. State: upstream's."""

    alone = True
    depends_on: ClassVar[Dependence] = NOTHING
    state_cost = "nothing"

    def relation(self, epoch: int) -> Relation | None:
        return Same(self, epoch, in_order=True)

    def start(self, epoch: int = 0) -> rs.StageIterator[int]:
        return DoubledIterator(self, epoch)


@dataclass(frozen=True, eq=False, repr=False)
class Unsaid(rs.Transform[int]):
    """The same, which does not say so."""

    depends_on: ClassVar[Dependence] = NOTHING

    def start(self, epoch: int = 0) -> rs.StageIterator[int]:
        return DoubledIterator(self, epoch)


def advised(message: str, kind: type[Any]) -> type[Any]:
    """A class like ``kind`` with the lines that ``message`` says to write in it."""
    namespace = dict[str, Any]()
    exec("\n".join(re.findall("`([^`]+)`", message)), vars(resumable.core).copy(), namespace)
    return type(kind.__name__, (kind,), namespace)


def parted(stage: type[rs.Transform[int]]) -> rs.Pipeline[int]:
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
        match=r"partitions before Unsaid\(\) apart, since Unsaid does not say what its items are made of",
    ) as told:
        parted(Unsaid).shard(0, RANKS)
    taken = [
        item
        for rank in range(RANKS)
        for item in parted(advised(str(told.value), Unsaid)).shard(rank, RANKS)
    ]
    assert Counter(taken) == Counter(parted(Doubled))
    with pytest.raises(rs.InvalidArgument, match=r"partitions before MapBatches\(.*\) apart; put"):
        rs.range(9).partition(3, lambda part: part).map_batches(list, 2).shard(0, RANKS)


def test_after_shard_a_random_map_knows_the_order_that_all_ranks_share() -> None:
    def drawn(pipeline: rs.Pipeline[Any]) -> rs.Pipeline[Any]:
        return pipeline.random_map(lambda item, rng: (item, rng.random()), seed=3)

    dealt = rs.range(20).shard(1, RANKS)
    mapped, doubled = drawn(dealt.map(lambda item: 2 * item)), drawn(dealt.apply(Doubled))
    assert list(doubled) == list(mapped)
    assert doubled.stage.depends_on == mapped.stage.depends_on
    assert drawn(dealt.apply(Unsaid)).stage.depends_on != mapped.stage.depends_on


def facts(kind: type[Any]) -> tuple[bool, bool, Any, bool]:
    stage = rs.range(9).apply(kind).stage
    relation: Any = stage.relation(0)
    return stage.unchanged, stage.alone, kind_of(stage), relation.in_order


@pytest.mark.parametrize("flow", Flow)
def test_the_flow_of_a_stage_of_0_3_says_what_its_warning_advises(flow: Flow) -> None:
    with pytest.warns(DeprecationWarning, match="flow of Old will not be read") as warned:
        old = type("Old", (Unsaid,), {"flow": flow})
    assert facts(old) == facts(advised(str(warned[0].message), Unsaid))
    assert flow is Flow.ANY or facts(old) != facts(Unsaid)
    assert warned[0].filename == __file__


def test_the_flow_of_a_pass_through_of_0_3_leaves_its_random_access() -> None:
    with pytest.warns(DeprecationWarning, match="flow of Old will not be read"):
        old = type("Old", (rs.core.PassThrough,), {"flow": Flow.COUNTED})
    numbers = rs.range(5).apply(old)
    assert (len(numbers), numbers[2], list(numbers.skip(3))) == (5, 2, [3, 4])


def test_the_flow_of_a_stage_of_0_3_may_depend_on_its_fields() -> None:
    with pytest.warns(DeprecationWarning, match="write unchanged, alone and relation"):

        @dataclass(frozen=True, eq=False, repr=False)
        class Old(Unsaid):
            keeps: bool = False

            @property
            def flow(self) -> Flow:
                return Flow.SAME if self.keeps else Flow.COUNTED

    assert [rs.range(9).apply(Old, keeps=keeps).stage.alone for keeps in (False, True)] == [
        False,
        True,
    ]
