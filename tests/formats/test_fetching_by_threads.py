"""All threads share the process that fetches for them: it is started once, gets whole jobs, and its end is told once."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from types import SimpleNamespace
from typing import Any

import pytest
from support.waiting import SECONDS, Meeting

from resumable.file_cache.fetches import FetchJob
from resumable.formats.io import fetching_process, fetching_server
from resumable.formats.io.fetching import Patience
from resumable.formats.io.fetching_process import FetchingProcess, FetchOrder, FetchReport

pytestmark = pytest.mark.skipif(os.name != "posix", reason="it is for systems with pipes of POSIX")

JOB = FetchJob("a file", 0, 1, [], [])


class Peer:
    """Stands in for a process that `subprocess` has started.

    Attributes:
      connection: its end of the pipe.
      within: called while somebody waits for its end.
    """

    pid = 0

    def __init__(self, command: list[str], *, pass_fds: list[int], **options: object) -> None:
        self.connection = Connection(os.dup(pass_fds[0]))
        self.within: Callable[[], None] = lambda: None

    def kill(self) -> None:
        self.connection.close()

    def wait(self) -> int:
        self.within()
        return 0


class Wrapped:
    """The connection ``real``, of which some methods are others."""

    def __init__(self, real: Any, **others: Any) -> None:
        self._real = real
        vars(self).update(others)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """One that is ready, whose other end is a `Peer`."""
    monkeypatch.setattr(fetching_process, "subprocess", SimpleNamespace(Popen=Peer, DEVNULL=None))
    found: Any = FetchingProcess()
    assert found._process.connection.recv() == sys.path
    found._process.connection.send(FetchReport(0, [], 0, 0))
    found.collect(SECONDS)
    assert found.answered
    yield found
    found.close()


def test_threads_that_need_it_together_start_one(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []

    class Made:
        has_ended = answered = False

        def __init__(self) -> None:
            made.append(self)
            meeting.within()

        def collect(self) -> None: ...

    meeting = Meeting(lambda: fetching_process.fetching_process(0))
    monkeypatch.setattr(fetching_process, "WORTH_A_PROCESS", 0)
    monkeypatch.setattr(fetching_process, "_process", None)
    monkeypatch.setattr(fetching_process, "_starts", meeting)
    monkeypatch.setattr(fetching_process, "FetchingProcess", Made)
    found = fetching_process.fetching_process(0)
    meeting.join()
    assert made == [found]


def test_a_job_is_sent_whole_before_that_of_another_thread(process: Any) -> None:
    def send(data: bytes) -> None:
        meeting.within()
        connection.send_bytes(data)

    meeting, connection = Meeting(lambda: process.begin(JOB, print)), process._connection
    process._sends, process._connection = meeting, Wrapped(connection, send_bytes=send)
    assert process.begin(JOB, print)
    meeting.join()
    assert not meeting.met
    orders = [process._process.connection.recv() for _ in range(2)]
    assert orders == [FetchOrder(1, JOB), FetchOrder(2, JOB)]


@pytest.mark.parametrize("found", ["by waiting for an answer", "by a close"])
def test_the_end_is_told_once_for_each_job(process: Any, found: str) -> None:
    told: list[str] = []
    for name in "ab":
        assert process.begin(JOB, lambda written, name=name: told.append(name))
    meeting = Meeting(process.close)
    process._process.within = meeting.within
    if found == "by a close":
        process.close()
    else:
        process._process.connection.close()
        process.collect(SECONDS)
    meeting.join()
    assert not meeting.met
    assert process.has_ended
    assert told == ["a", "b"]


def test_a_thread_that_waits_for_an_answer_keeps_its_connection(process: Any) -> None:
    def poll(seconds: float) -> bool:
        meeting.within()
        assert not connection.closed, "its descriptor may be that of another file by now"
        return bool(connection.poll(seconds))

    meeting, connection = Meeting(process.close), process._connection
    process._connection = Wrapped(connection, poll=poll)
    process.collect(SECONDS)
    meeting.join()
    assert process.has_ended


class EndsInPickling:
    """Ends ``process`` as it is pickled."""

    def __init__(self, process: Any) -> None:
        self._process = process

    def __reduce__(self) -> Any:
        self._process.close()
        return str, ()


@pytest.mark.parametrize("moment", ["before it is known", "before it is sent", "after it was sent"])
def test_a_job_that_meets_the_end_is_refused_or_told_that_nothing_was_written(
    process: Any, moment: str
) -> None:
    def send(data: bytes) -> None:
        if moment == "before it is sent":
            process.close()
        connection.send_bytes(data)
        if moment == "after it was sent":
            process.close()

    told: list[Any] = []
    connection = process._connection
    process._connection = Wrapped(connection, send_bytes=send)
    file = EndsInPickling(process) if moment == "before it is known" else "a file"
    taken = process.begin(JOB._replace(file=file), told.append)
    assert told == ([[]] if taken else [])
    assert process.has_ended


def test_a_job_that_an_interrupt_cuts_ends_the_process(process: Any) -> None:
    def send(data: bytes) -> None:
        raise KeyboardInterrupt

    told: list[Any] = []
    process._connection = Wrapped(process._connection, send_bytes=send)
    with pytest.raises(KeyboardInterrupt):
        process.begin(JOB, told.append)
    assert process.has_ended
    assert told == [[]]


class OneJob:
    """A connection through which one job comes, which is done between two looks for another.

    Attributes:
      reported: the numbers of the jobs that were done.
      looks: how often it was looked for one.
    """

    def __init__(self, done: list[Any]) -> None:
        self.reported: list[int] = []
        self.looks = 0
        self._done = done

    def poll(self, seconds: float) -> bool:
        self.looks += 1
        if self.looks == 3:
            self._done[0](0, None)
        return self.looks == 1

    def recv(self) -> FetchOrder:
        assert self.looks == 1, "it waits for ever"
        system = SimpleNamespace(patience=Patience())
        return FetchOrder(1, JOB._replace(file=SimpleNamespace(system=system)))

    def send(self, report: FetchReport) -> None:
        self.reported.append(report.number)


def test_it_ends_when_it_is_idle_also_if_it_had_a_job_at_the_last_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[Any] = []
    ended: list[int] = []

    def begin(requests: Any, patience: Any, when_done: Any, gate: Any) -> None:
        done.append(when_done)

    no_signals = SimpleNamespace(signal=lambda *handler: None, SIGINT=None, SIG_IGN=None)
    monkeypatch.setattr(fetching_server, "signal", no_signals)
    monkeypatch.setattr(fetching_server, "os", SimpleNamespace(_exit=ended.append))
    monkeypatch.setattr(fetching_server, "request_for", lambda job: None)
    monkeypatch.setattr(fetching_server, "begin", begin)
    connection: Any = OneJob(done)
    fetching_server.serve(connection)
    assert connection.reported == [0, 1]
    assert ended == [0]
