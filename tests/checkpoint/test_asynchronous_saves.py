"""Saving beside the loop: labels are true, nothing is dropped, failures are told once."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoint.saving_loops import until_written
from checkpoint.wrapped import Wrapped
from support.command import run_code

import resumable as rs
from resumable.checkpoint.envelope import decode

NUMBERS = rs.range(1000).shuffle(0).batch(4)
ALL = [batch.tolist() for batch in NUMBERS]


class Held(Wrapped):
    """A store whose saves wait until `let_go`, and fail for the steps in ``failing``."""

    def __init__(self, *failing: int) -> None:
        super().__init__()
        self.failing = set(failing)
        self.gate = threading.Event()
        self.started = threading.Event()
        self.thread: threading.Thread | None = None

    def let_go(self) -> None:
        self.gate.set()

    def save(self, step: int, data: bytes) -> str:
        self.thread = threading.current_thread()
        self.started.set()
        assert self.gate.wait(60)
        if step in self.failing:
            self.failing.remove(step)
            raise OSError(28, "No space left on device")
        return super().save(step, data)


class Log(rs.CheckpointListener):
    """Notes the saves that begin and that are done."""

    def __init__(self, log: list[str]) -> None:
        self.log = log

    def before_save(self, step: int) -> None:
        self.log.append(f"before {step}")

    def after_save(self, step: int, path: str) -> None:
        self.log.append(f"after {step}")


def checkpointer_of(store: rs.Store, trigger: rs.Trigger, **options: Any) -> rs.Checkpointer:
    return rs.Checkpointer(store, trigger, asynchronous=True, **options)


def labels_are_true(store: rs.Store) -> None:
    """Each state continues at the item after its label."""
    for step in store.steps():
        with NUMBERS.resume(decode(store.load(step)).state) as iterator:
            assert iterator.step == step
            assert [batch.tolist() for batch in iterator] == ALL[step:]


@pytest.mark.parametrize("when_busy", ["wait", "skip"])
def test_with_a_store_that_takes_long_labels_equal_states(when_busy: str) -> None:
    store = Held()
    if when_busy == "wait":
        threading.Timer(0.1, store.let_go).start()
    taken: list[int] = []

    class Taken(rs.CheckpointListener):
        def before_save(self, step: int) -> None:
            taken.append(step)

    with checkpointer_of(
        store, rs.EverySteps(2), when_busy=when_busy, listeners=[Taken()]
    ) as checkpointer:
        for _ in checkpointer.resume(NUMBERS):
            if checkpointer.step == 5:
                store.let_go()
                break
    assert store.steps() == taken, "something was dropped"
    assert store.steps() == ([2, 4, 5] if when_busy == "wait" else [2, 5])
    labels_are_true(store)


def test_the_loop_goes_on_while_a_save_is_written_in_one_other_thread() -> None:
    store = Held()
    with checkpointer_of(store, rs.AtSteps([3])) as checkpointer:
        loop = checkpointer.resume(NUMBERS)
        seen = [next(loop).tolist() for _ in range(9)]
        assert store.started.wait(60)
        assert (seen, store.steps()) == (ALL[:9], [])
        assert store.thread is not threading.current_thread()
        store.let_go()
    assert store.steps() == [3, 9]
    labels_are_true(store)


def test_skip_puts_a_save_off_to_the_first_step_at_which_none_is_written() -> None:
    store = Held()
    log: list[str] = []
    only_at_6 = rs.When(lambda progress: progress.step in (3, 6))
    with checkpointer_of(
        store, only_at_6, when_busy="skip", listeners=[Log(log)], save_at_end=False
    ) as checkpointer:
        loop = checkpointer.resume(NUMBERS)
        for _ in range(8):
            next(loop)
        assert (log, loop.skipped) == (["before 3"], 1), "at 6, and at 7 still"
        store.let_go()
        until_written(checkpointer)
        next(loop)
    assert (store.steps(), checkpointer.step) == ([3, 8], 9)
    assert log == ["before 3", "after 3", "before 8", "after 8"]
    labels_are_true(store)


def test_wait_waits_and_saves_every_step_that_is_due() -> None:
    log: list[str] = []
    store = Held()
    waiting = threading.Timer(0.1, store.let_go)
    waiting.start()
    with checkpointer_of(
        store, rs.EverySteps(1), when_busy="wait", listeners=[Log(log)]
    ) as checkpointer:
        loop = checkpointer.resume(NUMBERS)
        for _ in range(6):
            next(loop)
    assert store.steps() == [1, 2, 3, 4, 5, 6]
    assert log == [f"{what} {step}" for step in range(1, 7) for what in ("before", "after")]
    waiting.join()


def test_the_state_saved_is_that_at_the_trigger_whatever_happens_afterwards() -> None:
    carried = rs.range(100).map(lambda i: np.full(3, i)).shuffle(0, window=10, carry=True)
    expected = [item.tolist() for item in carried]
    store = Held()
    with checkpointer_of(store, rs.AtSteps([5]), save_at_end=False) as checkpointer:
        loop = checkpointer.resume(carried)
        items = [next(loop) for _ in range(30)]
        for item in items:  # what came out of the buffer, while the buffer is being written
            item += 1000
        loop.iterator.set_state(carried.start().get_state())
        next(loop.iterator)
        store.let_go()
    with carried.resume(decode(store.load(5)).state) as iterator:
        assert [item.tolist() for item in iterator] == expected[5:]


def test_after_save_is_told_in_the_loop_and_may_stop_it() -> None:
    store = Held()
    threads: list[threading.Thread] = []

    class Stop(rs.CheckpointListener):
        def after_save(self, step: int, path: str) -> bool:
            threads.append(threading.current_thread())
            return True

    with checkpointer_of(store, rs.AtSteps([3]), listeners=[Stop()]) as checkpointer:
        loop = checkpointer.resume(NUMBERS)
        for _ in range(5):
            next(loop)
        store.let_go()
        until_written(checkpointer)
        assert list(loop) == []
    assert store.steps() == [3, 5]
    assert threads == [threading.current_thread()] * 2


def test_a_failure_is_raised_once_with_its_step_and_the_next_save_is_made() -> None:
    store = Held(3)
    store.let_go()
    with checkpointer_of(store, rs.EverySteps(3)) as checkpointer:
        loop = checkpointer.resume(NUMBERS)
        problems = []
        for _ in range(50):
            try:
                next(loop)
            except rs.SaveError as error:
                problems.append(error)
    assert [problem.step for problem in problems] == [3]
    assert "step 3 could not be saved: [Errno 28] No space left" in str(problems[0])
    assert problems[0].errno == 28
    assert isinstance(problems[0].__cause__, OSError)
    # It is saved at the step at which the failure was known, and so on.
    assert store.steps()[0] in range(3, 7)
    assert checkpointer.step in store.steps()
    labels_are_true(store)


@pytest.mark.parametrize("end", ["exhausted", "break", "close"])
def test_a_failure_of_the_last_save_is_raised_at_the_end(end: str) -> None:
    store = Held(8)
    store.let_go()
    checkpointer = checkpointer_of(store, rs.AtSteps([8]))
    loop = checkpointer.resume(NUMBERS)

    def consume() -> None:
        if end == "close":
            for _ in range(9):
                next(loop)
            checkpointer.close()
            return
        with checkpointer:
            for _ in loop:
                if end == "break" and loop.step == 8:
                    break

    with pytest.raises(rs.SaveError, match="step 8 could not be saved"):
        consume()
    checkpointer.close()


def leave_at_5(store: Held, error: Exception | None = None) -> None:
    """A loop that is left while step 3 is being written."""
    with checkpointer_of(store, rs.AtSteps([3])) as checkpointer:
        for _ in checkpointer.resume(NUMBERS):
            if checkpointer.step == 5:
                store.let_go()
                if error is not None:
                    raise error
                break


def test_several_failures_at_the_end_are_told_together() -> None:
    with pytest.raises(rs.SaveError, match=r"step 3 could not .*; step 5 could not") as caught:
        leave_at_5(Held(3, 5))
    assert caught.value.step == 5


def test_a_failure_before_the_end_does_not_prevent_the_last_save() -> None:
    store = Held(3)
    with pytest.raises(rs.SaveError, match="step 3 could not"):
        leave_at_5(store)
    assert store.steps() == [5]


def test_the_exception_that_ended_the_loop_is_not_hidden_by_a_failure() -> None:
    with (
        pytest.warns(RuntimeWarning, match="step 3 could not be saved"),
        pytest.raises(ZeroDivisionError),
    ):
        leave_at_5(Held(3), ZeroDivisionError())


def test_close_drains_and_may_be_called_again() -> None:
    store = Held()
    checkpointer = checkpointer_of(store, rs.AtSteps([3]))
    loop = checkpointer.resume(NUMBERS)
    for _ in range(5):
        next(loop)
    threading.Timer(0.05, store.let_go).start()
    checkpointer.close()
    assert store.steps() == [3]
    checkpointer.close()


def test_a_save_asked_for_is_stored_when_it_returns() -> None:
    store = Held()
    threading.Timer(0.05, store.let_go).start()
    with checkpointer_of(store, rs.AtSteps([3])) as checkpointer:
        loop = checkpointer.resume(NUMBERS)
        for _ in range(5):
            next(loop)
        assert checkpointer.save() == "memory:5"
        assert store.steps() == [3, 5]
        assert checkpointer.save() is None


EXITING = """
import sys, time
import resumable as rs
from resumable.checkpoint import directory

write = directory.write_new_file
def slowly(path, data):
    time.sleep(0.5)
    return write(path, data)
directory.write_new_file = slowly

loop = rs.Checkpointer(sys.argv[1], rs.AtSteps([3]), asynchronous=True).resume(rs.range(9))
for _ in range(4):
    next(loop)
"""


def test_what_is_being_written_at_exit_is_written(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", EXITING, str(tmp_path)], check=True, timeout=60)
    assert rs.Directory(tmp_path).steps() == [3]


FORKED = """
import os, sys, warnings
import resumable as rs

warnings.simplefilter("ignore")

with rs.Checkpointer(sys.argv[1], rs.EverySteps(2), asynchronous=True) as checkpointer:
    for item in checkpointer.resume(rs.range(9)):
        if checkpointer.step == 4:
            child = os.fork()
            if not child:
                try:
                    checkpointer.save()
                except rs.WorkerError as error:
                    assert "belongs to the process that forked this one" in str(error)
                    checkpointer.close()
                    os._exit(7)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
"""


def test_a_forked_child_neither_saves_nor_waits(tmp_path: Path) -> None:
    done = run_code(FORKED, str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert rs.Directory(tmp_path).steps() == [2, 4, 6, 8, 9]


REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (
        lambda: rs.Checkpointer(rs.Memory(), rs.AtEnd(), when_busy="skip"),
        ValueError,
        "when_busy='skip' needs asynchronous=True",
    ),
    (
        lambda: rs.Checkpointer(rs.Memory(), rs.AtEnd(), asynchronous=True, when_busy="drop"),
        ValueError,
        "when_busy must be one of 'wait', 'skip', got 'drop'",
    ),
    (
        lambda: rs.Checkpointer(rs.Memory(), rs.AtEnd(), asynchronous=1),  # type: ignore[arg-type]
        TypeError,
        "asynchronous must be True or False, got 1",
    ),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_bad_arguments_are_refused_at_construction(number: int) -> None:
    make, kind, message = REFUSED[number]
    with pytest.raises(kind, match=message):
        make()
