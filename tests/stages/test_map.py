"""Map: workers keep the order, errors may be dropped, functions may carry state."""

from __future__ import annotations

import itertools
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import pytest
from support.graphs import RunningSum, fails_on_thirds, stream
from support.waiting import wait_until

import resumable as rs


def slow_square(item: int) -> int:
    time.sleep(0.002 * (item % 3))
    return item * item


def die(item: int) -> int:
    import os

    if item == 5:
        os._exit(3)
    return item


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_workers_keep_the_order(workers: int) -> None:
    assert list(rs.range(40).map(slow_square, workers=workers)) == [i * i for i in range(40)]


def test_workers_work_side_by_side_and_within_a_bounded_window() -> None:
    barrier = threading.Barrier(3, timeout=60)
    read: list[int] = []

    def source() -> Iterator[int]:
        for item in range(60):
            read.append(item)
            yield item

    def meet(item: int) -> int:
        barrier.wait()
        return item

    with iter(rs.from_iterable(source).map(meet, workers=3)) as iterator:
        assert next(iterator) == 0
        assert len(read) <= 7
        barrier.abort()  # whoever still waits for two more


def test_any_executor_is_used_and_left_running() -> None:
    with ThreadPoolExecutor(2) as pool:
        pipeline = rs.range(20).map(slow_square, workers=2, executor=pool)
        assert list(pipeline) == [i * i for i in range(20)]
        assert list(pipeline) == [i * i for i in range(20)]
        assert pool.submit(abs, -1).result() == 1


def test_processes_do_the_work() -> None:
    with ProcessPoolExecutor(2) as pool:
        pipeline = rs.range(12).shuffle(0).map(slow_square, workers=2, executor=pool)
        with iter(pipeline) as iterator:
            head = list(itertools.islice(iterator, 5))
            state = iterator.get_state()
        with rs.range(12).shuffle(0).map(slow_square).resume(state) as iterator:
            assert sorted(head + list(iterator)) == [i * i for i in range(12)]


def test_a_dead_worker_is_named_and_loses_nothing() -> None:
    with ProcessPoolExecutor(1) as pool:
        pipeline = rs.range(12).map(die, workers=1, executor=pool)
        got: list[int] = []
        with iter(pipeline) as iterator:
            with pytest.raises(rs.WorkerError, match=r"worker of .*Map\(fn=die.* died"):
                got.extend(iterator)
            state = iterator.get_state()
    with rs.range(12).map(abs).resume(state) as iterator:
        assert got + list(iterator) == list(range(12))


def test_closing_ends_the_workers_of_its_own() -> None:
    before = threading.active_count()
    iterator = iter(rs.range(100).map(slow_square, workers=3))
    next(iterator)
    assert threading.active_count() > before
    iterator.close()
    assert threading.active_count() == before


class Counting(Executor):
    """Notes how many chunks were submitted, which are done at once, and how many items were."""

    def __init__(self) -> None:
        self.submitted = 0
        self.items = 0

    def submit(self, fn: Any, work: Any, /) -> Future[Any]:  # type: ignore[override]
        self.items += len(work.block)
        self.submitted += 1
        future: Future[Any] = Future()
        future.set_result(fn(work))
        return future


def test_work_ahead_is_at_most_twice_the_workers() -> None:
    executor = Counting()
    with iter(rs.range(10**5).map(abs, workers=4, executor=executor)) as iterator:
        next(iterator)
        wait_until(lambda: executor.submitted >= 8)
        assert executor.submitted == 8
        list(itertools.islice(iterator, 3000))
        assert executor.items - 3001 <= 8 * 4096
        assert executor.submitted < 1500, "quick items go in chunks"


@pytest.mark.parametrize("workers", [0, 2])
def test_dropped_items_are_counted_in_the_state(workers: int) -> None:
    pipeline = rs.range(12).map(fails_on_thirds, workers=workers, on_error="skip")
    with iter(pipeline) as iterator:
        assert list(itertools.islice(iterator, 3)) == [10, 5, 10]
        assert iterator.get_state()["pipeline"]["dropped"] == 2
        list(iterator)
        assert iterator.get_state()["pipeline"]["dropped"] == 4


def test_states_with_and_without_workers_are_the_same_bytes() -> None:
    states = set()
    for workers in (0, 1, 4):
        with iter(stream(50).map(abs, workers=workers)) as iterator:
            list(itertools.islice(iterator, 13))
            states.add(rs.dumps(iterator.get_state()))
    assert len(states) == 1


def test_a_function_with_state_is_saved_and_goes_on_over_epochs() -> None:
    pipeline = rs.range(4).map(RunningSum()).repeat(3)
    expected = [0, 1, 3, 6, 6, 7, 9, 12, 12, 13, 15, 18]
    assert list(pipeline) == expected
    assert list(pipeline) == expected, "a second pass begins as the first did"
    with iter(pipeline) as iterator:
        list(itertools.islice(iterator, 6))
        state = rs.loads(rs.dumps(iterator.get_state()))
    with rs.range(4).map(RunningSum()).repeat(3).resume(state) as iterator:
        assert list(iterator) == expected[6:]


def test_a_function_with_state_goes_on_though_a_resumed_pass_had_no_item_left() -> None:
    def pipeline() -> rs.Pipeline[int]:
        return rs.range(4).map(RunningSum()).take(3).repeat(2)

    expected = list(pipeline())
    with iter(pipeline()) as iterator:
        list(itertools.islice(iterator, 3))
        state = iterator.get_state()
    with pipeline().resume(state) as iterator:
        assert list(iterator) == expected[3:] == [3, 4, 6]


def test_the_mapped_function_is_no_part_of_the_identity() -> None:
    with iter(rs.range(9).map(abs)) as iterator:
        next(iterator)
        state = iterator.get_state()
    assert next(rs.range(9).map(str).resume(state)) == "1"


class Remembering:
    """Numbers its calls, and has no state before the first of them."""

    def __init__(self) -> None:
        self.calls: int | None = None

    def __call__(self, item: int) -> tuple[int, int]:
        self.calls = (self.calls or 0) + 1
        return item, self.calls

    def get_state(self) -> int | None:
        return self.calls

    def set_state(self, state: int | None) -> None:
        self.calls = state


def test_a_function_whose_state_is_none_is_restored_like_any_other() -> None:
    def mapped() -> rs.Pipeline[tuple[int, int]]:
        return rs.range(4).map(Remembering())

    expected = [(0, 1), (1, 2), (2, 3), (3, 4)]
    pipeline = mapped()
    iterator = iter(pipeline)
    at_start = iterator.get_state()
    first = [next(iterator), next(iterator)]
    state = iterator.get_state()
    assert first + list(mapped().resume(state)) == expected
    assert list(iterator) == expected[2:]
    assert list(pipeline.resume(at_start)) == expected
    assert list(pipeline) == expected


class Module:
    """As a ``torch.nn.Module`` without parameters: every one has these methods."""

    def __call__(self, item: int) -> int:
        return item

    def state_dict(self) -> Any:
        return OrderedDict()

    def load_state_dict(self, state: Any) -> None:
        raise AssertionError("there is nothing to load")


def test_a_module_without_parameters_carries_no_state() -> None:
    mapped = rs.range(9).map(Module(), workers=1)
    assert mapped.random_access
    with iter(mapped) as iterator:
        next(iterator)
        state = iterator.get_state()
    assert list(rs.range(9).map(Module()).resume(state)) == list(range(1, 9))
