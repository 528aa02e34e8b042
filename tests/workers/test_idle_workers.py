"""Workers of a repeated pipeline: the same ones in every pass, and none after the last."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from typing import Any

import pytest
from support.clocks import Clock
from support.command import run_python
from support.graphs import stream
from support.waiting import wait_until

import resumable as rs
from resumable.core.graph import without_threads
from resumable.workers.idle_workers import IdleWorkers
from resumable.workers.threads import PATIENCE
from resumable.workers.workers import ThreadWorkers, WorkerCall, Workers

Change = Callable[[rs.Pipeline[int]], rs.Pipeline[Any]]

PIPELINES: dict[str, tuple[Change, int]] = {
    "repeated": (lambda one: one.map(abs, workers=2).repeat(4), 1),
    "of a stream": (lambda one: one.filter(bool).map(abs, workers=2).repeat(4), 1),
    "random": (lambda one: one.random_map(max_of, seed=1, workers=2).repeat(3), 1),
    "behind other stages": (
        lambda one: one.map(abs, workers=2).filter(bool).batch(4, drop_last=True).repeat(4),
        1,
    ),
    "left early": (lambda one: one.map(abs, workers=2).take(5).repeat(4), 1),
    "dropping": (lambda one: one.map(abs, workers=2, on_error="skip").repeat(4), 1),
    "behind a prefetch": (lambda one: one.map(abs, workers=2).prefetch(3).repeat(4), 1),
    "repeated twice": (lambda one: one.map(abs, workers=2).repeat(2).repeat(3), 1),
    "two maps": (lambda one: one.map(abs, workers=2).map(bool, workers=1).repeat(3), 2),
    "one map twice": (lambda one: twice(one.map(abs, workers=1)).repeat(3), 2),
    "inside a larger one": (lambda one: one.map(abs, workers=2).repeat(2).batch(7).take(6), 1),
}


def max_of(item: int, rng: Any) -> int:
    return max(item, int(rng.integers(30)))


def twice(pipeline: rs.Pipeline[int]) -> rs.Pipeline[int]:
    return rs.interleave(pipeline, pipeline)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Workers]:
    """All threads that maps use, in order."""
    found: list[Workers] = []

    class Known(ThreadWorkers):
        closed = False

        def close(self, seconds: float = PATIENCE) -> bool:
            self.closed = True
            return super().close(seconds)

    def make(call: WorkerCall, window: int) -> Workers:
        found.append(Known(call))
        return found[-1]

    monkeypatch.setattr("resumable.workers.idle_workers.make_workers", make)
    return found


def closed(made: list[Any]) -> list[bool]:
    return [workers.closed for workers in made]


@pytest.mark.parametrize("name", PIPELINES)
def test_all_passes_have_the_same_workers(name: str, made: list[Workers]) -> None:
    change, count = PIPELINES[name]
    pipeline = change(rs.range(20))
    without = [repr(item) for item in rs.Pipeline(without_threads(pipeline.stage))]
    with iter(pipeline) as iterator:
        assert [repr(item) for item in iterator] == without
        assert len(made) == count
        if name not in ("left early", "inside a larger one"):
            assert closed(made) == [True] * count, "at exhaustion"
    assert closed(made) == [True] * count


@pytest.mark.parametrize("name", PIPELINES)
def test_a_resume_in_any_pass_is_exact_over_kept_workers(name: str, made: list[Workers]) -> None:
    pipeline = PIPELINES[name][0](rs.range(9))
    expected, states = [], []
    with iter(rs.Pipeline(without_threads(pipeline.stage))) as iterator:
        states.append(rs.dumps(iterator.get_state()))
        for item in iterator:
            expected.append(repr(item))
            states.append(rs.dumps(iterator.get_state()))
    with iter(pipeline) as iterator:
        for position in range(len(expected)):
            assert rs.dumps(iterator.get_state()) == states[position]
            assert repr(next(iterator)) == expected[position]
        for position in range(0, len(expected), 4):
            iterator.set_state(rs.loads(states[position]))
            assert [repr(item) for item in islice(iterator, 12)] == expected[position:][:12]
    assert closed(made) == [True] * len(made)


def test_workers_end_when_a_loop_is_left_in_any_pass(made: list[Workers]) -> None:
    pipeline = rs.range(10).map(abs, workers=2).repeat(None)
    before = threading.active_count()
    for steps in (3, 10, 11, 35):
        iterator = iter(pipeline)
        for number, _ in enumerate(iterator):
            if number == steps:
                break
        iterator.close()
        assert closed(made) == [True]
        made.clear()
        iterator = iter(pipeline)
        list(islice(iterator, steps))
        del iterator
        made.clear()
        gc.collect()
        wait_until(lambda: threading.active_count() == before)


def test_workers_that_have_much_to_do_are_not_waited_for(made: list[Workers]) -> None:
    go_on = threading.Event()

    def slow(item: int) -> int:
        if item >= 3:
            go_on.wait(60)
        return item

    def go_on_when_they_are_closed() -> None:
        wait_until(lambda: closed(made)[0])
        go_on.set()

    with iter(rs.range(10).map(slow, workers=3).take(3).repeat(2)) as iterator:
        assert list(islice(iterator, 3)) == [0, 1, 2]
        late = threading.Thread(target=go_on_when_they_are_closed)
        late.start()
        assert list(iterator) == [0, 1, 2]
        late.join()
    assert len(made) == 2
    assert closed(made) == [True, True]


def test_an_error_in_a_later_pass_comes_at_its_item(made: list[Workers]) -> None:
    calls = 0

    def fn(item: int) -> int:
        nonlocal calls
        calls += item == 4
        if item == 4 and calls == 2:
            raise OSError("in the second pass")
        return item

    got: list[int] = []
    with iter(stream(6).map(fn, workers=2).repeat(4)) as iterator:
        with pytest.raises(OSError, match="in the second pass"):
            got.extend(iterator)
        assert len(got) == 10
        got.extend(iterator)
    assert got == list(range(6)) * 4


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The processes that pools start, in order."""
    pytest.importorskip("loky", reason="loky is not installed")
    from loky.backend.process import LokyProcess

    found: list[Any] = []
    start = LokyProcess.start

    def note(process: Any) -> None:
        start(process)
        found.append(process)

    monkeypatch.setattr(LokyProcess, "start", note)
    return found


def numbered(item: int) -> tuple[int, int]:
    return item, os.getpid()


def test_processes_start_once_for_all_epochs(started: list[Any]) -> None:
    pipeline = rs.range(40).map(numbered, workers=2, executor="process").repeat(4)
    got = list(pipeline)
    assert [item for item, _ in got] == list(range(40)) * 4
    assert len(started) == 2
    assert {pid for _, pid in got} <= {process.pid for process in started}
    assert not any(process.is_alive() for process in started), "at exhaustion"


@pytest.mark.parametrize("end", ["close", "break", "drop"])
def test_processes_end_with_the_iterator_over_all_epochs(started: list[Any], end: str) -> None:
    iterator = iter(rs.range(40).map(abs, workers=2, executor="process").repeat(None))
    list(islice(iterator, 90))
    assert len(started) == 2
    if end == "break":
        for _ in iterator:
            break
    if end != "drop":
        iterator.close()
        assert not any(process.is_alive() for process in started)
    del iterator
    gc.collect()
    wait_until(lambda: not any(process.is_alive() for process in started))


def kill_one(started: list[Any]) -> None:
    """Kill the youngest process that lives; some may have ended since with one killed before."""
    for process in reversed(started):
        if process.is_alive():
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
            return


@pytest.mark.skipif(sys.platform == "win32", reason="kills by a signal")
def test_workers_killed_between_two_passes_lose_and_repeat_nothing(started: list[Any]) -> None:
    with iter(stream(30).map(abs, workers=2, executor="process").repeat(4)) as iterator:
        got = list(islice(iterator, 30))  # all of a pass; nothing of the next
        kill_one(started)
        got += islice(iterator, 29)
        kill_one(started)
        got += islice(iterator, 2)  # across the border
        kill_one(started)
        states = [iterator.get_state()]
        got += iterator
    assert got == list(range(30)) * 4
    with stream(30).map(abs).repeat(4).resume(states[0]) as iterator:
        assert list(iterator) == got[61:]


def test_the_interpreter_ends_after_a_loop_that_was_left_between_two_passes() -> None:
    pytest.importorskip("loky", reason="loky is not installed")
    done = run_python(
        "-W",
        "error",
        "-c",
        "import resumable as rs\n"
        "from itertools import islice\n"
        "it = iter(rs.range(9).map(lambda i: i, workers=2, executor='process').repeat())\n"
        "print(sum(islice(it, 18)))\n",
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "72\n", "")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Of the workers' closing."""
    clock = Clock()
    monkeypatch.setattr("resumable.workers.workers.monotonic", clock, raising=False)
    return clock


class Busy(ThreadWorkers):
    """Threads for which whoever closes them waits in vain, as long as he likes."""

    def __init__(self, clock: Clock, fn: Callable[[Any], Any] = abs) -> None:
        super().__init__(WorkerCall(fn, False, 1, "thread"))
        self.stopped = False
        self._clock = clock

    def stop(self) -> None:
        self.stopped = True
        super().stop()

    def close(self, seconds: float = PATIENCE) -> bool:
        self._clock.now += max(seconds, 0)
        super().close(60)
        return False


def test_kept_workers_end_at_once_and_are_waited_for_together(clock: Clock) -> None:
    idle, stage = IdleWorkers(), rs.range(3).stage
    several = [Busy(clock) for _ in range(4)]
    for workers in several:
        idle.put(stage, workers)
    idle.close()
    assert clock.now == PATIENCE
    assert all(workers.stopped for workers in several)


def test_workers_of_partitions_end_at_once_and_are_waited_for_together(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    several: list[Busy] = []

    def make(call: WorkerCall, window: int) -> Workers:
        several.append(Busy(clock, call.fn))
        return several[-1]

    monkeypatch.setattr("resumable.workers.idle_workers.make_workers", make)
    iterator = iter(rs.range(40).partition(4, lambda part: part.map(abs), workers=4))
    assert next(iterator) == 0
    with pytest.warns(RuntimeWarning, match="are still busy after 10 s"):
        iterator.close()
    assert clock.now == PATIENCE
    assert len(several) == 4
    assert all(workers.stopped for workers in several)
