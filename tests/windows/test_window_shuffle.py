"""The windowed shuffle: mixing, age of items, and the exactness of its rebuilt window."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import RunningSum, double, running, stream
from support.tiers import thinned

import resumable as rs
from resumable.order import slots
from resumable.order.slots import LARGEST_KEPT_ROUND, OLDEST_WINDOWS, ROUND_EVERY, SlotChoice
from resumable.testing.laws import resumes_at_every_position, stays_ended
from resumable.windows.rereading import LARGEST_GROUP, groups


def reservoir(length: int, window: int) -> list[int]:
    """The plain reservoir of tf.data and infinibatch."""
    chosen = random.Random(0)
    slots: list[int] = []
    order = []
    for item in range(length):
        if len(slots) < window:
            slots.append(item)
            continue
        slot = chosen.randrange(window)
        order.append(slots[slot])
        slots[slot] = item
    return order


def displacement(order: list[int], window: int) -> float:
    """Root-mean-square displacement, leaving out the ends, in windows."""
    moved = np.arange(len(order)) - np.array(order)
    inner = moved[10 * window : -10 * window]
    return float(np.sqrt(np.mean((inner - inner.mean()) ** 2))) / window


def test_it_mixes_nine_tenths_as_well_as_a_reservoir() -> None:
    window, length = 500, 100_000
    ours = list(stream(length).shuffle(1, window=window))
    assert sorted(ours) == list(range(length))
    plain = displacement(reservoir(length, window), window)
    assert displacement(ours[: length - window], window) >= 0.9 * plain


@pytest.mark.parametrize("window", [1, 2, 3, 10, 257])
def test_no_item_stays_longer_than_eight_windows(window: int) -> None:
    order = list(stream(window * 60).shuffle(2, window=window))
    ages = [step - (item - window) for step, item in enumerate(order)]
    assert max(ages) <= OLDEST_WINDOWS * window


@pytest.mark.parametrize("window", [1, 2, 7, 100])
def test_the_contents_of_the_window_follow_from_the_choices(window: int) -> None:
    choice = SlotChoice(3, 0, window)
    slots = list(range(window))
    chosen = choice.of_steps(0, 40 * window).tolist()
    for step in range(40 * window):
        # Before this step, the item of the slot emptied by the step before was replaced.
        if step:
            slots[chosen[step - 1]] = window + step - 1
        expected = choice.contents(step + 1).tolist()
        assert expected == slots


def test_choices_do_not_depend_on_how_they_are_asked_for() -> None:
    choice = SlotChoice(3, 1, 10)
    whole = choice.of_steps(0, 500).tolist()
    parts = [choice.of_steps(start, start + 25).tolist() for start in range(0, 500, 25)]
    assert list(itertools.chain.from_iterable(parts)) == whole


@pytest.mark.parametrize("window", [1, 10, 5_000, LARGEST_KEPT_ROUND, LARGEST_KEPT_ROUND + 1])
def test_a_round_that_is_kept_is_the_one_computed_in_parts(
    window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    around = ROUND_EVERY * window  # where the second round begins
    places = [(around - 99, around + 99), (0, 50), (2 * around, 2 * around + 7)]
    places = [(max(start, 0), stop) for start, stop in [*places, *reversed(places)]]
    kept = SlotChoice(1, 0, window)
    found = [kept.of_steps(*place).tolist() for place in places]
    monkeypatch.setattr(slots, "LARGEST_KEPT_ROUND", 0)
    assert found == [SlotChoice(1, 0, window).of_steps(*place).tolist() for place in places]


def test_a_large_window_resumes_across_its_rounds() -> None:
    pipeline = stream(45_000).shuffle(1, window=5_000)
    expected = list(pipeline)
    assert sorted(expected) == list(range(45_000))
    for position in (1, 19_999, 20_001, 39_990, 44_000):
        with iter(pipeline) as iterator:
            assert iterator.skip(position) == position
            state = rs.loads(rs.dumps(iterator.get_state()))
        assert list(pipeline.resume(state)) == expected[position:]


@given(st.integers(0, 90), st.integers(1, 20), st.integers(0, 3), st.integers(0, 2**64 - 1))
def test_it_is_exact_at_every_cut_of_every_length(
    length: int, window: int, epochs: int, seed: int
) -> None:
    pipeline = stream(length).shuffle(seed, window=window).repeat(epochs)
    resumes_at_every_position(pipeline, 100)
    stays_ended(pipeline)


@pytest.mark.parametrize("length", [2300, 2559, 2560, 2561])
def test_it_is_exact_across_snapshots(length: int) -> None:
    pipeline = stream(length).shuffle(5, window=256)
    expected = list(pipeline)
    with iter(pipeline) as iterator:
        states = [rs.dumps(iterator.get_state())]
        for _ in iterator:
            states.append(rs.dumps(iterator.get_state()))
    every = [*range(0, length, 97), *range(length - 260, length + 1, 13)]
    for position in thinned(every, 7, length):
        with pipeline.resume(rs.loads(states[position])) as iterator:
            assert rs.dumps(iterator.get_state()) == states[position]
            assert list(iterator) == expected[position:]


UPSTREAMS: dict[str, Callable[[int], rs.Pipeline[Any]]] = {
    "random access": lambda length: rs.range(length),
    "random access shuffled": lambda length: rs.range(length).shuffle(2),
    "random access mapped": lambda length: rs.range(length).map(double),
    "stream mapped": lambda length: stream(length).map(double),
    "stream filtered": lambda length: stream(length).filter(lambda item: item % 5),
    "stream mapped over a filter": lambda length: stream(length).filter(bool).map(double),
    "stream batched and mapped": lambda length: stream(length).batch(2).map(sum),
    "function with state": lambda length: stream(length).map(RunningSum()),
    "workers": lambda length: rs.range(length).map(double, workers=2),
    "prefetched": lambda length: stream(length).map(double).prefetch(2),
    "epochs": lambda length: stream(length // 3).map(double).repeat(3),
    "scan": lambda length: stream(length).scan(running, 0, lambda carry: [carry] * 9),
}


@pytest.mark.parametrize("window", [1, 30, 300])
@pytest.mark.parametrize("name", UPSTREAMS)
def test_whatever_makes_its_items_again_it_goes_on_as_if_nothing_had_been(
    name: str, window: int
) -> None:
    def make() -> rs.Pipeline[Any]:  # a function with state belongs to one iterator
        return UPSTREAMS[name](1100).shuffle(3, window=window)

    with iter(make()) as iterator:
        states, expected = [rs.dumps(iterator.get_state())], []
        for item in iterator:
            expected.append(item)
            states.append(rs.dumps(iterator.get_state()))
    end = len(expected)
    every = [*range(0, end, 61), *range(max(end - window - 9, 0), end + 1, 7)]
    for position in thinned(sorted(set(every)), 4, (name, window)):
        further = min(position + 40, end)
        with make().resume(rs.loads(states[position])) as iterator:
            assert list(itertools.islice(iterator, 40)) == expected[position:further]
            assert rs.dumps(iterator.get_state()) == states[further], "with the same snapshot"


@given(st.sets(st.integers(0, 20_000), max_size=60), st.none() | st.integers(0, 500))
def test_groups_hold_what_is_needed_and_no_more_of_the_rest_than_is_allowed(
    chosen: set[int], unneeded: int | None
) -> None:
    numbers = np.array(sorted(chosen), np.int64)
    made = groups(numbers, unneeded)
    parts = [numbers[start:end].tolist() for start, end in made]
    assert list(itertools.chain.from_iterable(parts)) == numbers.tolist()
    assert all(parts)
    sizes = [part[-1] + 1 - part[0] for part in parts]
    assert not sizes or max(sizes) <= LARGEST_GROUP
    if unneeded is not None:
        assert sum(sizes) - len(numbers) <= unneeded
    for before, after in itertools.pairwise(parts):
        together = before[-1] // LARGEST_GROUP == after[0] // LARGEST_GROUP
        assert not together or after[0] > before[-1] + 1, "neighbours are read at once"


def test_a_stream_that_changed_is_noticed() -> None:
    with iter(stream(100).shuffle(1, window=10)) as iterator:
        list(itertools.islice(iterator, 60))
        state = iterator.get_state()
        list(iterator)
        end = iterator.get_state()
    with pytest.raises(rs.StateMismatch, match="did the data change"):
        next(stream(50).shuffle(1, window=10).resume(state))
    with pytest.raises(rs.StateMismatch, match="did the data change"):
        next(stream(150).shuffle(1, window=10).resume(end))


def test_carried_items_need_no_reading() -> None:
    read: list[int] = []

    def note(item: int) -> int:
        read.append(item)
        return item

    pipeline = stream(100).map(note).shuffle(1, window=10, carry=True)
    with iter(pipeline) as iterator:
        first = list(itertools.islice(iterator, 30))
        state = iterator.get_state()
        rest = list(iterator)
    assert sorted(first + rest) == list(range(100))
    read.clear()
    with pipeline.resume(state) as iterator:
        assert next(iterator) == rest[0]
        assert len(read) == 1


def test_carried_items_that_cannot_be_saved_are_named() -> None:
    pipeline = stream(9).map(lambda item: {item}).shuffle(1, window=3, carry=True)
    with iter(pipeline) as iterator:
        next(iterator)
        with pytest.raises(rs.UnencodableState, match=r"WindowShuffle.*carried items.*carry=False"):
            iterator.get_state()
        next(iterator)


def test_a_carried_window_holds_no_item_that_was_handed_out() -> None:
    pipeline = rs.range(100, 140).shuffle(3, window=7, carry=True)
    with iter(pipeline) as iterator:
        for handed_out in range(1, 25):
            next(iterator)
            slots = iterator.get_state()["pipeline"]["slots"]
            held = [item for item in slots if item is not None]
            assert len(held) == 6, handed_out
