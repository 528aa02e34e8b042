"""Resuming and saving cost the same everywhere: counted, not timed."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

import pytest
from graphs import six_stages, stream

import resumable as rs
from resumable.windows.rereading import most_unneeded

FAR = 10**9


def test_resuming_far_into_an_endless_pipeline_calls_nothing_before_the_first_item() -> None:
    calls: list[int] = []

    def note(item: int) -> int:
        calls.append(item)
        return item

    pipeline = rs.range(10**12).shuffle(0).map(note).batch(256).repeat()
    with iter(pipeline) as iterator:
        state = iterator.get_state()
    state["pipeline"]["upstream"]["upstream"]["upstream"]["position"] = FAR
    with pipeline.resume(rs.loads(rs.dumps(state))) as iterator:
        assert rs.loads(rs.dumps(iterator.get_state())) == state
        assert calls == []
        batch = next(iterator)
    assert len(calls) == 256
    assert batch.tolist() == rs.range(10**12).shuffle(0)[FAR : FAR + 256]


@pytest.mark.parametrize("count", [10**3, 10**6, 10**12])
def test_the_state_of_six_stages_is_at_most_256_bytes(count: int) -> None:
    with iter(six_stages(count, 256, FAR)) as iterator:
        list(itertools.islice(iterator, 3))
        state = iterator.get_state()
    assert len(rs.dumps(state)) <= 256
    state["pipeline"]["position"] = FAR
    state["pipeline"]["upstream"]["upstream"]["upstream"]["upstream"]["position"] = count
    state["step"] = FAR
    assert len(rs.dumps(state)) <= 256


def test_the_windowed_shuffle_of_a_million_has_a_state_below_1_kb() -> None:
    pipeline = rs.range(2 * 10**6).map(abs).shuffle(0, window=10**6)
    with iter(pipeline) as iterator:
        next(iterator)
        assert len(rs.dumps(iterator.get_state())) <= 1024


@pytest.mark.parametrize("window", [1, 10, 300])
def test_a_windowed_shuffle_reads_no_more_than_its_bound_again(window: int) -> None:
    read = 0

    def count(item: int) -> int:
        nonlocal read
        read += 1
        return item

    pipeline = stream(window * 30).map(count).shuffle(1, window=window)
    states = []
    with iter(pipeline) as iterator:
        for _ in iterator:
            states.append(iterator.get_state())
    for state in states[:: max(1, len(states) // 40)]:
        with pipeline.resume(state) as iterator:
            read = 0
            next(iterator, None)
        assert read <= 9 * window + 256


@pytest.mark.parametrize("source", [stream, rs.range])
@pytest.mark.parametrize("window", [1, 10, 300])
def test_a_windowed_shuffle_calls_functions_only_for_what_is_still_in_the_window(
    source: Callable[[int], rs.Pipeline[int]], window: int
) -> None:
    calls = 0

    def count(item: int) -> int:
        nonlocal calls
        calls += 1
        return item

    length = window * 25
    for seed in (0, 1):
        pipeline = source(length).map(count).shuffle(seed, window=window)
        states = []
        with iter(pipeline) as iterator:
            for _ in iterator:
                states.append(iterator.get_state())
        drained = [*range(length - 2 * window, length, max(window // 3, 1))]
        for step in [0, 1, *range(window // 2, length, 4 * window), *drained, length - 1]:
            with pipeline.resume(states[step]) as iterator:
                calls = 0
                next(iterator, None)
            assert calls <= 1.1 * window, f"{seed=} {step=}"


def test_a_windowed_shuffle_of_random_access_looks_up_only_what_is_still_in_the_window() -> None:
    looked_up: list[int] = []

    class Source:
        def __len__(self) -> int:
            return 3000

        def __getitem__(self, index: int) -> int:
            looked_up.append(index)
            return index

    source: Any = Source()
    pipeline = rs.from_sequence(source).shuffle(1, window=100)
    with iter(pipeline) as iterator:
        iterator.skip(2000)
        state = iterator.get_state()
    looked_up.clear()
    with pipeline.resume(state) as iterator:
        next(iterator)
    assert len(looked_up) == 100


def test_a_windowed_shuffle_leaves_to_the_workers_what_they_are_hired_for() -> None:
    threads = set()

    def note(item: int) -> int:
        threads.add(threading.get_ident())
        return item

    pipeline = rs.range(900).map(note, workers=2).shuffle(1, window=30)
    with iter(pipeline) as iterator:
        iterator.skip(500)
        state = iterator.get_state()
    with pipeline.resume(state) as iterator:
        next(iterator)
    assert threading.get_ident() not in threads


def test_what_makes_the_items_that_it_passes_over_is_read_at_once() -> None:
    passing, making = stream(9).map(abs).stage, stream(9).filter(abs).stage
    assert most_unneeded(passing, iter(passing), 100) == 10
    assert most_unneeded(making, iter(making), 100) is None, "its predicate is called anyway"
    assert most_unneeded(stream(9).take(5).stage, stream(9).take(5).stage.start(), 100) is None


def test_item_cost_does_not_grow_with_length() -> None:
    gathered: list[int] = []

    class Source:
        def __init__(self, count: int) -> None:
            self.count = count

        def __len__(self) -> int:
            return self.count

        def __getitem__(self, index: int) -> int:
            gathered.append(index)
            return index

    for count in (10**3, 10**6, 10**12):
        source: Any = Source(count)
        gathered.clear()
        list(itertools.islice(rs.from_sequence(source).shuffle(0).batch(10), 5))
        assert len(gathered) == 50


def test_nothing_is_read_ahead() -> None:
    read: list[int] = []

    def note(item: int) -> int:
        read.append(item)
        return item

    pipeline = stream(1000).map(note).filter(lambda item: item % 2).enumerate().batch(3)
    with iter(pipeline) as iterator:
        next(iterator)
        assert read == [0, 1, 2, 3, 4, 5]
