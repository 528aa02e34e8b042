"""Threads that make calls for a loop: whether one is left that could answer."""

from __future__ import annotations

import threading
from queue import Empty, SimpleQueue
from typing import Any

from support.waiting import wait_until

from resumable.workers.answers import Job
from resumable.workers.threads import Threads

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
