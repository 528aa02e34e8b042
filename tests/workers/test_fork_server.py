"""The process that forks workers: what they have from it, how it ends, and what happens without it."""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from support.command import run_python
from support.waiting import wait_until

import resumable as rs

pytest.importorskip("loky", reason="loky is not installed: pip install resumable-loader[parallel]")
if sys.platform != "linux":
    pytest.skip("there is no such process", allow_module_level=True)

from resumable.workers import forking  # only there
from resumable.workers.fork_server import ForkServer


def told(fn: Callable[[int], Any]) -> Any:
    """What ``fn`` returns in a new worker."""
    (found,) = rs.range(1).map(fn, workers=1, executor="process")
    return found


def parent(item: int) -> int:
    return os.getppid()


def slow_parent(item: int) -> int:
    time.sleep(0.005)
    return os.getppid()


def environment(item: int) -> str | None:
    return os.environ.get("OF_THIS_TEST")


def runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def ended(process: int) -> bool:
    return not runs(process)


def test_one_server_starts_the_workers_of_all_pools() -> None:
    assert told(parent) == told(parent) != os.getpid()


def test_workers_find_the_library_imported() -> None:
    def imported_here(item: int) -> list[str]:
        """The modules imported after the fork; the server froze all modules imported before."""
        here = {id(found) for found in gc.get_objects() if isinstance(found, type(sys))}
        return [name for name, module in sys.modules.items() if id(module) in here]

    assert [name for name in told(imported_here) if name.startswith("resumable")] == []


def test_workers_have_what_this_process_has_now(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    server = told(parent)
    monkeypatch.setenv("OF_THIS_TEST", "is set")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path / "modules"))
    assert told(environment) == "is set"
    assert told(lambda item: os.getcwd()) == str(tmp_path)
    assert told(lambda item: sys.path[0]) == str(tmp_path / "modules")
    # What reads the environment as it is imported would not see it change.
    assert told(parent) != server


@pytest.mark.deep
def test_workers_of_an_earlier_environment_live_on(monkeypatch: pytest.MonkeyPatch) -> None:
    earlier = rs.range(100).map(parent, workers=1, executor="process")
    with iter(earlier) as iterator:
        server = next(iterator)
        monkeypatch.setenv("OF_THIS_TEST", "is set")
        assert told(parent) != server
        assert list(iterator) == [server] * 99
    wait_until(lambda: not runs(server))


@pytest.mark.deep
def test_nothing_is_left_of_servers_that_were_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    servers = []
    for number in range(2):
        monkeypatch.setenv("OF_THIS_TEST", str(number))
        servers.append(told(parent))
        for earlier in servers[:-1]:
            wait_until(partial(ended, earlier))
    monkeypatch.delenv("OF_THIS_TEST")
    assert told(parent)
    assert not any(Path(f"/proc/{server}").exists() for server in servers[:-1])


@pytest.mark.parametrize("stream", [1, 2])
def test_workers_write_where_this_process_writes_now(stream: int, tmp_path: Path) -> None:
    told(parent)  # the server has other streams
    before = os.dup(stream)
    with open(tmp_path / "written", "w") as file:
        os.dup2(file.fileno(), stream)
    try:
        told(lambda item: os.write(stream, b"here"))
    finally:
        os.dup2(before, stream)
        os.close(before)
    assert (tmp_path / "written").read_text() == "here"


def test_a_worker_is_no_copy_of_another_in_what_is_random() -> None:
    def draw(item: int) -> tuple[float, float]:
        import random

        import numpy as np

        return random.random(), float(np.random.random())

    ours, numpys = zip(*(told(draw) for _ in range(3)), strict=True)
    assert len(set(ours)) == len(set(numpys)) == 3


def test_signals_to_the_group_do_not_reach_the_server() -> None:
    server = told(parent)
    assert os.getpgid(server) == server
    assert told(lambda item: os.getpgid(0) == os.getpid())
    assert told(lambda item: signal.getsignal(signal.SIGINT)) is signal.default_int_handler
    assert told(lambda item: signal.getsignal(signal.SIGCHLD)) == signal.SIG_DFL


@pytest.mark.deep
def test_a_server_that_is_killed_is_replaced_and_nothing_is_lost() -> None:
    # Slow enough for work to be left when the server is gone.
    with iter(rs.range(300).map(slow_parent, workers=2, executor="process")) as iterator:
        server = next(iterator)
        os.kill(server, signal.SIGKILL)
        servers = {*iterator}
        assert iterator.step == 300
    wait_until(lambda: not runs(server))
    assert servers - {server} == {told(parent)} != {os.getpid()}


def test_a_worker_knows_no_descriptors_of_others() -> None:
    def descriptors(item: int) -> int:
        return len(os.listdir("/proc/self/fd"))

    alone = told(descriptors)
    with iter(rs.range(100).map(abs, workers=3, executor="process")) as iterator:
        next(iterator)
        assert told(descriptors) == alone


@pytest.mark.parametrize("fault", ["cannot be started", "does not answer"])
def test_without_a_server_workers_are_started_as_before(
    monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(fault)

    monkeypatch.setattr(forking, "_server", None)
    if fault == "cannot be started":
        monkeypatch.setattr(forking, "ForkServer", refuse)
    else:
        monkeypatch.setattr(ForkServer, "fork", refuse)
    assert told(parent) == os.getpid()


def test_an_exit_status_is_told() -> None:
    with (
        iter(rs.range(2).map(os._exit, workers=1, executor="process")) as iterator,
        pytest.raises(rs.WorkerError, match=r"EXIT\(0\)"),
    ):
        next(iterator)
    with (
        iter(rs.range(2).map(ends_by_signal, workers=1, executor="process")) as iterator,
        pytest.raises(rs.WorkerError, match=r"SIGKILL\(-9\)"),
    ):
        next(iterator)


def ends_by_signal(item: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("end", ["killed", "at its end"])
def test_the_server_ends_with_the_interpreter(end: str, tmp_path: Path) -> None:
    code = """
import os, signal, sys, time
from pathlib import Path
import resumable as rs

iterator = iter(rs.range(9).map(lambda item: os.getppid(), workers=1, executor="process"))
server = next(iterator)
if not os.fork():  # one that lives on, and has a copy of everything
    for _ in range(3000):
        try:
            status = Path(f"/proc/{server}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            status = "gone"
        if status in ("gone", "Z"):
            Path(sys.argv[2]).touch()
            break
        time.sleep(0.01)
    os._exit(0)
if sys.argv[1] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
"""
    warnings = ("-W", "error", "-W", "ignore::DeprecationWarning")  # the fork gives one
    done = run_python(*warnings, "-c", code, end, str(tmp_path / "ended"))
    assert done.stderr == ""
    assert done.returncode == (-signal.SIGKILL if end == "killed" else 0)
    assert (tmp_path / "ended").exists()


def test_a_forked_child_has_a_server_of_its_own() -> None:
    code = """
import os
import resumable as rs

def parent():
    (found,) = rs.range(1).map(lambda item: os.getppid(), workers=1, executor="process")
    return found

ours = parent()
if not os.fork():
    os._exit(parent() == ours)
print(os.waitstatus_to_exitcode(os.wait()[1]), parent() == ours)
"""
    done = run_python("-W", "ignore", "-c", code)  # of the fork
    assert (done.stdout, done.stderr) == ("0 True\n", "")


def test_the_server_is_asked_once_for_each_process_of_all_epochs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[bytes] = []
    fork = ForkServer.fork

    def note(server: ForkServer, wish: bytes, *descriptors: Any) -> Any:
        asked.append(wish)
        return fork(server, wish, *descriptors)

    monkeypatch.setattr(ForkServer, "fork", note)
    pipeline = rs.range(50).map(abs, workers=3, executor="process").repeat(4)
    with iter(pipeline) as iterator:
        assert list(islice(iterator, 120)) == [*range(50), *range(50), *range(20)]
    assert len(asked) == 3
