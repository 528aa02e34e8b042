"""One loop at a time writes a name; a second one is told who does, and does no harm."""

from __future__ import annotations

import errno
import gc
import json
import os
import pickle
import platform
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from checkpoint.faulty_os import Fault, faults, faulty_os, open_descriptors
from checkpoint.saving_loops import files_in, run_loop, unfinished_in
from checkpoint.wrapped import Wrapped
from support.command import fork_command, run_code, started_code
from support.waiting import wait_until

import resumable as rs
from resumable.checkpoint import locking

NUMBERS = rs.range(20)
needs_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux")


def resumed(folder: Path, name: str = "input", **options: Any) -> tuple[rs.Checkpointer, Any]:
    checkpointer = rs.Checkpointer(folder, rs.EverySteps(2), name=name)
    return checkpointer, checkpointer.resume(NUMBERS, **options)


def is_free(folder: Path, name: str = "input") -> bool:
    try:
        lock = rs.Directory(folder, name).lock()
    except rs.NameInUse:
        return False
    assert lock.is_held
    lock.close()
    return True


# Resumes and stays, with a fork if that is asked for; each tells its number by one write.
HOLDER = """
import os, sys, time
import resumable as rs
checkpointer = rs.Checkpointer(sys.argv[1], rs.EverySteps(2))
loop = checkpointer.resume(rs.range(20))
next(loop)
if "fork" in sys.argv and os.fork() == 0:
    os.setsid()
os.write(1, b"%d\\n" % os.getpid())
while True:
    time.sleep(60)
"""


@contextmanager
def holder(folder: Path, *arguments: str) -> Iterator[tuple[Any, list[int]]]:
    """A process that has resumed; with its number, and that of its fork if it is to have one."""
    with started_code(HOLDER, str(folder), *arguments) as (process, printed):
        numbers = [process.pid]
        try:
            numbers = [int(printed.readline()) for _ in range(1 + len(arguments))]
            yield process, numbers
        finally:
            for number in numbers:
                with suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)


def test_a_second_process_is_refused_and_told_who_writes(tmp_path: Path) -> None:
    with holder(tmp_path) as (process, _):
        with pytest.raises(rs.NameInUse) as told:
            resumed(tmp_path)
        assert (told.value.host, told.value.process) == (platform.node(), process.pid)
        for word in ("'input'", str(tmp_path), str(process.pid), platform.node()):
            assert word in str(told.value)
        process.kill()
        process.wait()
        resumed(tmp_path)[0].close()


def test_the_error_is_of_the_kind_that_is_expected_and_travels() -> None:
    error = pickle.loads(pickle.dumps(rs.NameInUse("in use", "node7", 123)))
    assert issubclass(rs.NameInUse, BlockingIOError)
    assert type(error) is rs.NameInUse
    assert (str(error), error.host, error.process) == ("in use", "node7", 123)


@needs_linux
def test_a_fork_that_outlives_its_killed_parent_does_not_hold_the_name(tmp_path: Path) -> None:
    with holder(tmp_path, "fork") as (process, numbers):
        assert process.pid in numbers
        assert len(set(numbers)) == 2
        process.kill()
        process.wait()
        assert is_free(tmp_path)


@needs_linux
def test_what_a_fork_does_leaves_the_lock_to_its_parent(tmp_path: Path) -> None:
    checkpointer, loop = resumed(tmp_path)
    next(loop)
    child = os.fork()
    if child == 0:
        status = 1
        with suppress(BaseException):
            checkpointer.close()
            del checkpointer, loop
            gc.collect()
            status = 0 if not is_free(tmp_path) else 2
        os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not is_free(tmp_path)
    checkpointer.close()
    assert is_free(tmp_path)


def test_a_second_loop_of_the_same_process_is_refused_too(tmp_path: Path) -> None:
    first, loop = resumed(tmp_path)
    before = open_descriptors()
    with pytest.raises(rs.NameInUse, match=f"written by this process, {os.getpid()} on") as told:
        resumed(tmp_path)
    assert open_descriptors() == before, f"open as long as {told.value!r} is"
    assert len(list(loop)) == 20
    first.close()
    assert resumed(tmp_path)[1].step == 20


def test_names_of_one_folder_do_not_disturb_one_another(tmp_path: Path) -> None:
    loops = [resumed(tmp_path, name) for name in ("input", "training", "input.b", "input_b")]
    for checkpointer, loop in loops:
        assert len(list(loop)) == 20
        assert len(checkpointer.steps()) == 10
        checkpointer.close()


def dropped(checkpointer: rs.Checkpointer, loop: Any) -> None:
    pass


def closed(checkpointer: rs.Checkpointer, loop: Any) -> None:
    checkpointer.close()
    checkpointer.close()


def ended(checkpointer: rs.Checkpointer, loop: Any) -> None:
    with checkpointer:
        list(loop)


def failed(checkpointer: rs.Checkpointer, loop: Any) -> None:
    with suppress(ZeroDivisionError), checkpointer:
        raise ZeroDivisionError


@pytest.mark.parametrize("end", [dropped, closed, ended, failed])
def test_the_name_is_free_again_after_the_loop(
    tmp_path: Path, end: Callable[[rs.Checkpointer, Any], None]
) -> None:
    before = open_descriptors()
    checkpointer, loop = resumed(tmp_path)
    next(loop)
    assert not is_free(tmp_path)
    end(checkpointer, loop)
    del checkpointer, loop
    gc.collect()
    assert is_free(tmp_path)
    assert open_descriptors() == before


def test_a_second_close_closes_nothing_else(tmp_path: Path) -> None:
    lock = rs.Directory(tmp_path).lock()
    lock.close()
    other = rs.Directory(tmp_path).lock()  # its file has the same number
    lock.close()
    assert (lock.is_held, other.is_held, is_free(tmp_path)) == (False, True, False)
    other.close()


def test_a_loop_whose_checkpointer_is_dropped_keeps_the_name(tmp_path: Path) -> None:
    loop = resumed(tmp_path)[1]
    gc.collect()
    next(loop)
    assert not is_free(tmp_path)


def test_a_loop_that_is_dropped_while_a_thread_saves_keeps_the_name(tmp_path: Path) -> None:
    class Slow(Wrapped):
        begun, gate = threading.Event(), threading.Event()

        def lock(self) -> Any:
            return self.inner.lock()

        def save(self, step: int, data: bytes) -> str:
            self.begun.set()
            assert self.gate.wait(60)
            return super().save(step, data)

    store = Slow(rs.Directory(tmp_path))
    checkpointer = rs.Checkpointer(store, rs.EverySteps(1), asynchronous=True)
    loop = checkpointer.resume(NUMBERS)
    assert [next(loop), next(loop)] == [0, 1]
    assert store.begun.wait(60)
    del checkpointer, loop
    gc.collect()
    assert not is_free(tmp_path)
    store.gate.set()
    wait_until(partial(is_free, tmp_path))
    assert store.steps() == [1]


@pytest.mark.parametrize("wrong", ["pipeline", "step", "damaged"])
def test_a_resume_that_fails_leaves_the_name_free(tmp_path: Path, wrong: str) -> None:
    run_loop(NUMBERS, tmp_path, rs.EverySteps(5))
    checkpointer = rs.Checkpointer(tmp_path, rs.AtEnd())
    if wrong == "damaged":
        for path in tmp_path.glob("*.ckpt"):
            path.write_bytes(b"junk")
    pipeline: rs.Pipeline[Any] = rs.range(5).batch(2) if wrong == "pipeline" else NUMBERS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        with pytest.raises(rs.ResumableError) as told:
            checkpointer.resume(pipeline, step=7 if wrong == "step" else None)
    assert is_free(tmp_path), told


def test_a_resume_beside_a_running_writer_does_no_harm(tmp_path: Path) -> None:
    run_loop(NUMBERS, tmp_path, rs.EverySteps(5), 10)
    checkpointer, loop = resumed(tmp_path)
    next(loop)
    (tmp_path / ".tmp-input-0123456789abcdef").write_bytes(b"being written")
    (tmp_path / "input-000000000099.ckpt").write_bytes(b"being copied")
    before = sorted(os.listdir(tmp_path))
    for step in (None, 5, 0):
        with pytest.raises(rs.NameInUse):
            resumed(tmp_path, step=step)
    assert sorted(os.listdir(tmp_path)) == before
    (tmp_path / "input-000000000099.ckpt").unlink()
    assert len(list(loop)) == 9
    checkpointer.close()


def test_readers_need_no_lock(tmp_path: Path) -> None:
    checkpointer, loop = resumed(tmp_path)
    assert [next(loop) for _ in range(5)] == [0, 1, 2, 3, 4]
    reader = rs.Checkpointer(tmp_path, rs.AtEnd())
    latest = reader.latest()
    assert latest is not None
    assert (latest.step, reader.load(2).step, reader.steps()) == (4, 2, [2, 4])
    assert fork_command(tmp_path, "inspect", ".").returncode == 0
    checkpointer.close()


@pytest.mark.filterwarnings("ignore:this run had come to its end")
class TestTheFile:
    """What is locked is never deleted, may hold anything, and must be a regular file."""

    def test_it_stays_and_says_who_locked_it_last(self, tmp_path: Path) -> None:
        for _ in range(2):
            run_loop(NUMBERS, tmp_path, rs.EverySteps(5))
            found = json.loads((tmp_path / ".lock-input").read_bytes())
            assert (found["host"], found["process"]) == (platform.node(), os.getpid())

    @pytest.mark.parametrize(
        "content", [b"", b"{", b"[" * 5000, b"\xff", b"[1]", b'{"host": 3}', b"null"]
    )
    def test_it_may_hold_anything(self, tmp_path: Path, content: bytes) -> None:
        path = tmp_path / ".lock-input"
        path.write_bytes(content)
        with rs.Checkpointer(tmp_path, rs.AtEnd()) as checkpointer:
            checkpointer.resume(NUMBERS)
            path.write_bytes(content)
            with pytest.raises(rs.NameInUse, match="written by another process") as told:
                resumed(tmp_path)
            assert (told.value.host, told.value.process) == (None, None)

    @pytest.mark.parametrize("kind", ["fifo", "folder", "link"])
    def test_it_must_be_a_regular_file(self, tmp_path: Path, kind: str) -> None:
        path = tmp_path / ".lock-input"
        if kind == "fifo":
            os.mkfifo(path)
        elif kind == "folder":
            path.mkdir()
        else:
            path.symlink_to(tmp_path / "elsewhere")
        before = open_descriptors()
        with pytest.raises(OSError, match=r"\.lock-input"):
            resumed(tmp_path)
        assert open_descriptors() == before
        assert not (tmp_path / "elsewhere").exists()

    @needs_linux
    @pytest.mark.parametrize("made", [False, True])
    def test_where_nothing_may_be_written_a_resume_reads(self, tmp_path: Path, made: bool) -> None:
        with rs.Checkpointer(tmp_path, rs.EverySteps(5)) as checkpointer:
            list(checkpointer.resume(NUMBERS))
        if not made:
            (tmp_path / ".lock-input").unlink()
        code = (
            "import os, pathlib, warnings\nimport resumable as rs\n"
            "warnings.filterwarnings('ignore', 'this run had come to its end')\n"
            "store = rs.Directory('.')\n"
            "store.folder = pathlib.Path('.')  # the folders above may be closed to others\n"
            "os.chmod('.', 0o555)\nos.geteuid() or os.seteuid(65534)\n"
            f"assert store.lock().is_held is {made}\n"
            "loop = rs.Checkpointer(store, rs.EverySteps(5)).resume(rs.range(20), step=20)\n"
            "assert (list(loop), loop.step) == ([], 20)\n"
        )
        done = run_code(code, folder=tmp_path)
        assert done.returncode == 0, done.stderr


@pytest.mark.filterwarnings("ignore:this run had come to its end")
class TestWithoutLocks:
    """A file system without locks, or without room for the file: a warning, and the loop runs."""

    @pytest.fixture(autouse=True, params=[errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
    def no_locks(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(descriptor: int) -> None:
            raise OSError(request.param, os.strerror(request.param))

        monkeypatch.setattr(locking, "lock", refuse)

    def test_a_loop_runs_after_one_warning_a_folder(self, tmp_path: Path) -> None:
        before = open_descriptors()
        for folder in (tmp_path / "a", tmp_path / "b"):
            with pytest.warns(RuntimeWarning, match=f"{folder} can be locked") as told:
                assert run_loop(NUMBERS, folder, rs.EverySteps(5)) == list(NUMBERS)
            assert Path(told[0].filename).name == "saving_loops.py"
            assert run_loop(NUMBERS, folder, rs.EverySteps(5)) == []
        assert open_descriptors() == before

    def test_unfinished_files_may_be_another_ones_and_stay(self, tmp_path: Path) -> None:
        (tmp_path / ".tmp-input-0123456789abcdef").write_bytes(b"being written")
        with pytest.warns(RuntimeWarning, match="can be locked"):
            run_loop(NUMBERS, tmp_path, rs.EverySteps(5))
        assert unfinished_in(tmp_path) == [".tmp-input-0123456789abcdef"]

    def test_a_second_writer_replaces_nothing(self, tmp_path: Path) -> None:
        with pytest.warns(RuntimeWarning, match="can be locked"):
            (first, ours), (second, theirs) = resumed(tmp_path), resumed(tmp_path)
        assert [next(ours) for _ in range(3)] == [0, 1, 2]
        kept = rs.Directory(tmp_path).load(2)
        with pytest.raises(rs.SaveError, match="a checkpoint for step 2 already"):
            list(theirs)
        assert rs.Directory(tmp_path).load(2) == kept
        assert len(list(ours)) == 17
        first.close()
        second.close()


def test_what_was_unfinished_goes_once_the_name_is_held(tmp_path: Path) -> None:
    (tmp_path / ".tmp-input-0123456789abcdef").write_bytes(b"unfinished")
    (tmp_path / ".tmp-other-0123456789abcdef").write_bytes(b"being written")
    run_loop(NUMBERS, tmp_path, rs.EverySteps(20))
    assert files_in(tmp_path) == [".tmp-other-0123456789abcdef", "input-000000000020.ckpt"]


CODES = [errno.EIO, errno.ENOSPC, errno.EINTR, errno.EROFS, errno.EACCES, errno.EMFILE]


@needs_linux
@pytest.mark.parametrize("code", CODES, ids=errno.errorcode.get)
@pytest.mark.parametrize("lasting", [False, True], ids=["once", "lasting"])
def test_whichever_call_of_a_lock_fails_it_is_held_or_nothing_is(
    tmp_path: Path, code: int, lasting: bool
) -> None:
    store = rs.Directory(tmp_path)
    with faulty_os() as system:
        store.lock().close()
    assert {"open", "fstat", "ftruncate", "write", "close"} <= {*system.calls}
    before = open_descriptors()
    for fault in faults(system.calls, code, lasting=lasting):
        locking._warned.clear()
        lock = None
        with warnings.catch_warnings(), suppress(OSError), faulty_os(fault) as system:
            warnings.simplefilter("ignore", RuntimeWarning)
            lock = store.lock()
        held = lock is not None and lock.is_held
        assert held is not is_free(tmp_path), (fault, system.calls)
        if lock is not None:
            with faulty_os(Fault(0, code)):
                lock.close()
        assert open_descriptors() == before, (fault, system.calls)
        assert is_free(tmp_path), (fault, system.calls)
