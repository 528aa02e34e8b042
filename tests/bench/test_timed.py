"""Timing a pipeline changes nothing but its speed."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import catalogue
from support.tiers import thinned

import resumable as rs
from resumable.bench.ledger import Ledger
from resumable.bench.timed import Timed, empty_interval, readers, timed
from resumable.core.stage import by_index
from resumable.testing import pipelines
from resumable.testing.comparing import assert_same

ENOUGH = 200


def instrumented(pipeline: rs.Pipeline[Any]) -> rs.Pipeline[Any]:
    stage = pipeline.stage
    return rs.Pipeline(timed(stage, Ledger(readers(stage), time.perf_counter)))


def one_by_one(pipeline: rs.Pipeline[Any]) -> tuple[list[Any], list[bytes]]:
    """The items, and the states on the way."""
    with iter(pipeline) as iterator:
        states = [rs.dumps(iterator.get_state())]
        items = []
        for item in itertools.islice(iterator, ENOUGH):
            items.append(item)
            states.append(rs.dumps(iterator.get_state()))
        return items, states


def in_blocks(pipeline: rs.Pipeline[Any]) -> list[Any]:
    """The items by `pull`, `skip` and `next` in turn; a skipped one is its count."""
    items: list[Any] = []
    with iter(pipeline) as iterator:
        for size in itertools.islice(itertools.cycle([3, 1, 7]), ENOUGH // 10):
            items.append(iterator.pull(size))
            items.append(iterator.skip(size - 1))
            items += itertools.islice(iterator, 1)
    return items


def delivers_the_same(
    plain: Callable[[], rs.Pipeline[Any]], other: Callable[[], rs.Pipeline[Any]]
) -> None:
    items, states = one_by_one(plain())
    timed_items, timed_states = one_by_one(other())
    assert_same(timed_items, items, "one by one")
    assert timed_states == states
    assert_same(in_blocks(other()), in_blocks(plain()), "in blocks")
    middle = len(items) // 2
    with other().resume(rs.loads(states[middle])) as iterator:
        rest = list(itertools.islice(iterator, ENOUGH - middle))
    assert_same(rest, items[middle:], f"resumed at {middle}", middle)
    indexed_alike(plain().stage, other().stage)


def indexed_alike(plain: rs.Stage[Any], other: rs.Stage[Any]) -> None:
    assert other.random_access == plain.random_access
    assert other.length == plain.length
    if plain.random_access and plain.length:
        indices = np.arange(min(plain.length, 9), dtype=np.int64)[::-1]
        assert_same(
            [by_index(other).gather(indices)], [by_index(plain).gather(indices)], "gathered"
        )
        assert_same([other[0]], [plain[0]], "looked up")
        ranges = [
            by_index(one).gather_range(0, int(min(plain.length, 9))) for one in (other, plain)
        ]
        assert_same(ranges[:1], ranges[1:], "a range")
        # By these it is planned what is read ahead.
        for told in ("plans_far", "every_epoch", "indices_per_epoch", "items_each"):
            assert getattr(by_index(other), told) == getattr(by_index(plain), told), told
        assert (by_index(other).needs is None) == (by_index(plain).needs is None)


@pytest.mark.parametrize("name", thinned(catalogue(Path()), 12, __name__))
def test_every_pipeline_of_the_catalogue_delivers_the_same(catalogue_data: Path, name: str) -> None:
    make = catalogue(catalogue_data)[name]
    delivers_the_same(make, lambda: instrumented(make()))


@given(st.data())
def test_any_pipeline_delivers_the_same(data: st.DataObject) -> None:
    pipeline = data.draw(pipelines())
    delivers_the_same(lambda: pipeline, lambda: instrumented(pipeline))


def stops(item: int) -> int:
    if item == 3:
        raise StopIteration
    return item


@pytest.mark.parametrize(
    "make",
    [
        lambda: rs.range(9).map(stops),
        lambda: rs.range(9).filter(bool).map(stops),
        lambda: rs.from_sequence(range(9)).map(stops).filter(lambda item: True),
        lambda: rs.range(9).map(stops).batch(2),
    ],
)
def test_a_function_that_raises_stop_iteration_is_no_end(make: Any) -> None:
    with iter(instrumented(make())) as iterator, pytest.raises(RuntimeError, match="StopIteration"):
        list(iterator)


def fails(item: int) -> int:
    return 1 // (item - 3)


@pytest.mark.parametrize("depth", [0, 2])
def test_an_item_is_tried_again_after_an_exception(depth: int) -> None:
    with iter(instrumented(rs.range(9).map(fails).prefetch(depth))) as iterator:
        assert list(itertools.islice(iterator, 3)) == [-1, -1, -1]
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                next(iterator)
        assert iterator.step == 3


class Reading:
    """A sequence that notes how it is asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def __len__(self) -> int:
        return 1000

    def __getitem__(self, index: int) -> int:
        self.asked.append(index)
        return index

    def __getitems__(self, indices: list[int]) -> list[int]:
        self.asked.append(indices)
        return indices


@pytest.mark.parametrize(
    "build",
    [
        lambda source: source.shuffle(0).map(str),
        lambda source: source.shuffle(0).shard(0, 2).batch(10),
        lambda source: source.skip(3).map(str).shuffle(0).batch(10).repeat(2),
        lambda source: source.batch(7).unbatch(),
    ],
)
def test_the_source_is_asked_in_the_same_way(build: Any) -> None:
    asked = []
    for wrap in (lambda pipeline: pipeline, instrumented):
        reading = Reading()
        with iter(wrap(build(rs.from_sequence(reading)))) as iterator:
            list(itertools.islice(iterator, 30))
        asked.append(reading.asked)
    assert asked[0] == asked[1]


def test_orders_are_computed_in_blocks_as_large_as_without_timing() -> None:
    stage = rs.range(10**6).shuffle(0).shard(0, 2).stage
    chain = timed(stage, Ledger(readers(stage), time.perf_counter))
    (shuffled,) = chain.inputs[0].inputs
    assert isinstance(shuffled, Timed)
    indexed = shuffled.indexed(0)
    assert indexed is not None
    base, maps = indexed.flattened()
    assert len(maps) == 1
    assert base.arithmetic_range is not None  # the range: nothing is gathered through the shuffle


def test_what_timing_costs_is_the_time_between_two_readings() -> None:
    assert empty_interval(lambda: 5.0) == 0
    assert empty_interval(map(float, itertools.count()).__next__) == pytest.approx(1, rel=0.01)


def test_a_stage_s_reader_is_the_one_after_it() -> None:
    graph = rs.zip(rs.range(3).batch(2), rs.range(4)).shuffle(0)
    assert readers(graph.stage) == [None, 0, 1, 2, 1]
