"""Resuming and saving cost the same everywhere: counted, not timed."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from support.graphs import six_stages, stream

import resumable as rs
from resumable.testing.laws import resumes_at_every_position
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


@pytest.mark.parametrize(
    "chain",
    [
        lambda stream, note: stream.map(note),
        lambda stream, note: stream.filter(bool).map(note).enumerate(),
    ],
    ids=["map", "behind a filter"],
)
def test_a_flat_map_calls_no_function_for_what_it_passes_over(
    chain: Callable[[rs.Pipeline[int], Callable[[int], int]], rs.Pipeline[Any]],
) -> None:
    calls = 0

    def note(item: int) -> int:
        nonlocal calls
        calls += 1
        return item

    pipeline = rs.range(3).flat_map(lambda item: chain(stream(60), note))
    items = list(pipeline)
    length = len(items) // 3
    with iter(pipeline) as iterator:
        for _ in range(length + 40):
            next(iterator)
        state = iterator.get_state()
    calls = 0
    with pipeline.resume(state) as iterator:
        assert next(iterator) == items[length + 40]
        assert calls == 1
        assert list(iterator) == items[length + 41 :]


class Numbered:
    """Adds how often it was called before."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, item: int) -> int:
        self.calls += 1
        return item + self.calls

    def get_state(self) -> int:
        return self.calls

    def set_state(self, calls: int) -> None:
        self.calls = calls


@pytest.mark.parametrize(
    "chain",
    [
        lambda stream: stream.map(Numbered()),
        lambda stream: stream.map(lambda item: 60 // (item % 7), on_error="skip").map(Numbered()),
        lambda stream: stream.map(Numbered()).filter(lambda item: item % 3).batch(2),
        lambda stream: stream.map(abs, workers=2).prefetch(2).shuffle(1, window=4),
    ],
    ids=["state", "state behind drops", "state before a filter", "threads"],
)
def test_what_a_flat_map_passes_over_leaves_the_rest_as_it_was(
    chain: Callable[[rs.Pipeline[int]], rs.Pipeline[Any]],
) -> None:
    pipeline = rs.range(3).flat_map(lambda item: chain(stream(20)).map(repr))
    resumes_at_every_position(pipeline)


def first_of_a_resume(pipeline: rs.Pipeline[Any], steps: int) -> Any:
    """The item that a resume after so many begins with, if it is the one that comes next."""
    with iter(pipeline) as iterator:
        iterator.skip(steps)
        state, following = iterator.get_state(), next(iterator)
    with pipeline.resume(state) as iterator:
        found = next(iterator)
        assert found == following
        return found


@pytest.mark.parametrize(
    ("chain", "most"),
    [
        (lambda numbers, note: numbers.map(note).prefetch(100), 16),
        (lambda numbers, note: numbers.map(note).enumerate().prefetch(5).prefetch(30), 16),
        (lambda numbers, note: numbers.map(note, workers=2).prefetch(9), 16),
        (lambda numbers, note: numbers.map(note, workers=2).map(abs, workers=3), 16),
        (lambda numbers, note: numbers.map(note, workers=2, on_error="skip"), 16),
        (lambda numbers, note: numbers.map(note).filter(bool).prefetch(100), 17),
        (lambda numbers, note: numbers.map(note).batch(2).prefetch(100), 32),
    ],
)
def test_an_interleave_computes_nothing_ahead_for_the_items_that_it_opens_again(
    chain: Callable[[rs.Pipeline[int], Callable[[int], int]], rs.Pipeline[Any]], most: int
) -> None:
    threads: list[int] = []

    def note(item: int) -> int:
        threads.append(threading.get_ident())
        return item

    pipeline = chain(stream(2000), note).interleave_map(
        lambda item: [repr(item)] * 50, cycle_length=16
    )
    with iter(pipeline) as iterator:
        iterator.skip(100)
        state = iterator.get_state()
    threads.clear()
    with pipeline.resume(state) as iterator:
        next(iterator)
        assert len(threads) <= most
        assert set(threads) == {threading.get_ident()}


def test_an_interleave_leaves_to_the_workers_what_many_items_of_theirs_go_into() -> None:
    threads = set()

    def note(item: int) -> int:
        threads.add(threading.get_ident())
        return item

    batches = rs.range(9000).map(note, workers=2).batch(30)
    pipeline = batches.interleave_map(lambda batch: [len(batch)] * 9, cycle_length=3)
    first_of_a_resume(pipeline, 5)
    assert threads
    assert threading.get_ident() not in threads


def test_an_interleave_calls_no_function_where_it_might_not_run() -> None:
    class Elsewhere(ThreadPoolExecutor):
        """Stands for a cluster, whose functions run on its machines alone."""

    def here(item: int) -> int:
        return os.getpid() if threading.current_thread().name.startswith("cluster") else 0

    with Elsewhere(2, "cluster") as cluster:
        pipeline = rs.range(99).map(here, workers=2, executor=cluster)
        assert first_of_a_resume(pipeline.interleave_map(lambda item: [item] * 9, 3), 5)


@pytest.mark.parametrize(("on_error", "stays"), [("raise", True), ("skip", False)])
def test_an_interleave_takes_no_processes_unless_items_may_end_them(
    on_error: str, stays: bool
) -> None:
    def pipeline(workers: int, executor: str) -> rs.Pipeline[int]:
        ids = rs.range(20).map(
            lambda _: os.getpid(), workers=workers, executor=executor, on_error=on_error
        )
        return ids.interleave_map(lambda process: [process] * 9, cycle_length=2)

    with iter(pipeline(0, "thread")) as iterator:
        iterator.skip(5)
        state = iterator.get_state()
    with pipeline(1, "process").resume(state) as iterator:
        assert (next(iterator) == os.getpid()) is stays


def test_what_an_interleave_opens_again_is_taken_out_of_a_cache() -> None:
    calls: list[int] = []

    def note(item: int) -> int:
        calls.append(item)
        return item

    kept = stream(20).map(note).prefetch(2).cache().prefetch(3)
    pipeline = kept.interleave_map(lambda item: [item] * 9, cycle_length=4)
    list(pipeline)
    assert sorted(calls) == list(range(20))
    first_of_a_resume(pipeline, 30)
    assert len(calls) == 20


def test_an_error_on_the_way_to_an_open_item_names_the_stage_of_the_pipeline() -> None:
    made = [[0, 1, 2]] * 4
    pipeline = (
        stream(4)
        .prefetch(2)
        .flat_map(lambda number: made[number])
        .interleave_map(lambda item: [item] * 9, 2)
    )
    with iter(pipeline) as iterator:
        iterator.skip(4)
        state = iterator.get_state()
    made[0] = []
    with pytest.raises(
        rs.StateMismatch, match=r"FlatMap at pipeline\.upstream: saved offset=1 lies"
    ):
        next(pipeline.resume(state))


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
