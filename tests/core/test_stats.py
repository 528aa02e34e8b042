"""What an iterator says of how it is doing is right, and asking for it changes nothing."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.clocks import Clock
from support.interrupting import some_interrupters

import resumable as rs
from resumable.core import iterator as running
from resumable.core import stopwatch
from resumable.core.iterator import PipelineIterator
from resumable.core.run_counters import RunCounters, joined
from resumable.core.skipped import iterators
from resumable.core.wait_histogram import WaitHistogram
from resumable.stages.partition_iterator import PartitionIterator

BUFFER = 4


class Input:
    """An input that takes ``seconds`` for an item on a clock, as many at once as ``workers``, and runs ahead.

    What runs ahead is real, and when an item is ready is computed. So the times do not depend on the machine.
    """

    def __init__(self, clock: Clock, seconds: float, workers: int) -> None:
        self.clock = clock
        self.seconds = seconds
        self.workers = workers
        self.ready: list[float] = []
        self.taken: list[float] = []
        self.waited = 0.0

    def arrive(self, item: int) -> int:
        """Called when the loop gets an item: the clock goes on to when it is ready."""
        ahead = self.workers and self.workers + BUFFER
        free = self.taken[item - ahead] if item >= ahead > 0 else 0.0
        before = self.ready[item - self.workers] if item >= self.workers > 0 else 0.0
        start = max(free, before) if self.workers else self.clock.now
        self.ready.append(start + self.seconds)
        self.waited += max(self.ready[item] - self.clock.now, 0.0)
        self.clock.now = max(self.clock.now, self.ready[item])
        self.taken.append(self.clock.now)
        return item


def take_all(iterator: PipelineIterator[int], taken: list[int], size: int) -> None:
    """Take all items, in blocks of ``size`` if it is not 0."""
    while size and iterator.step < 40:
        taken += iterator.pull(size)
    for item in iterator:
        taken.append(item)


def unchanged(item: int) -> int:
    return item


KINDS: dict[str, tuple[Callable[[rs.Pipeline[int]], rs.Pipeline[int]], int]] = {
    "alone": (lambda numbers: numbers, 0),
    "prefetch": (lambda numbers: numbers.map(unchanged).prefetch(BUFFER), 1),
    "threads": (lambda numbers: numbers.map(unchanged, workers=2), 2),
    "processes": (lambda numbers: numbers.map(unchanged, workers=2, executor="process"), 2),
}


@pytest.mark.parametrize(
    ("kind", "seconds", "step"),
    [
        *itertools.product(["alone", "prefetch", "threads"], [2.0, 0.5], [0.5, 1.5, 2.3]),
        ("processes", 2.0, 0.5),  # whose times are computed as those of threads
    ],
)
def test_the_share_of_waiting_is_that_of_the_worked_example(
    kind: str, seconds: float, step: float
) -> None:
    if kind == "processes":
        pytest.importorskip("loky")
    build, workers = KINDS[kind]
    clock = Clock(100.0)
    source = Input(clock, seconds, workers)
    count = 400
    with iter(build(rs.range(count)).map(source.arrive)) as iterator:
        iterator.measure(clock)
        for _ in iterator:
            clock.now += step
        stats = iterator.stats()
    busy = count * step
    assert stats["wait_seconds"] == pytest.approx(source.waited)
    assert stats["loop_seconds"] == pytest.approx(busy)
    alone = seconds / (seconds + step)
    steady = max(0.0, 1 - step * workers / seconds) if workers else alone
    assert stats["wait_share"] == pytest.approx(steady, abs=0.02)


def test_what_the_caller_of_a_generator_does_is_no_waiting() -> None:
    clock = Clock()

    def read(item: int) -> int:
        clock.now += 0.5
        return item

    def batches() -> Iterator[list[int]]:
        for item in iterator:
            yield [item]

    iterator = iter(rs.range(10).map(read))
    iterator.measure(clock)
    for _ in batches():
        clock.now += 2.3
    stats = iterator.stats()
    assert stats["wait_seconds"] == pytest.approx(5.0)
    assert stats["loop_seconds"] == pytest.approx(23.0)
    assert stats["wait_p99"] == pytest.approx(0.5, rel=0.032)


def test_pulls_and_skips_are_timed_too() -> None:
    clock = Clock()

    def read(item: int) -> int:
        clock.now += 1.0
        return item

    iterator = iter(rs.range(20).map(read).filter(bool))
    iterator.measure(clock)
    for move in (lambda: iterator.pull(4), lambda: iterator.skip(2), lambda: next(iterator)):
        move()
        clock.now += 3.0
    stats = iterator.stats()
    assert (stats["wait_seconds"], stats["loop_seconds"]) == (8.0, 9.0)
    assert (stats["steps"], stats["items"]) == (7, 7)


def test_an_error_and_the_time_until_the_next_try_are_told_apart() -> None:
    clock, fails = Clock(), iter([False, True, False, False])

    def read(item: int) -> int:
        clock.now += 1.0
        if next(fails):
            raise OSError("for the moment")
        return item

    iterator = iter(rs.range(3).map(read))
    iterator.measure(clock)
    next(iterator)
    with pytest.raises(OSError, match="moment"):
        next(iterator)
    clock.now += 10.0
    assert list(iterator) == [1, 2]
    stats = iterator.stats()
    assert (stats["wait_seconds"], stats["loop_seconds"]) == (4.0, 10.0)


def test_where_the_time_of_a_call_in_progress_goes_depends_on_where_it_is() -> None:
    clock, entered, go_on = Clock(), threading.Event(), threading.Event()

    def read(item: int) -> int:
        if item == 1:
            entered.set()
            go_on.wait(60)
        return item

    iterator = iter(rs.range(3).map(read))
    iterator.measure(clock)
    next(iterator)
    clock.now += 2.0
    assert iterator.stats()["loop_seconds"] == 2.0
    thread = threading.Thread(target=next, args=(iterator,))
    thread.start()
    assert entered.wait(60)
    clock.now += 6.0
    stats = iterator.stats()  # as from the thread of an exporter
    go_on.set()
    thread.join()
    assert (stats["wait_seconds"], stats["loop_seconds"]) == (6.0, 2.0)


def test_without_measuring_there_are_counts_and_no_times() -> None:
    iterator = iter(rs.range(9))
    next(iterator)
    assert iterator.stats() == {
        "steps": 1,
        "items": 1,
        "inputs": {},
        "skipped": {},
        "bytes_read": 0,
        "requests": 0,
        "worker_restarts": 0,
        "cache_hits": 0,
        "cache_misses": 0,
    }
    iterator.measure(Clock())
    assert "wait_share" not in iterator.stats(), "no time has gone by"


SECONDS = st.integers(0, 1 << 20).map(float)


@pytest.fixture
def few_readings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the stopwatch book its readings after every three calls."""
    monkeypatch.setattr(stopwatch, "MOST_READINGS", 6)


@pytest.mark.usefixtures("few_readings")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(SECONDS, SECONDS, st.integers(0, 3)), max_size=30))
def test_the_times_of_all_calls_are_counted(calls: list[tuple[float, float, int]]) -> None:
    """Each is a wait, a time in the loop, and 0 for `next`, or of how many items a block is."""
    clock, waits = Clock(7.0), WaitHistogram()

    def read(item: int) -> int:
        clock.now += wait
        return item

    iterator = iter(rs.range(100).map(read))
    iterator.measure(clock)
    waited = looped = 0.0
    for wait, step, size in calls:
        if size:
            iterator.pull(size)
        else:
            next(iterator)
        clock.now += step
        waited += wait * max(size, 1)
        looped += step
        waits = waits.with_waits([wait * max(size, 1)])
        counters = iterator.counters()
        assert (counters.wait_seconds, counters.loop_seconds) == (waited, looped)
        assert counters.waits == waits


@pytest.mark.usefixtures("few_readings")
def test_another_thread_may_ask_at_each_reading_of_the_clock() -> None:
    now, asking, found = 0.0, False, [(0.0, 0.0)]

    def clock() -> float:
        nonlocal now, asking
        now += 1.0
        if not asking:
            asking = True
            counters = iterator.counters()
            found.append((counters.wait_seconds, counters.loop_seconds))
            asking = False
        return now

    iterator = iter(rs.range(40))
    iterator.measure(clock)
    for _ in iterator:
        pass
    assert all(a <= b for before, after in itertools.pairwise(found) for a, b in zip(before, after))  # noqa: B905
    assert sum(found[-1]) > now - 4.0


def test_however_many_items_are_prepared_few_readings_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(running, "SNAPSHOT_SHARE", 1e9)
    iterator = iter(rs.range(100_000))
    iterator.measure()
    watch = iterator._stopwatch
    assert watch is not None
    for _ in iterator:
        assert len(watch._times[1]) <= 2 * stopwatch.MOST_READINGS


@given(st.lists(st.floats(1e-8, 1e6), min_size=1, max_size=200), st.sampled_from([50, 95, 99]))
def test_a_percentile_is_within_its_error(times: list[float], percent: int) -> None:
    waits = WaitHistogram().with_waits(times)
    exact = sorted(times)[max(-(-len(times) * percent // 100), 1) - 1]
    assert waits.percentile(percent) == pytest.approx(exact, rel=1 / 32)
    assert WaitHistogram.from_value(waits.to_value()) == waits
    assert WaitHistogram().percentile(percent) is None


def test_counters_of_ranks_add_up() -> None:
    waits = WaitHistogram().with_waits([0.5, 1.0])
    one = RunCounters({"items": 3, "requests": 1}, 1.5, 4.0, waits)
    both = joined([one, RunCounters({"items": 2}, 1.5, 2.0, waits)])
    assert both.counts == {"items": 5, "requests": 1}
    assert (both.wait_seconds, both.loop_seconds, both.wait_share) == (3.0, 6.0, 1 / 3)
    assert both.waits == WaitHistogram().with_waits([0.5, 0.5, 1.0, 1.0])
    assert RunCounters.from_value(both.to_value()) == both


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        # All calls were timed.
        ([16.0, 5.0, 12.0, 4.0, 36.0, 4.0, 12.0, 16.0], (12.0, 4.0)),
        # A sample of them was.
        ([2.0, 19514.0, 1.46355, 0.48785, 1.1e-4, 1.2e-5, 3.7e-5, 1.9514], (1.5, 0.5)),
        # None was.
        ([0.0] * 8, (0.0, 0.0)),
    ],
)
def test_counters_that_version_0_3_saved_are_read(
    seconds: list[float], expected: tuple[float, float]
) -> None:
    value = {"counts": {"items": 4, "requests": 2}, "seconds": seconds, "waits": [[504, 4]]}
    counters = RunCounters.from_value(value)
    assert counters is not None
    assert counters.counts == {"items": 4, "requests": 2}
    assert (counters.wait_seconds, counters.loop_seconds) == pytest.approx(expected)
    assert counters.waits.percentile(50) == pytest.approx(3.0, rel=1 / 32)


@pytest.mark.parametrize(
    "change",
    [
        {"counts": {"items": -1}},
        {"counts": {"items": True}},
        {"counts": []},
        {"seconds": [1.0]},
        {"seconds": [1.0, -1.0]},
        {"seconds": [1.0] * 7 + [-1.0]},
        {"seconds": [1.0] * 7 + [float("nan")]},
        {"seconds": [1.0] * 7 + [3]},
        {"waits": [[0]]},
        {"waits": [[-1, 1]]},
        {"waits": [[1 << 20, 1]]},
        {"waits": [[1, 1 << 62]]},
        {"waits": None},
    ],
)
def test_what_no_run_can_have_counted_is_not_read(change: dict[str, Any]) -> None:
    value = RunCounters({"items": 1}, 1.0).to_value()
    assert RunCounters.from_value(value) is not None
    assert RunCounters.from_value(value | {"counts": {"items": 1, "later": 7}}) is not None
    assert RunCounters.from_value(value | change) is None


def test_items_of_inputs_are_known_wherever_the_state_tells_them() -> None:
    one, other = rs.range(100), rs.range(100, 200)
    stream = one.filter(lambda _: True)
    named = {"web": one, "math": other}
    cases: dict[str, tuple[rs.Pipeline[Any], int, dict[str, int]]] = {
        "named": (rs.mix(named, weights=[3, 1]), 8, {"web": 6, "math": 2}),
        "numbered": (rs.mix(one, other).map(str), 5, {"0": 3, "1": 2}),
        "a stream": (rs.mix(stream, other, weights=[1, 2]), 9, {"0": 3, "1": 6}),
        "batches": (rs.mix(named).batch(4).prefetch(2), 3, {"web": 6, "math": 6}),
        "workers": (rs.mix(stream, other).map(str, workers=2), 6, {"0": 3, "1": 3}),
        "a later epoch": (rs.mix(one.take(3), other.take(3)).repeat(), 8, {"0": 1, "1": 1}),
        "all ranks": (rs.mix(named).shard(1, 4), 3, {"web": 6, "math": 6}),
        "all ranks of a stream": (rs.mix(stream, other).shard(1, 4), 3, {"0": 6, "1": 6}),
        "nested": (
            rs.mix({"web": rs.mix({"en": one, "de": other}), "math": other}),
            8,
            {"web": 4, "math": 4, "web/en": 2, "web/de": 2},
        ),
        "two mixtures": (
            rs.zip(rs.mix(stream, other), rs.mix(named)),
            2,
            {"0/0": 1, "0/1": 1, "1/web": 1, "1/math": 1},
        ),
        "the second of two": (
            rs.concatenate(rs.range(2).filter(lambda _: True), rs.mix(named)),
            4,
            {"1": 2, "1/web": 1, "1/math": 1},
        ),
        "until all have ended": (
            rs.mix(one.take(2), other.take(6), stop="all"),
            6,
            {"0": 2, "1": 4},
        ),
        "of unknown length": (
            rs.mix(stream.take_while(lambda n: n < 2), other, stop="all"),
            7,
            {"1": 5},
        ),
        "begun again": (rs.mix(one.take(2), other, stop="cycle"), 6, {"0": 3, "1": 3}),
        "shuffled": (rs.mix(one, other).shuffle(0), 5, {}),
        "none": (rs.zip(one, other), 5, {}),
    }
    for name, (pipeline, count, expected) in cases.items():
        with iter(pipeline) as iterator:
            assert len(list(itertools.islice(iterator, count))) == count
            assert iterator.stats()["inputs"] == expected, name


@pytest.mark.parametrize("uneven", ["drop", "pad", "keep"])
def test_items_of_inputs_are_those_of_all_ranks_also_when_their_number_changes(uneven: str) -> None:
    mixed = rs.mix({"web": rs.range(100), "math": rs.range(100, 200)}, weights=[2, 1])
    items, position = list(mixed), 0
    state: Any = None
    for ranks in (2, 3, 5, 4, 1):
        dealt = mixed.shard(0, ranks, uneven=uneven)
        with dealt.start() if state is None else dealt.resume(state) as iterator:
            for _ in range(4):
                next(iterator)
                position += ranks
                web = sum(item < 100 for item in items[:position])
                assert iterator.stats()["inputs"] == {"web": web, "math": position - web}
            state = iterator.get_state()


def test_dropped_items_are_counted_where_the_loop_is() -> None:
    def odd(item: int) -> int:
        if item % 2 == 0:
            raise ValueError(item)
        return item

    pipeline = rs.range(1000).map(odd, on_error="skip").prefetch(50)
    with iter(pipeline) as iterator:
        for _ in range(3):
            next(iterator)
        assert iterator.stats()["skipped"] == {"pipeline": 3}


@pytest.mark.parametrize("size", [0, 4])
def test_a_loop_that_goes_on_while_another_thread_asks_saves_where_it_is(size: int) -> None:
    """The states of partitions are noted for the other thread, and the loop moves them meanwhile."""
    parts: rs.Pipeline[Any] = rs.range(1000).partition(2, lambda part: part.map(unchanged))
    pipeline = parts.batch(size) if size else parts
    noted, go_on = threading.Event(), threading.Event()

    def held(note: Callable[[], Any]) -> Any:
        found = note()
        noted.set()
        assert go_on.wait(60)
        return found

    with iter(pipeline) as iterator, iter(pipeline) as undisturbed:
        next(iterator)
        within = iterators(iterator._running.root)
        (moved,) = [one for one in within if isinstance(one, PartitionIterator)]
        deferrers = moved._deferrers[:]
        moved._deferrers[:] = [partial(held, note) for note in deferrers]
        exporter = threading.Thread(target=iterator.stats)
        exporter.start()
        assert noted.wait(60)
        moved._deferrers[:] = deferrers
        assert len(list(itertools.islice(iterator, 100))) == 100
        go_on.set()
        exporter.join()
        assert len(list(itertools.islice(undisturbed, 101))) == 101
        assert rs.dumps(iterator.get_state()) == rs.dumps(undisturbed.get_state())


@pytest.mark.parametrize("measured", [False, True])
def test_counts_after_a_resume_are_those_of_an_uninterrupted_run(measured: bool) -> None:
    def keep(item: int) -> int:
        if item % 5 == 0:
            raise ValueError(item)
        return item

    one = rs.range(20).map(keep, on_error="skip")
    for pipeline in (
        rs.mix({"a": one, "b": rs.range(30)}).repeat(2).batch(3),
        rs.mix({"a": one, "b": rs.range(30)}).map(str, workers=2).prefetch(3),
        rs.mix({"a": one, "b": rs.range(30)}).shuffle(seed=0, window=5).shard(1, 2),
    ):
        with iter(pipeline) as whole:
            states, found = [whole.get_state()], [whole.stats()]
            for _ in whole:
                states.append(whole.get_state())
                found.append(whole.stats())
        for cut in range(0, len(states), 3):
            with pipeline.resume(states[cut]) as iterator:
                if measured:
                    iterator.measure()
                for stats in found[cut:]:
                    now = iterator.stats()
                    for name in ("steps", "inputs", "skipped"):
                        assert now[name] == stats[name], (name, cut)
                    assert now["items"] == stats["items"] - cut
                    next(iterator, None)


def test_an_iterator_can_begin_to_measure_at_any_item() -> None:
    for begin in range(8):
        iterator = iter(rs.range(7).map(unchanged))
        items = list(itertools.islice(iterator, begin))
        iterator.measure()
        iterator.measure()
        assert [*items, *iterator] == list(range(7))
        assert list(iterator) == []


# What is raised in a finalizer goes no further.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.usefixtures("few_readings")
@pytest.mark.parametrize("size", [0, 3])
def test_an_interrupt_costs_no_item_and_what_follows_it_is_no_waiting(size: int) -> None:
    expected = list(range(40))
    for interrupt in some_interrupters(size):
        clock = Clock()
        iterator = iter(rs.range(40).map(unchanged))
        iterator.measure(clock)
        items: list[int] = []
        interrupt(partial(take_all, iterator, items, size))
        assert iterator.step == len(items)
        clock.now += 1.0
        assert items + list(iterator) == expected
        stats = iterator.stats()
        assert (stats["items"], stats.get("wait_seconds", 0.0)) == (40, 0.0)


def test_measuring_is_refused_where_it_cannot_begin() -> None:
    iterator = iter(rs.range(3).map(lambda item: iterator.measure() or item))
    with pytest.raises(rs.InvalidArgument, match="is computing an item"):
        next(iterator)
    with pytest.raises(rs.InvalidType, match="clock must be callable"):
        iter(rs.range(3)).measure(clock=1)  # type: ignore[arg-type]
