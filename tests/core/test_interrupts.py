"""An interrupt at any moment, caught and gone on from, changes nothing."""

from __future__ import annotations

import gc
import itertools
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from campaigns.interrupts import campaign
from support.graphs import stream
from support.interrupting import interrupters, some_interrupters
from support.waiting import wait_until, waits_in

import resumable as rs
from resumable.checkpoint.envelope import decode

# What is raised in a finalizer goes no further.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

NUMBERS = rs.range(7).shuffle(1)
PIPELINES: dict[str, rs.Pipeline[Any]] = {
    "items": NUMBERS.map(abs).filter(lambda number: number % 4),
    "batches": NUMBERS.map(abs).batch(2).map(tuple),
    "window": stream(7).shuffle(1, window=3).flat_map(lambda number: [number, -number]),
    "prefetch": NUMBERS.map(abs).prefetch(2),
    "threads": NUMBERS.map(abs, workers=2),
    "partitions": NUMBERS.partition(2, lambda part: part.filter(lambda number: number % 4)),
    "partitions in threads": NUMBERS.partition(2, lambda part: part.map(abs), workers=1),
}


def take_all(items: Iterator[Any], seen: list[Any]) -> None:
    for item in items:
        seen.append(item)


@pytest.fixture(
    params=[
        pytest.param(name, marks=pytest.mark.deep) if name == "partitions in threads" else name
        for name in PIPELINES
    ]
)
def pipeline(request: pytest.FixtureRequest) -> rs.Pipeline[Any]:
    return PIPELINES[request.param]


def test_wherever_a_pass_is_interrupted_no_item_is_lost_or_repeated(
    pipeline: rs.Pipeline[Any], request: pytest.FixtureRequest
) -> None:
    expected = list(pipeline)
    for interrupt in some_interrupters(request.node.name):
        iterator = iter(pipeline)
        seen: list[Any] = []
        interrupt(partial(take_all, iterator, seen))
        assert iterator.step == len(seen)
        state = iterator.get_state()
        assert state["step"] == len(seen)
        take_all(iterator, seen)
        assert seen == expected
        assert list(pipeline.resume(state)) == expected[state["step"] :]
        iterator.close()


def test_wherever_what_is_read_once_is_interrupted_no_item_is_lost_in_silence() -> None:
    went_on = 0
    for interrupt in interrupters():
        iterator = iter(rs.from_iterable(iter(range(7)), external_state_policy="ignore"))
        seen: list[Any] = []
        interrupt(partial(take_all, iterator, seen))
        assert seen == list(range(iterator.step))
        try:
            take_all(iterator, seen)
        except rs.ExternalStateError:  # an item was taken that had not come to the loop
            continue
        assert seen == list(range(7))
        went_on += 1
    assert went_on


def test_wherever_a_restore_is_interrupted_the_iterator_is_at_one_of_both_places(
    pipeline: rs.Pipeline[Any],
) -> None:
    expected = list(pipeline)
    with iter(pipeline) as iterator:
        take_all(itertools.islice(iterator, 4), [])
        state = iterator.get_state()
    for interrupt in interrupters():
        iterator = iter(pipeline)
        take_all(itertools.islice(iterator, 2), [])
        interrupted = interrupt(partial(iterator.set_state, state))
        step = iterator.step
        assert step in ((2, 4) if interrupted else (4,))
        assert iterator.get_state()["step"] == step
        assert list(iterator) == expected[step:]
        iterator.close()


def test_wherever_a_close_is_interrupted_the_next_one_ends_all(pipeline: rs.Pipeline[Any]) -> None:
    expected = list(pipeline)
    for interrupt in interrupters():
        iterator = iter(pipeline)
        take_all(itertools.islice(iterator, 2), [])
        interrupt(iterator.close)
        state = iterator.get_state()
        iterator.close()
        assert list(pipeline.resume(state)) == expected[2:]
    wait_until(lambda: not threads())


def test_wherever_a_started_pass_is_dropped_its_threads_end(
    pipeline: rs.Pipeline[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of what is raised while a generator is dropped pytest keeps the traceback, and so the pass.
    monkeypatch.setattr(sys, "unraisablehook", lambda raised: None)
    for interrupt in interrupters():
        interrupt(lambda: take_all(itertools.islice(iter(pipeline), 2), []))

    def are_gone() -> bool:
        gc.collect()  # again: a thread that asks whether it is still needed holds a pass for a moment
        return not threads()

    wait_until(are_gone)


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("name", ["items", pytest.param("prefetch", marks=pytest.mark.deep)])
def test_wherever_a_saving_loop_is_interrupted_nothing_is_torn(
    name: str, asynchronous: bool
) -> None:
    pipeline = PIPELINES[name]
    expected = list(pipeline)
    for interrupt in some_interrupters((name, asynchronous)):
        store, seen, told = rs.Memory(), list[Any](), list[tuple[str, int]]()
        checkpointer = rs.Checkpointer(
            store, rs.EverySteps(2), asynchronous=asynchronous, listeners=[Told(told)]
        )
        loop = checkpointer.resume(pipeline)
        interrupt(partial(take_all, loop, seen))
        assert checkpointer.step == len(seen)
        take_all(loop, seen)
        assert seen == expected
        with checkpointer:
            pass
        steps = [*range(2, len(expected), 2), len(expected)]
        assert store.steps() == steps
        for step in steps:
            found = list(pipeline.resume(decode(store.load(step)).state))
            assert found == expected[step:]
        # What an interrupt cuts short is told again.
        assert [*dict.fromkeys(step for event, step in told if event == "after")] == steps
        assert len(told) <= 2 * len(steps) + 3
        assert {("begin", 0), ("end", len(expected))} <= {*told}


def test_wherever_a_save_beside_the_loop_is_interrupted_it_is_written_as_the_loop_goes_on() -> None:
    pipeline = PIPELINES["items"]
    for interrupt in interrupters():
        store, seen = rs.Memory(), list[Any]()
        with rs.Checkpointer(
            store, rs.EverySteps(3), asynchronous=True, save_at_end=False
        ) as checkpointer:
            loop = checkpointer.resume(pipeline)
            for _ in range(2):
                interrupt(partial(take_all, itertools.islice(loop, 4 - len(seen)), seen))
            wait_until(lambda: store.steps() == [3] or checkpointer.step < 4)  # noqa: B023
            next(loop)
            wait_until(lambda: store.steps() == [3])  # noqa: B023


@pytest.mark.parametrize("asynchronous", [False, True])
def test_wherever_the_end_of_a_loop_is_interrupted_it_ends(asynchronous: bool) -> None:
    pipeline = PIPELINES["items"]
    expected = list(pipeline)

    def run(store: rs.Store) -> None:
        with rs.Checkpointer(store, rs.EverySteps(2), asynchronous=asynchronous) as checkpointer:
            for _ in checkpointer.resume(pipeline):
                pass

    for interrupt in some_interrupters(asynchronous):
        store = rs.Memory()
        interrupt(partial(run, store))
        steps = store.steps()
        assert steps == [*range(2, len(expected), 2), len(expected)][: len(steps)]
    gc.collect()
    wait_until(lambda: not threads())


class Told(rs.CheckpointListener):
    """Notes what it is told, in one call of a built-in."""

    def __init__(self, log: list[Any]) -> None:
        self._log = log

    def begin(self) -> None:
        self._log.append(("begin", 0))

    def end(self, step: int) -> None:
        self._log.append(("end", step))

    def before_save(self, step: int) -> None:
        self._log.append(("before", step))

    def after_save(self, step: int, path: str) -> None:
        self._log.append(("after", step))


def threads() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name.startswith("resumable")]


def test_a_second_thread_gets_an_error_and_no_item() -> None:
    inside, go_on = threading.Event(), threading.Event()

    def wait(item: int) -> int:
        if item == 3:
            inside.set()
            go_on.wait(60)
        return item

    iterator = iter(rs.range(6).map(wait))
    seen: list[int] = []
    thread = threading.Thread(target=take_all, args=(iterator, seen))
    thread.start()
    inside.wait(60)
    calls: list[Callable[[], Any]] = [
        lambda: next(iterator),
        lambda: iterator.pull(2),
        lambda: iterator.skip(2),
        iterator.get_state,
        lambda: iterator.state_after(1),
        lambda: iterator.set_state(start),
    ]
    with iter(rs.range(6).map(abs)) as another:
        start = another.get_state()
    try:
        for call in calls:
            with pytest.raises(rs.InvalidArgument, match="belongs to one thread at a time"):
                call()
    finally:
        go_on.set()
        thread.join()
    assert seen == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("use", ["next", "get_state"])
def test_a_function_of_the_pipeline_cannot_use_its_iterator(use: str) -> None:
    def enter(item: int) -> int:
        if item == 2:
            {"next": iterator.__next__, "get_state": iterator.get_state}[use]()
        return item

    iterator = iter(rs.range(6).map(enter))
    assert [next(iterator), next(iterator)] == [0, 1]
    with pytest.raises(rs.InvalidArgument, match="the iterator is computing an item"):
        next(iterator)
    assert iterator.get_state()["step"] == 2


def test_a_save_from_another_thread_is_refused() -> None:
    errors: list[BaseException] = []

    def save() -> None:
        try:
            checkpointer.save()
        except rs.InvalidArgument as error:
            errors.append(error)

    with rs.Checkpointer(rs.Memory(), rs.AtEnd()) as checkpointer:
        for _ in checkpointer.resume(NUMBERS):
            thread = threading.Thread(target=save)
            thread.start()
            thread.join()
    assert len(errors) == 7
    assert "from the thread that runs the loop" in str(errors[0])


def test_closing_from_another_thread_ends_a_wait() -> None:
    go_on = threading.Event()
    iterator = iter(rs.range(6).map(lambda item: go_on.wait(60) or item).prefetch(2))

    def close() -> None:
        wait_until(lambda: waits_in(loop, "get"))
        go_on.set()
        iterator.close()

    loop = threading.current_thread()
    thread = threading.Thread(target=close)
    thread.start()
    with pytest.raises((rs.WorkerError, rs.IteratorClosed)):
        take_all(iterator, [])
    thread.join()


@pytest.mark.deep
def test_a_short_campaign_of_interrupts_finds_nothing() -> None:
    report = campaign(3_000, 1, ["plain", "stream", "thread", "set_state", "loop"])
    assert report.interrupts.total() >= 500
    assert not report.faults, str(report)
