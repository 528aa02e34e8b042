"""An iterator tells the epoch of its last item, also where items are looked up by their index."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from operator import itemgetter
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import resumable as rs
from resumable.core import ALWAYS, Indexed, IndexedIterator, LookedUp, Stage
from resumable.core.made_of import epoch_at

AFTER: dict[str, Callable[[rs.Pipeline[Any]], rs.Pipeline[Any]]] = {
    "nothing": lambda numbers: numbers,
    "shard": lambda numbers: numbers.shard(1, 3, uneven="keep"),
    "padded": lambda numbers: numbers.shard(2, 3, uneven="pad"),
    "two shards": lambda numbers: numbers.shard(0, 2).shard(1, 2),
    "random_map": lambda numbers: numbers.random_map(lambda item, rng: item, seed=0),
    "random_map of a shard": lambda numbers: numbers.shard(0, 2).random_map(
        lambda item, rng: item, seed=0
    ),
    "batches": lambda numbers: numbers.batch(4, drop_last=False).shard(0, 2),
    "batches of a shard": lambda numbers: numbers.shard(0, 2).batch(3),
    "windows": lambda numbers: numbers.window(4, shift=2).shard(0, 2),
    "zip": lambda numbers: rs.zip(numbers, numbers).map(itemgetter(0)).shard(0, 2),
    "fan-out": lambda numbers: numbers.flat_map(lambda item: [item] * 2, size=2).shard(1, 3),
    "skip and take": lambda numbers: numbers.skip(3).take(11).shard(0, 2),
    "shuffle": lambda numbers: numbers.shuffle(1),
    "shuffle of blocks": lambda numbers: numbers.shuffle(1, block=3).shard(0, 2),
    "map with workers": lambda numbers: numbers.shard(0, 2).map(abs, workers=2),
    "prefetch": lambda numbers: numbers.shard(0, 2).prefetch(2),
    "map with workers over a skip": lambda numbers: numbers.skip(3).map(abs, workers=2),
    "map with workers over a shuffle": lambda numbers: (
        numbers.shuffle(1).map(abs).map(abs, workers=2)
    ),
    "random_map with workers over a shuffle": lambda numbers: numbers.shuffle(1).random_map(
        lambda item, rng: item, seed=0, workers=2
    ),
    "prefetch of a map with workers": lambda numbers: (
        numbers.shuffle(1).map(abs, workers=2).prefetch(2)
    ),
}


@pytest.mark.parametrize("after", AFTER)
@given(length=st.integers(1, 9), epochs=st.integers(1, 5), inner=st.integers(1, 3))
def test_the_epoch_is_that_of_the_last_item_before_and_after_a_resume(
    after: str, length: int, epochs: int, inner: int
) -> None:
    repeated = rs.range(length).shuffle(0).repeat(inner).repeat(epochs)
    pipeline = AFTER[after](repeated.enumerate().map(itemgetter(0)))
    found, states = [], []
    with iter(pipeline) as iterator:
        for item in iterator:
            found.append((int(np.ravel(item)[-1]) // length, iterator.epoch))
            states.append(iterator.get_state())
    assert [epoch for _, epoch in found] == [expected for expected, _ in found]
    if "Shard" in repr(pipeline):  # its state says where all ranks are
        return
    for (expected, _), state in zip(found, states, strict=True):
        with pipeline.resume(state) as resumed:
            assert resumed.epoch == expected


@pytest.mark.parametrize("after", AFTER)
def test_a_state_told_in_advance_has_the_epoch_of_the_item_there(after: str) -> None:
    pipeline = AFTER[after](rs.range(6).batch(2).unbatch(size=2).repeat(3))
    for count in range(20):
        with iter(pipeline) as iterator:
            ahead = iterator.state_after(count)
            passed = iterator.skip(count)
            assert ahead is None or ahead == (iterator.get_state(), passed)


@dataclass(frozen=True, eq=False, repr=False)
class EpochNumbers(LookedUp[int]):
    """Items that are the number of their epoch."""

    count: int

    identity = {"count": ALWAYS}  # noqa: RUF012
    state_cost = "the position"

    @property
    def length(self) -> int:
        return self.count

    def indexed(self, epoch: int = 0) -> Indexed[int]:
        return Indexed(lambda indices: [epoch] * len(indices))


Step = tuple[str, int]

STEPS: dict[str, Callable[[rs.Pipeline[Any], int], rs.Pipeline[Any]]] = {
    "repeat": lambda made, number: made.repeat(number + 1),
    "shuffle": lambda made, number: made.shuffle(number),
    "shuffle of blocks": lambda made, number: made.shuffle(number, block=2),
    "skip": lambda made, number: made.skip(number),
    "take": lambda made, number: made.take(4 * number + 3),
    "shard": lambda made, number: made.shard(0, number + 1, uneven="keep"),
    "zip": lambda made, number: rs.zip(made, made).map(itemgetter(0)),
    "by_epoch": lambda made, number: rs.by_epoch({0: made.repeat(2), number + 1: made}),
}

steps_of_pipelines = st.lists(
    st.tuples(st.one_of(st.just("repeat"), st.sampled_from(list(STEPS))), st.integers(0, 2)),
    max_size=6,
)


def made_by(steps: list[Step], source: rs.Pipeline[Any]) -> rs.Pipeline[Any]:
    return reduce(lambda made, step: STEPS[step[0]](made, step[1]), steps, source)


@given(
    count=st.integers(1, 4),
    steps=steps_of_pipelines,
    places=st.lists(st.integers(0, 1000), max_size=9),
    cut=st.integers(0, 40),
)
@example(count=8, steps=[("repeat", 1), ("shuffle", 0), ("repeat", 1)], places=[9, 2], cut=3)
def test_by_every_way_an_item_has_the_epoch_in_which_its_source_made_it(
    count: int, steps: list[Step], places: list[int], cut: int
) -> None:
    expected = list(made_by(steps, rs.Pipeline(EpochNumbers(count))))
    cut = min(cut, len(expected))
    # All epochs of a range are alike.
    for source in (rs.Pipeline(EpochNumbers(count)), rs.range(count)):
        plain = made_by(steps, source)
        looked_up = plain.shard(0, 1)
        for pipeline in (plain, looked_up):
            with iter(pipeline) as iterator:
                found, state = [iterator.epoch], iterator.get_state()
                for number, _ in enumerate(iterator, start=1):
                    found.append(iterator.epoch)
                    if number == cut:
                        state = iterator.get_state()
            assert found == [0, *expected]
            with pipeline.resume(state) as resumed:
                if pipeline is looked_up:
                    assert resumed.epoch == found[cut]
                assert [resumed.epoch for _ in resumed] == expected[cut:]
        by_index = IndexedIterator(looked_up.stage, 0)
        for place in places if expected else ():
            place %= len(expected)
            assert by_index.epoch_at(place) == expected[place]


def test_the_epoch_goes_back_where_an_earlier_pipeline_counts_further() -> None:
    numbers = [rs.Pipeline(EpochNumbers(count)) for count in range(4)]
    thrice = rs.by_epoch({0: numbers[2], 2: numbers[1]}).repeat(3)
    pipeline = rs.by_epoch({0: thrice, 1: numbers[3]}).repeat(2)
    assert list(pipeline) == [0, 0, 1, 1, 2, 1, 1, 1]
    for made in (pipeline, pipeline.shard(0, 1)):
        iterator = iter(made)
        assert [iterator.epoch for _ in iterator] == list(pipeline)


@pytest.mark.parametrize("after", AFTER)
def test_before_any_item_the_epoch_is_the_first(after: str) -> None:
    assert iter(AFTER[after](rs.range(2).repeat(5))).epoch == 0


@pytest.mark.parametrize("workers", [0, 1])
def test_the_epoch_behind_exclude_is_the_same_with_workers(workers: int) -> None:
    pipeline = rs.range(3).repeat(2).exclude([1]).map(abs, workers=workers)
    with iter(pipeline) as iterator:
        assert [(item, iterator.epoch) for item in iterator] == [(0, 0), (2, 0), (0, 1), (2, 1)]
    with iter(pipeline) as iterator:
        assert [(iterator.skip(1), iterator.epoch) for _ in range(5)] == [
            (1, 0),
            (1, 0),
            (1, 1),
            (1, 1),
            (0, 1),
        ]


@pytest.mark.parametrize("workers", [0, 1])
def test_windows_over_a_map_save_the_epoch_of_their_last_item(workers: int) -> None:
    made = rs.range(3).repeat(3).skip(1).map(abs, workers=workers).window(3, shift=1)
    with iter(made) as iterator:
        reached = [iterator.get_state()["epoch_reached"] for _ in iterator]
    assert reached == [1, 1, 1, 2, 2, 2, 2, 2]


def test_after_a_resume_the_epoch_is_that_of_the_last_item_of_all_ranks() -> None:
    pipeline = rs.range(5).repeat(3).shard(0, 2)
    for step, epoch in ((1, 0), (2, 0), (3, 1), (5, 1), (6, 2), (7, 2)):
        iterator = iter(pipeline)
        iterator.skip(step)
        with pipeline.resume(iterator.get_state()) as resumed:
            assert resumed.epoch == epoch


def test_the_epochs_of_many_items_are_looked_up_seldom() -> None:
    pipeline = rs.range(10_000).repeat(3).shard(1, 2).prefetch(4)
    calls: list[int] = []
    with count_calls(calls), iter(pipeline) as iterator:
        epochs = [iterator.epoch for _ in iterator]
    assert epochs == [0] * 5000 + [1] * 5000 + [2] * 5000
    assert len(calls) < 1500


@contextmanager
def count_calls(calls: list[int]) -> Iterator[None]:
    """Note each item of which the epoch is computed."""

    def noting(stage: Stage[Any], epoch: int, index: int) -> Any:
        calls.append(index)
        return epoch_at(stage, epoch, index)

    with mock.patch("resumable.core.lookup.epoch_at", noting):
        yield
