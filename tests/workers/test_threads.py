"""Threads that make calls for a loop: whether one is left that could answer, and how all of them end."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable, Iterator
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any
from weakref import WeakSet

import pytest
from support.waiting import wait_until

from resumable.core.weak_sets import members
from resumable.workers import threads as threads_module
from resumable.workers.answers import Job
from resumable.workers.processes import _end_running
from resumable.workers.threads import Threads, _finish

SECONDS = 60


class FirstThreadIdles:
    """Jobs of which the first thread finds none until the second one is told that there are none.

    Attributes:
      found_none: set when the first thread begins to look whether there are really none.
      submitted: lets it see what there is by now.
      begun: set when a job was taken.
      seen: the threads that have looked.
    """

    def __init__(self) -> None:
        self.found_none = threading.Event()
        self.submitted = threading.Event()
        self.begun = threading.Event()
        self._jobs: SimpleQueue[Any] = SimpleQueue()
        self.seen: list[int] = []

    def put(self, job: Any) -> None:
        self._jobs.put(job)

    def get(self, timeout: float | None) -> Any:
        me = threading.get_ident()
        if me not in self.seen:
            self.seen.append(me)
            if me != self.seen[0]:
                assert self.begun.wait(SECONDS)
            raise Empty
        job = self._jobs.get(timeout=SECONDS)
        self.begun.set()
        return job

    def empty(self) -> bool:
        if threading.get_ident() == self.seen[0]:
            self.found_none.set()
            assert self.submitted.wait(SECONDS)
        return self._jobs.empty()


def test_a_thread_that_was_about_to_end_is_alive_in_the_job_that_it_found() -> None:
    threads = Threads(1, "resumable-test", thorough=True)
    threads._queue.jobs = jobs = FirstThreadIdles()  # type: ignore[assignment]
    goes_on = threading.Event()
    job = Job(lambda: goes_on.wait(SECONDS))
    threads._start_thread()
    assert jobs.found_none.wait(SECONDS)
    threads.submit(job)
    jobs.submitted.set()
    assert jobs.begun.wait(SECONDS)
    # The one that was started for the job has found none, and ended.
    wait_until(lambda: len(jobs.seen) == 2 and running() == 1)
    assert threads.alive
    assert not threads.close(0)
    goes_on.set()
    assert threads.wait_for(job)
    assert threads.close(SECONDS)


def running() -> int:
    return sum(one.name == "resumable-test" for one in threading.enumerate())


class Ending:
    """Counts how often it was told to end."""

    def __init__(self) -> None:
        self.ends = 0

    def stop(self) -> None:
        self.ends += 1

    close = stop


class Growing(WeakSet[Ending]):
    """To which another thread adds ``late`` while somebody goes over it for the first time."""

    def __init__(self, ones: list[Ending], late: Ending) -> None:
        super().__init__(ones)
        self._late = late

    def __iter__(self) -> Iterator[Ending]:
        for one in super().__iter__():
            self.add(self._late)
            yield one


@pytest.mark.parametrize(
    ("known", "end"),
    [
        ("resumable.workers.threads._to_stop", _finish),
        ("resumable.workers.processes._running", _end_running),
    ],
)
def test_all_end_with_the_interpreter_while_others_begin(
    known: str, end: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    ones = [Ending() for _ in range(4)]
    growing = Growing(ones[:3], ones[3])
    monkeypatch.setattr("resumable.workers.threads._at_work", WeakSet())
    monkeypatch.setattr(known, growing)
    end()
    assert [one.ends for one in ones] == [1] * 4


def test_what_is_added_to_all_the_time_has_no_members() -> None:
    class Endless(WeakSet[Ending]):
        def __iter__(self) -> Iterator[Ending]:
            raise RuntimeError("Set changed size during iteration")

    assert members(Endless()) == []


def test_the_last_job_is_done_once_and_after_the_others() -> None:
    done: list[str] = []
    threads = Threads(2, "test", last=Job(lambda: done.append("last")))
    for _ in range(3):
        job = Job(lambda: done.append("job"))
        threads.submit(job)
        threads.wait_for(job)
    assert threads.close(SECONDS)
    assert done == ["job"] * 3 + ["last"]


def test_an_interrupt_in_the_start_of_a_thread_does_not_start_one_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[int] = []
    start = _thread.start_new_thread

    def interrupted(*arguments: Any) -> int:
        started.append(start(*arguments))
        if len(started) == 1:
            raise KeyboardInterrupt
        return started[-1]

    monkeypatch.setattr(threads_module, "start_new_thread", interrupted)
    at_once = threading.Barrier(2)
    threads = Threads(1, "test")
    with pytest.raises(KeyboardInterrupt):
        threads.submit(Job(partial(at_once.wait, 0.2)))
    second = Job(partial(at_once.wait, 0.2))
    threads.submit(second)
    assert len(started) == 2
    with pytest.raises(threading.BrokenBarrierError):
        threads.wait_for(second)  # only another thread could have done the first job meanwhile
    assert threads.close(SECONDS)
