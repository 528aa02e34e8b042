"""What follows from relations costs no memory, counts no end twice, and refuses what it cannot count."""

from __future__ import annotations

import gc
import math
import pickle
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pytest

import resumable as rs
from resumable.core import (
    Aligned,
    Combine,
    Indexed,
    InputItems,
    LookedUp,
    PassThrough,
    Sliced,
    each,
)

ENDLESS = rs.range(3).repeat()


@pytest.mark.parametrize("make", [
    lambda: rs.range(20).map(abs).cache().repeat(2),
    lambda: rs.from_sequence([1, 2, 3]).shuffle(1).batch(2),
    lambda: rs.mix(rs.range(3), rs.range(4), stop="cycle"),
])  # fmt: skip
def test_a_stage_is_freed_with_its_pipeline(make: Callable[[], rs.Pipeline[Any]]) -> None:
    gc.disable()
    try:
        pipeline = make()
        list(islice(pipeline, 9)), pipeline[1], list(islice(rs.origins(pipeline), 2))
        stage = weakref.ref(pipeline.stage)
        del pipeline
        assert stage() is None
    finally:
        gc.enable()


def test_a_pipeline_whose_items_were_looked_up_is_pickled_without_them() -> None:
    pipeline = rs.range(9).map(abs).batch(2)
    assert pipeline[1].tolist() == pickle.loads(pickle.dumps(pipeline))[1].tolist() == [2, 3]


class Streaming(PassThrough[int]):
    def indexed(self, epoch: int = 0) -> Indexed[int] | None:
        return None


def test_a_stage_that_gives_up_random_access_is_a_stream_to_those_behind_it() -> None:
    pipeline = rs.range(5).apply(Streaming)
    assert list(pipeline.skip(2)) == [2, 3, 4]
    assert list(pipeline.shard(0, 2)) == [0, 2]
    assert not pipeline.skip(2).random_access


@pytest.mark.parametrize("look", [
    lambda: rs.origins(ENDLESS.batch(16))[2**60 + 5],
    lambda: rs.origins(ENDLESS.batch(4).batch(4))[2**60],
    lambda: rs.origins(ENDLESS.batch(4))[2**61],
])  # fmt: skip
def test_the_origins_of_an_item_beyond_the_countable_are_refused(look: Callable[[], Any]) -> None:
    with pytest.raises(rs.InvalidArgument, match=r"among the first 2\*\*62"):
        look()


def test_records_are_left_out_behind_380_stages() -> None:
    pipeline = rs.range(9)
    for number in range(380):
        pipeline = pipeline.skip(0) if number % 2 else pipeline.take(8)
    assert list(pipeline.exclude([3])) == [0, 1, 2, 4, 5, 6, 7]


@pytest.mark.parametrize("counted", [
    rs.zip(rs.range(5), rs.range(3)),
    rs.range(6).window(4, shift=1, drop_last=True),
])  # fmt: skip
def test_an_input_has_not_given_more_than_it_has(counted: rs.Pipeline[Any]) -> None:
    pipeline = rs.concatenate(rs.range(4).filter(bool), counted)
    with iter(pipeline) as iterator:
        list(iterator)
        assert iterator.stats()["inputs"].get("1", len(counted)) == len(counted)


def test_an_end_that_was_seen_behind_left_out_items_fixes_the_inputs() -> None:
    def batches(*more: rs.Pipeline[int]) -> rs.Pipeline[Any]:
        joined = rs.concatenate(rs.range(3), rs.range(3, 5), *more)
        return joined.exclude([3, 4]).batch(2)

    with iter(batches()) as iterator:
        assert [batch.tolist() for batch in iterator] == [[0, 1], [2]]
        state = iterator.get_state()
    with pytest.raises(rs.StateMismatch, match="the end of the inputs"):
        batches(rs.range(5, 9)).resume(state)


@dataclass(frozen=True, eq=False, repr=False)
class EverySecondPair(LookedUp[Any], Combine[Any]):
    def relation(self, epoch: int) -> Aligned:
        def every_second(number: int) -> InputItems:
            return InputItems(EverySecond(self.upstreams[number]), epoch)

        return Aligned(self, epoch, make=each(lambda *pair: pair), input_at=every_second)


@dataclass(frozen=True, eq=False, repr=False)
class EverySecond(LookedUp[int], rs.Transform[int]):
    def relation(self, epoch: int) -> Sliced:
        return Sliced(self, epoch, step=2)


def test_relations_compose() -> None:
    pairs = rs.Pipeline(EverySecondPair((rs.range(9).stage, rs.range(100, 107).stage)))
    assert list(pairs) == [(0, 100), (2, 102), (4, 104), (6, 106)]
    assert sorted(pairs.shuffle(0)) == list(pairs)
    with pytest.raises(rs.InvalidType, match="its inputs must have random access, got"):
        list(rs.range(9).filter(bool).apply(EverySecond))


@pytest.mark.parametrize("drop", ["filter", "map", "pack", "bucket"])
def test_a_stage_that_ends_with_its_input_alone_is_endless_where_its_input_is(drop: str) -> None:
    def dropping(items: rs.Pipeline[int]) -> rs.Pipeline[Any]:
        if drop == "filter":
            return items.filter(bool)
        if drop == "map":
            return items.map(abs, on_error="skip")
        documents = items.map(lambda item: [item] * 2)
        if drop == "pack":
            return documents.pack(4)
        return documents.bucket(len, batch_size=2)

    assert dropping(rs.range(3)).stage.length is None
    assert dropping(rs.range(3).repeat()).stage.length == math.inf
    mixed = rs.mix(dropping(rs.range(3).repeat()), rs.range(3).repeat(), weights=[1, 1])
    assert mixed.stage.length == math.inf
