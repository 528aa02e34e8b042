"""What a measurement says, on a clock that only the functions of the pipelines move."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.clocks import Clock
from support.graphs import RunningSum
from support.waiting import wait_until, waits_in

import resumable as rs
from resumable.bench import BenchReport, measure, percent
from resumable.bench.report import AROUND
from resumable.bench.runs import Clocks
from resumable.testing import pipelines
from resumable.verify import CannotRun


class WorkClock(Clock):
    """Seconds that pass only where something takes them."""

    def takes(
        self, seconds: float, fn: Callable[..., Any] = lambda item: item
    ) -> Callable[..., Any]:
        """``fn``, and it takes so long."""

        def slow(*arguments: Any) -> Any:
            self.now += seconds
            return fn(*arguments)

        return slow

    def source(self, seconds: float, count: int) -> Callable[[], Iterator[int]]:
        """A function that makes a stream whose items take so long."""

        def generate() -> Iterator[int]:
            for number in range(count):
                self.now += seconds
                yield number

        return generate

    def sequence(self, seconds: float, count: int) -> Any:
        """A sequence whose items take so long."""
        clock = self

        class Slow:
            def __len__(self) -> int:
                return count

            def __getitem__(self, index: int) -> int:
                clock.now += seconds
                return index

        return Slow()


def measured(clock: WorkClock, pipeline: rs.Pipeline[Any], **options: Any) -> BenchReport:
    options = {"seconds": 1e9, **options}
    return measure(pipeline, clocks=Clocks(clock, lambda: 0.0), **options)


def seconds(report: BenchReport) -> dict[str, float]:
    """The work for an item, by the names of the stages that take any."""
    return {
        stage.stage.partition("(")[0]: stage.seconds for stage in report.stages if stage.seconds
    }


def streams(clock: WorkClock) -> rs.Pipeline[Any]:
    read = rs.from_iterable(clock.source(1, 40))
    return read.map(clock.takes(2)).filter(clock.takes(4, lambda item: item % 2)).map(lambda x: x)


def batches(clock: WorkClock) -> rs.Pipeline[Any]:
    read = rs.from_sequence(clock.sequence(1, 40)).shuffle(0).map(clock.takes(2))
    return read.batch(4, collate=clock.takes(8, list))


def single_items(clock: WorkClock) -> rs.Pipeline[Any]:
    return rs.from_sequence(clock.sequence(1, 40)).shuffle(0).shard(1, 2).map(clock.takes(2))


def epochs(clock: WorkClock) -> rs.Pipeline[Any]:
    return rs.range(5).random_map(clock.takes(2, lambda item, rng: item), 0).repeat(4).batch(5)


def two_sources(clock: WorkClock) -> rs.Pipeline[Any]:
    left = rs.from_iterable(clock.source(1, 20)).map(clock.takes(2))
    return rs.zip(left, rs.from_sequence(clock.sequence(4, 20)))


def turns(clock: WorkClock) -> rs.Pipeline[Any]:
    left = rs.from_iterable(clock.source(1, 20))
    return rs.interleave(left, rs.from_sequence(clock.sequence(4, 20))).batch(2)


def mixed(clock: WorkClock) -> rs.Pipeline[Any]:
    left, right = rs.range(20).map(clock.takes(3)), rs.from_sequence(clock.sequence(1, 20))
    return rs.mix(left, right, weights=[1, 1]).batch(2)


def expanded(clock: WorkClock) -> rs.Pipeline[Any]:
    return rs.range(20).flat_map(clock.takes(6, lambda item: [item] * 3)).batch(3)


def accumulated(clock: WorkClock) -> rs.Pipeline[Any]:
    return rs.range(20).scan(clock.takes(5, lambda carry, item: (carry, item)), 0).skip(1).take(9)


def workers(clock: WorkClock) -> rs.Pipeline[Any]:
    """The workers are done before the loop waits, so only the source takes time."""
    return rs.from_iterable(clock.source(1, 20)).map(abs, workers=1).batch(2).take(8)


KNOWN: dict[Callable[[WorkClock], rs.Pipeline[Any]], dict[str, Any]] = {
    streams: {"FromIterable": 2, "Map": 4, "Filter": 8},
    batches: {"FromSequence": 4, "Map": 8, "Batch": 8},
    single_items: {"FromSequence": 1, "Map": 2},
    epochs: {"RandomMap": 10},
    two_sources: {"FromIterable": 1, "Map": 2, "FromSequence": 4},
    turns: {"FromIterable": 1, "FromSequence": 4},
    mixed: {"Map": 3, "FromSequence": 1},
    expanded: {"FlatMap": 6},
    accumulated: {"Scan": 5},
    # Of 16 items, two were in the window already when the first batch came.
    workers: {"FromIterable": pytest.approx(2, rel=0.2)},
}


@pytest.mark.parametrize("build", KNOWN)
def test_the_known_costs_of_the_stages_are_found_exactly(
    build: Callable[[WorkClock], rs.Pipeline[Any]],
) -> None:
    clock = WorkClock()
    report = measured(clock, build(clock))
    expected = KNOWN[build]
    found = seconds(report)
    if build is streams:  # the first map and the last have one name
        found["Map"] = next(s.seconds for s in report.stages if s.path.count("upstream") == 2)
    assert found == expected
    total = sum(found.values())
    for stage in report.stages:
        assert stage.share == pytest.approx(stage.seconds / total)
        assert stage.beside == 0
    assert report.seconds / report.items == pytest.approx(total)
    assert report.slowdown == 1
    assert report.bottleneck is not None
    slowest = report.stages[report.bottleneck]
    assert slowest.seconds == max(found.values())
    assert slowest.path in report.advice


def test_beneath_a_prefetch_the_stage_at_work_is_the_bottleneck() -> None:
    clock, loop = WorkClock(), threading.current_thread()

    def slow(item: int) -> int:
        if threading.current_thread() is not loop:
            wait_until(lambda: waits_in(loop, "get", "wait"))
        clock.now += 3
        return item

    report = measured(clock, rs.range(20).map(slow).prefetch(2), items=10)
    prefetch, mapped, source, around = report.stages
    assert report.bottleneck == 1
    assert (prefetch.share, source.share) == (0, 0)
    assert mapped.share + around.share == pytest.approx(1)
    assert mapped.beside == 1
    assert prefetch.seconds == 0  # it only waits
    assert "Map(fn=" in report.advice


def test_a_prefetch_of_nothing_slow_is_named_itself() -> None:
    report = measure(rs.range(1000).prefetch(2), seconds=60)
    assert sum(stage.share for stage in report.stages) == pytest.approx(1)
    assert report.stages[1].beside > 0


@pytest.mark.deep
@given(pipelines())
def test_the_shares_are_all_of_the_time(pipeline: rs.Pipeline[Any]) -> None:
    report = measure(pipeline, seconds=0.02, items=30)
    shares = [stage.share for stage in report.stages]
    assert bool(shares) == bool(report.items)
    assert not shares or sum(shares) == pytest.approx(1)
    assert min(shares, default=0) >= 0
    assert not shares or sum(percent(shares)) == 100
    assert report.saving is not None, report.notes


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=9))
def test_whole_percent_add_up(parts: list[float]) -> None:
    total = sum(parts)
    shares = [part / total if total else 0.0 for part in parts]
    rounded = percent(shares)
    assert sum(rounded) == (100 if total else 0)
    assert all(abs(whole - 100 * share) < 1 for whole, share in zip(rounded, shares, strict=True))


def test_an_endless_pipeline_is_run_for_some_seconds() -> None:
    clock = WorkClock()
    report = measured(clock, rs.range(3).repeat().map(clock.takes(1)), seconds=20)
    assert not report.complete
    assert report.items == 20
    assert report.first_seconds == 1
    assert report.items_per_second == 1
    assert report.saving is not None
    assert report.saving.position == 21 // 2


def test_at_most_so_many_items_are_run() -> None:
    clock = WorkClock()
    calls: list[int] = []
    pipeline = rs.range(100).map(clock.takes(1, calls.append))
    report = measured(clock, pipeline, items=7)
    assert (report.items, report.complete) == (6, False)
    assert max(calls) == 6


def test_the_first_item_is_apart() -> None:
    """It fills the window: that is no speed."""
    clock = WorkClock()
    report = measured(clock, rs.from_iterable(clock.source(1, 60)).shuffle(0, window=20), items=30)
    assert report.first_seconds == 20
    assert report.seconds == report.items == 29


def test_a_pipeline_of_one_item_is_timed_by_it() -> None:
    clock = WorkClock()
    report = measured(clock, rs.range(1).map(clock.takes(2)))
    assert (report.items, report.seconds, report.first_seconds) == (1, 2, 2)
    assert report.complete
    assert seconds(report) == {"Map": 2}


def test_a_pipeline_without_items_says_so() -> None:
    report = measured(WorkClock(), rs.range(9).filter(lambda item: False))
    assert (report.items, report.items_per_second, report.first_seconds) == (0, None, None)
    assert report.stages == ()
    assert report.advice == "The pipeline delivers no item."
    assert report.saving is not None
    assert report.saving.position == 0


def test_where_no_time_passes_there_is_no_bottleneck() -> None:
    report = measured(WorkClock(), rs.range(9))
    assert report.bottleneck is None
    assert report.advice == ""
    assert report.items_per_second is None


def test_a_source_that_can_be_read_once_is_read_once() -> None:
    clock = WorkClock()
    report = measured(clock, rs.from_iterable(clock.source(2, 9)()).map(clock.takes(1)))
    assert report.complete
    assert (report.items, report.seconds) == (8, 24)
    assert seconds(report) == {"FromIterable": 2, "Map": 1}
    assert report.saving is None
    assert report.slowdown is None
    assert any("read once" in note for note in report.notes)


def test_a_function_with_state_begins_each_pass_as_it_was() -> None:
    seen: list[list[int]] = []

    class Noting(RunningSum):
        def __call__(self, item: int) -> int:
            if not item:
                seen.append([])
            result = super().__call__(item)
            seen[-1].append(result)
            return result

    report = measure(rs.range(6).map(Noting()), seconds=9, items=6)
    assert len(seen) >= 3
    assert all([0, 1, 3, 6, 10, 15][: len(sums)] == sums for sums in seen[:3])
    assert report.saving is not None


def test_partitions_that_processes_run_are_timed_by_the_loop() -> None:
    numbers = rs.range(12).partition(3, lambda part: part.map(abs), workers=1, executor="process")
    report = measure(numbers, seconds=9, clocks=Clocks(Clock(), Clock()))
    assert (report.complete, report.items, report.slowdown) == (True, 11, None)
    (note,) = report.notes
    assert "Partition(count=3, workers=1, executor='process') were timed in this process" in note
    assert report.stages[1].stage == "Map(fn=abs)"
    assert report.saving is not None


def test_a_state_that_cannot_be_saved_is_a_note() -> None:
    pipeline = rs.from_iterable(lambda: iter([object()] * 9)).shuffle(0, window=3, carry=True)
    report = measure(pipeline, seconds=9)
    assert report.saving is None
    assert "no state could be saved: UnencodableState" in report.notes[0]
    assert {stage.bytes for stage in report.stages} == {None}


def test_what_a_resume_reads_again_is_counted() -> None:
    stream = rs.from_iterable(lambda: iter(range(100)))
    for pipeline, reread in (
        (rs.range(100).map(abs).prefetch(2), 0),
        (stream, 50),
        (stream.batch(10), 50),
        (rs.range(100).shuffle(0, window=10), 10 - 1),
        (stream.shuffle(0, window=10), 60 - 1),
        # In each of four partitions, at the first turn of each.
        (rs.range(100).partition(4, lambda part: part.shuffle(0, window=10)), 4 * (10 - 1)),
    ):
        report = measure(pipeline, seconds=9)
        assert report.saving is not None
        assert report.saving.reread == reread


def test_saving_is_timed() -> None:
    clock = WorkClock()

    class Slow(RunningSum):
        def get_state(self) -> dict[str, int]:
            clock.now += 1
            return super().get_state()

    report = measured(clock, rs.range(9).map(Slow()))
    assert report.saving is not None
    assert report.saving.get_state_seconds == 1
    assert report.saving.save_seconds >= 1
    assert report.saving.resume_seconds >= 1


@pytest.mark.parametrize("depth", [0, 2])
@pytest.mark.parametrize("error", [ZeroDivisionError("by zero"), SystemExit(3), StopIteration()])
def test_a_pipeline_that_fails_cannot_be_measured(error: BaseException, depth: int) -> None:
    def fails(item: int) -> int:
        if item == 5:
            raise error
        return item

    with pytest.raises(CannotRun, match="the pipeline fails at item 5: "):
        measure(rs.range(9).map(fails).prefetch(depth))


@pytest.mark.parametrize("items", [iter(range(10)), (item for item in range(10))])
def test_a_pipeline_that_turns_out_to_be_read_once_is_told(items: Iterator[int]) -> None:
    with pytest.raises(CannotRun, match=r"run again: its source can|returned the iterator of an"):
        measure(rs.from_iterable(lambda: items))


class Hiding(rs.Transform[Any]):
    """A stage that cannot be put over another one."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.upstream, type(rs.range(1).stage)):
            raise TypeError("only over a range")

    def start(self, epoch: int = 0) -> rs.StageIterator[Any]:
        return self.upstream.start(epoch)


def test_a_pipeline_that_cannot_be_taken_apart_is_timed_as_a_whole() -> None:
    report = measure(rs.range(9).apply(Hiding), seconds=9)
    assert report.items == 8
    assert report.stages == ()
    assert report.notes[0].startswith("the stages could not be timed: Hiding cannot be copied")
    assert report.saving is not None


@pytest.mark.parametrize("options", [{"seconds": 0}, {"seconds": float("nan")}, {"items": 0}])
def test_bad_arguments_are_refused(options: Any) -> None:
    with pytest.raises(rs.InvalidArgument):
        measure(rs.range(3), **options)


ADVICE: dict[str, tuple[Callable[[WorkClock], rs.Pipeline[Any]], str]] = {
    "a function": (lambda clock: rs.range(9).map(clock.takes(1)), "map(fn, workers=n)."),
    "beneath a shuffle": (
        lambda clock: rs.range(9).map(clock.takes(1)).shuffle(0),
        "map(fn, workers=n), after Shuffle.",
    ),
    "a source": (lambda clock: rs.from_iterable(clock.source(1, 9)), "prefetch(n) reads ahead"),
    "collate": (lambda clock: rs.range(9).batch(2, collate=clock.takes(1, list)), "collate"),
    "a filter": (lambda clock: rs.range(9).filter(clock.takes(1, lambda x: True)), "a map with"),
    "a scan": (lambda clock: rs.range(9).scan(clock.takes(1, lambda c, x: (c, x)), 0), "the one"),
}


@pytest.mark.parametrize("name", ADVICE)
def test_the_advice_fits_the_bottleneck(name: str) -> None:
    build, hint = ADVICE[name]
    clock = WorkClock()
    assert hint in measured(clock, build(clock)).advice


def test_a_function_that_computes_is_given_to_processes() -> None:
    clock = WorkClock()
    pipeline = rs.range(9).map(clock.takes(1))
    report = measure(pipeline, seconds=1e9, clocks=Clocks(clock, clock))
    assert report.cpu_share == 1
    assert 'executor="process"' in report.advice


def test_a_loop_around_stages_that_cost_nothing_is_named() -> None:
    report = measure(rs.from_arrays(np.zeros(10)).repeat(), seconds=60, items=1000)
    assert report.stages[-1].stage == AROUND
    assert report.stages[-1].bytes is None
