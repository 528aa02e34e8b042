"""What a user's code may do at the wrong moment, and what the system may."""

from __future__ import annotations

import os
import pickle
import signal
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoint.saving_loops import run_loop
from checkpoint.wrapped import Wrapped

import resumable as rs
from resumable.checkpoint.reading import newest_valid

NUMBERS = rs.range(20)


class Told(rs.CheckpointListener):
    """A listener that notes, and calls a function for some of it."""

    def __init__(self, **calls: Callable[[], Any]) -> None:
        self.calls, self.log = calls, list[str]()

    def begin(self) -> None:
        self.calls.get("begin", lambda: None)()

    def before_save(self, step: int) -> None:
        self.log.append(f"before {step}")
        self.calls.get("before", lambda: None)()

    def after_save(self, step: int, path: str) -> Any:
        self.log.append(f"after {step}")
        return self.calls.get("after", lambda: None)()

    def end(self, step: int) -> None:
        self.log.append(f"end {step}")
        self.calls.get("end", lambda: None)()


run = partial(run_loop, NUMBERS)


def test_a_save_while_an_item_is_computed_is_refused() -> None:
    def save_at_9(item: int) -> int:
        if item == 9:
            checkpointer.save()
        return item

    store = rs.Memory()
    with rs.Checkpointer(store, rs.AtEnd(), save_at_end=False) as checkpointer:
        loop = checkpointer.resume(NUMBERS.map(save_at_9).batch(4))
        assert len([next(loop), next(loop)]) == 2
        with pytest.raises(rs.InvalidArgument, match="the iterator is computing an item"):
            next(loop)
        assert checkpointer.save() == "memory:2"
    with rs.Checkpointer(store, rs.AtEnd()) as checkpointer:
        assert next(checkpointer.resume(NUMBERS.map(abs).batch(4))).tolist() == [8, 9, 10, 11]


def test_a_listener_cannot_save_before_the_save_and_need_not_after_it() -> None:
    made: list[rs.Checkpointer] = []
    paths: list[str | None] = []
    for told, refused in (
        (Told(before=lambda: made[-1].save()), True),
        (Told(after=lambda: paths.append(made[-1].save())), False),
    ):
        made.append(rs.Checkpointer(rs.Memory(), rs.EverySteps(3), listeners=[told]))
        loop = made[-1].resume(NUMBERS)
        if refused:
            with pytest.raises(rs.InvalidArgument, match="a listener cannot save"):
                list(loop)
        else:
            assert list(loop) == list(NUMBERS)
        made[-1].close()
    assert set(paths) == {None}


@pytest.mark.parametrize("now", [1_700_000_000, np.float64(1.7e9), float("nan")])
def test_any_clock_of_the_calendar_gives_checkpoints_that_can_be_read(now: Any) -> None:
    store = rs.Memory()
    assert run(store, rs.EverySteps(5), wall_clock=lambda: now) == list(NUMBERS)
    with pytest.warns(RuntimeWarning, match="come to its end at step 20"):
        assert run(store, rs.EverySteps(5)) == []


def test_what_could_not_be_read_is_not_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resumable.checkpoint.envelope.LARGEST", 100)
    store = rs.Memory()
    with pytest.raises(rs.SaveError, match="at most 100 bytes"):
        run(store, rs.EverySteps(5))
    assert store.steps() == []


def test_a_relative_folder_stays_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere" / "run").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with rs.Checkpointer("run", rs.EverySteps(5)) as checkpointer:
        for item in checkpointer.resume(NUMBERS):
            if item == 7:
                monkeypatch.chdir(tmp_path / "elsewhere")
    assert rs.Directory(tmp_path / "run").steps() == [5, 10, 15, 20]


class Interrupted(Wrapped):
    """A store that interrupts the main thread while it removes for the first time."""

    interrupts = 1

    def remove(self, step: int) -> None:
        if self.interrupts:
            self.interrupts -= 1
            signal.raise_signal(signal.SIGINT)
        super().remove(step)


def test_an_interrupt_after_the_commit_does_not_block_the_loop() -> None:
    store, told, seen = Interrupted(), Told(), list[int]()
    with rs.Checkpointer(
        store, rs.EverySteps(5), retention=rs.Retention(1), listeners=[told]
    ) as checkpointer:
        loop = checkpointer.resume(NUMBERS)
        with pytest.raises(KeyboardInterrupt):
            seen.extend(loop)
        seen.extend(loop)
    assert checkpointer.step == 20
    assert store.steps() == [20]
    after = [event for event in told.log if event.startswith("after")]
    # The one that the interrupt came into is told a second time.
    assert list(dict.fromkeys(after)) == ["after 5", "after 10", "after 15", "after 20"]
    assert len(after) <= 5


@pytest.mark.parametrize("where", ["begin", "before", "after", "end"])
def test_a_stop_iteration_out_of_a_listener_is_no_end(where: str) -> None:
    def stop() -> None:
        raise StopIteration

    with pytest.raises(RuntimeError, match="raised StopIteration"):
        run(rs.Memory(), rs.EverySteps(5), listeners=[Told(**{where: stop})])


def test_a_stop_iteration_out_of_a_trigger_is_no_end() -> None:
    answers = iter([False] * 5)
    with pytest.raises(RuntimeError, match="raised StopIteration"):
        run(rs.Memory(), rs.When(lambda progress: next(answers)))


def test_a_listener_that_answers_by_a_numpy_bool_stops_the_loop() -> None:
    told = Told(after=lambda: np.float64(0.1) < 0.5)
    assert run(rs.Memory(), rs.EverySteps(5), listeners=[told]) == [0, 1, 2, 3, 4]
    with pytest.raises(rs.InvalidType, match="after_save must return a bool or None, got 'yes'"):
        run(rs.Memory(), rs.EverySteps(5), listeners=[Told(after=lambda: "yes")])


def test_listeners_may_come_from_a_generator() -> None:
    told = Told()
    run(rs.Memory(), rs.EverySteps(10), listeners=(one for one in [told]))
    assert told.log == ["before 10", "after 10", "before 20", "after 20", "end 20"]
    with pytest.raises(rs.InvalidType, match="listeners must be a list of listeners, got None"):
        rs.Checkpointer(rs.Memory(), rs.AtEnd(), listeners=None)  # type: ignore[arg-type]


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_a_save_that_a_listener_refused_goes_on_with_that_listener(
    error: type[BaseException],
) -> None:
    failures = [error("full")]

    def fail_once() -> None:
        if failures:
            raise failures.pop()

    told = [Told(), Told(before=fail_once), Told()]
    store = rs.Memory()
    with rs.Checkpointer(
        store, rs.EverySteps(2), listeners=told, save_at_end=False
    ) as checkpointer:
        loop = checkpointer.resume(rs.range(4))
        taken = [next(loop), next(loop)]
        with pytest.raises(error, match="full"):
            next(loop)
        assert store.steps() == []
        assert [one.log for one in told] == [["before 2"], ["before 2"], []]
        taken += loop
    assert taken == [0, 1, 2, 3]
    assert store.steps() == [2, 4]
    again = [[], ["before 2"], []]
    rest = ["before 2", "after 2", "before 4", "after 4", "end 4"]
    assert [one.log for one in told] == [more + rest for more in again]


def test_what_listeners_raise_at_the_close_does_not_hide_why_the_loop_ended() -> None:
    fails = threading.Event()

    class Slow(Wrapped):
        def save(self, step: int, data: bytes) -> str:
            assert fails.wait(60)
            return super().save(step, data)

    def consume() -> None:
        def fail() -> None:
            raise OSError("from the listener")

        with rs.Checkpointer(
            Slow(), rs.EverySteps(2), listeners=[Told(after=fail)], asynchronous=True
        ) as checkpointer:
            for item in checkpointer.resume(NUMBERS):
                if item == 2:
                    fails.set()
                    raise KeyError("the loop's own")

    with pytest.raises(KeyError, match="the loop's own"):  # though warnings are errors here
        consume()


def test_a_last_save_that_failed_is_tried_again() -> None:
    class Full(Wrapped):
        refusals = 2

        def save(self, step: int, data: bytes) -> str:
            if self.refusals:
                self.refusals -= 1
                raise OSError(28, "full")
            return super().save(step, data)

    store, told = Full(), Told()
    with rs.Checkpointer(store, rs.EverySteps(50), listeners=[told]) as checkpointer:
        loop = checkpointer.resume(NUMBERS)
        for _ in range(2):
            with pytest.raises(rs.SaveError, match="step 20 could not"):
                list(loop)
        assert list(loop) == []
    assert store.steps() == [20]
    assert told.log[-2:] == ["after 20", "end 20"]


def test_signals_after_the_end_of_the_loop_are_treated_as_before() -> None:
    received: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: received.append(number))
    try:
        handler = signal.getsignal(signal.SIGTERM)
        with rs.Checkpointer(rs.Memory(), rs.OnSignal(signal.SIGTERM)) as checkpointer:
            for _ in checkpointer.resume(NUMBERS):
                assert signal.getsignal(signal.SIGTERM) is not handler
            assert signal.getsignal(signal.SIGTERM) is handler
            os.kill(os.getpid(), signal.SIGTERM)
            assert checkpointer.signals == frozenset()
        assert received == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_what_a_handler_raised_comes_out_also_when_the_save_fails() -> None:
    def leave(number: int, frame: Any) -> None:
        raise SystemExit(143)

    class Full(Wrapped):
        def save(self, step: int, data: bytes) -> str:
            raise OSError(28, "full")

    def consume() -> None:
        with rs.Checkpointer(Full(), rs.OnSignal(signal.SIGTERM)) as checkpointer:
            for _ in checkpointer.resume(NUMBERS):
                os.kill(os.getpid(), signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        with pytest.raises(SystemExit):
            consume()
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_loop_closed_beneath_another_leaves_the_other_its_signals() -> None:
    trigger = rs.OnSignal(signal.SIGTERM)
    first, second = (rs.Checkpointer(rs.Memory(), trigger, stop_on_signal=True) for _ in range(2))
    first.resume(NUMBERS)
    loop = second.resume(NUMBERS)
    next(loop)
    first.close()
    os.kill(os.getpid(), signal.SIGTERM)  # which would end this process
    assert list(loop) == []
    assert second.steps() == [1]
    second.close()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def test_a_reader_beside_a_retention_never_says_none_yet() -> None:
    class Racing(Wrapped):
        def load(self, step: int) -> bytes:
            if step == 20 and 40 not in self.steps():
                self.inner.save(40, rs.Memory.load(source, 40))
                self.inner.remove(20)
            return super().load(step)

    source = rs.Memory()
    with rs.Checkpointer(source, rs.EverySteps(20)) as checkpointer:
        list(checkpointer.resume(rs.range(40)))
    racing = Racing()
    racing.inner.save(20, source.load(20))
    newest = newest_valid(racing)
    assert newest is not None
    assert newest.step == 40


def test_asking_for_the_latest_changes_nothing(tmp_path: Path) -> None:
    run(tmp_path, rs.EverySteps(10))
    (tmp_path / "input-000000000020.ckpt").write_bytes(b"junk")
    before = sorted(os.listdir(tmp_path))
    with pytest.warns(RuntimeWarning, match="step 20 is damaged.*passed over"):
        latest = rs.Checkpointer(tmp_path, rs.AtEnd()).latest()
    assert latest is not None
    assert latest.step == 10
    assert sorted(os.listdir(tmp_path)) == before


def test_a_damaged_one_that_cannot_be_set_aside_is_passed_over() -> None:
    class Fixed(Wrapped):
        def set_aside(self, step: int, reason: str) -> str:
            raise PermissionError("read-only")

    store = Fixed()
    run(store, rs.EverySteps(10))
    store.inner.remove(20)
    store.inner.save(20, b"junk")
    with pytest.warns(RuntimeWarning, match="could not be set aside .read-only."):
        assert newest_valid(store, set_aside=True).step == 10  # type: ignore[union-attr]


def test_one_file_that_cannot_be_removed_does_not_stop_the_retention() -> None:
    class Sticky(Wrapped):
        def remove(self, step: int) -> None:
            if step == 2:
                raise PermissionError("busy")
            super().remove(step)

    store = Sticky()
    with pytest.warns(RuntimeWarning, match="the checkpoint of step 2 could not be removed: busy"):
        run(store, rs.EverySteps(2), retention=rs.Retention(1))
    assert store.steps() == [2, 20]


def test_a_resume_that_is_refused_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path, rs.EverySteps(5))
    before = sorted(os.listdir(tmp_path))
    handler = signal.getsignal(signal.SIGUSR1)

    def no_clock() -> float:
        raise ZeroDivisionError

    checkpointer = rs.Checkpointer(tmp_path, rs.OnSignal(signal.SIGUSR1), clock=no_clock)
    with pytest.raises(ZeroDivisionError):
        checkpointer.resume(NUMBERS.prefetch(2), step=10)
    assert sorted(os.listdir(tmp_path)) == before
    assert signal.getsignal(signal.SIGUSR1) is handler


def test_step_0_is_the_start_and_sets_the_rest_aside(tmp_path: Path) -> None:
    run(tmp_path, rs.EverySteps(5))
    with rs.Checkpointer(tmp_path, rs.EverySteps(10)) as checkpointer:
        assert list(checkpointer.resume(NUMBERS, step=0)) == list(NUMBERS)
        assert checkpointer.steps() == [10, 20]
    with rs.Checkpointer(tmp_path / "new", rs.EverySteps(10)) as checkpointer:
        assert list(checkpointer.resume(NUMBERS, step=0)) == list(NUMBERS)


def test_later_ones_are_set_aside_from_the_newest_on(tmp_path: Path) -> None:
    class Cut(Wrapped):
        def set_aside(self, step: int, reason: str) -> str:
            if step == 15:
                raise KeyboardInterrupt
            return super().set_aside(step, reason)

    store = Cut()
    run(store, rs.EverySteps(5))
    with pytest.raises(KeyboardInterrupt):
        rs.Checkpointer(store, rs.AtEnd()).resume(NUMBERS, step=5)
    assert store.steps() == [5, 10, 15]


def test_a_folder_in_the_place_of_an_unfinished_file_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".tmp-input-0123456789abcdef").mkdir()
    assert run(tmp_path, rs.EverySteps(5)) == list(NUMBERS)


def test_an_explicit_save_settles_one_that_was_put_off() -> None:
    class Gate(Wrapped):
        gate = threading.Event()

        def save(self, step: int, data: bytes) -> str:
            assert self.gate.wait(60)
            return super().save(step, data)

    store = Gate()
    with rs.Checkpointer(
        store, rs.AtSteps([5, 10]), asynchronous=True, when_busy="skip"
    ) as checkpointer:
        for _ in checkpointer.resume(NUMBERS):
            if checkpointer.step == 11:
                store.gate.set()
                checkpointer.save()
    assert store.steps() == [5, 11, 20]


def test_an_error_of_the_pipeline_long_after_the_signal_is_not_hidden() -> None:
    def fails_at_9(item: int) -> int:
        if item == 9:
            raise ValueError("a bug")
        return item

    trigger = rs.OnSignal(signal.SIGUSR1) & rs.AtSteps([50])
    with rs.Checkpointer(rs.Memory(), trigger, stop_on_signal=True) as checkpointer:
        loop = checkpointer.resume(NUMBERS.map(fails_at_9))
        next(loop)
        os.kill(os.getpid(), signal.SIGUSR1)
        with pytest.raises(ValueError, match="a bug"):
            list(loop)


def test_seconds_are_counted_from_the_end_of_a_save() -> None:
    now = 0.0

    class Slow(Wrapped):
        def save(self, step: int, data: bytes) -> str:
            nonlocal now
            now += 30
            return super().save(step, data)

    store = Slow()
    with rs.Checkpointer(
        store, rs.EverySeconds(20), clock=lambda: now, save_at_end=False
    ) as checkpointer:
        for _ in checkpointer.resume(NUMBERS):
            now += 5
    assert store.steps() == [4, 8, 12, 16, 20]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_saving_works_where_no_thread_can_be_started(
    asynchronous: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start_no_thread(*_: object) -> int:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("resumable.workers.threads.start_new_thread", start_no_thread)
    store = rs.Memory()
    assert run(store, rs.EverySteps(5), asynchronous=asynchronous) == list(NUMBERS)
    assert store.steps() == [5, 10, 15, 20]


def test_what_was_set_aside_in_memory_is_all_kept() -> None:
    store = rs.Memory()
    for content in (b"first", b"second"):
        store.save(1, content)
        store.set_aside(1, "damaged")
    assert [data for _, _, data in store._aside] == [b"first", b"second"]


def test_a_save_error_travels_between_processes() -> None:
    again = pickle.loads(pickle.dumps(rs.SaveError("step 5 could not be saved", 5)))
    assert (str(again), again.step) == ("step 5 could not be saved", 5)
