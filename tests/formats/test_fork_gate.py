"""A fork waits until the calls of other threads into such a package have returned, and calls wait for the fork."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any
from weakref import WeakSet

import pytest
from support.native_forks import holds_in_a_fork
from support.waiting import Meeting

from resumable.formats.io import fork_gate
from resumable.formats.io.fork_gate import UnforkableCall

# Where the tests of Lance ran in this process, its warning comes at each fork.
pytestmark = pytest.mark.filterwarnings("ignore:lance is not fork-safe")


@pytest.fixture
def called() -> tuple[threading.Event, threading.Event, threading.Thread]:
    """A thread within a call: an event that ends the call, one that says that it has ended, and the thread."""
    end, ended, within = threading.Event(), threading.Event(), threading.Event()

    def call() -> None:
        with UnforkableCall():
            within.set()
            end.wait(60)
            ended.set()

    thread = threading.Thread(target=call)
    thread.start()
    assert within.wait(60)
    return end, ended, thread


def test_a_fork_waits_for_the_calls_of_other_threads(
    called: tuple[threading.Event, threading.Event, threading.Thread],
) -> None:
    end, ended, thread = called
    timer = threading.Timer(0.2, end.set)
    timer.start()
    assert holds_in_a_fork(ended.is_set)
    thread.join()
    timer.join()


def test_a_fork_does_not_wait_for_ever(
    called: tuple[threading.Event, threading.Event, threading.Thread],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    end, ended, thread = called
    monkeypatch.setattr(fork_gate, "LONGEST_WAIT", 0.1)
    assert holds_in_a_fork(lambda: not ended.is_set())
    end.set()
    thread.join()


def test_a_fork_from_within_a_call_does_not_wait_for_itself() -> None:
    with UnforkableCall():
        assert holds_in_a_fork(lambda: not list(fork_gate._calls))


def test_a_call_that_was_left_by_an_error_is_forgotten() -> None:
    call = UnforkableCall()
    with pytest.raises(KeyError), call:
        raise KeyError
    assert call not in fork_gate._calls


def test_a_child_calls_and_forks_as_its_parent_does() -> None:
    def call_and_fork() -> bool:
        with UnforkableCall():
            pass
        return holds_in_a_fork(lambda: True)

    assert holds_in_a_fork(call_and_fork)


def test_calls_may_end_while_a_fork_looks_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    class LookedThrough(WeakSet[UnforkableCall]):
        def __iter__(self) -> Iterator[UnforkableCall]:
            for call in super().__iter__():
                meeting.within()
                yield call

    def end() -> None:
        for call in calls:
            call.__exit__()

    calls: list[Any] = [UnforkableCall() for _ in range(3)]
    meeting = Meeting(end)
    monkeypatch.setattr(fork_gate, "_calls", LookedThrough())
    for call in calls:
        call.thread = -1
        call.__enter__()
    monkeypatch.setattr(fork_gate, "_lock", meeting)
    fork_gate._before_fork()
    assert not list(fork_gate._calls)
    meeting.release()
    meeting.join()
