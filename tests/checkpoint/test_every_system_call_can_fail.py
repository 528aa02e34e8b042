"""Whichever call of a store fails, the checkpoint is whole or not there, and nothing is lost."""

from __future__ import annotations

import errno
import itertools
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from checkpoint.faulty_os import Fault, FaultyOs, faults, faulty_os, open_descriptors
from support.tiers import thinned

import resumable as rs
from resumable.checkpoint.envelope import encode
from resumable.checkpoint.files import NO_LINKS, write_if_new

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="looks into /proc/self/fd"
)

CODES = [errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EINTR, errno.EROFS, errno.EACCES]
every_code = pytest.mark.parametrize("code", thinned(CODES, 3, __name__), ids=errno.errorcode.get)
once_and_lasting = pytest.mark.parametrize("lasting", [False, True], ids=["once", "lasting"])
with_and_without_links = pytest.mark.parametrize("links", [True, False], ids=["links", "none"])

NAMES = {step: f"input-{step:012d}.ckpt" for step in range(4)}
SMALL = encode(rs.Checkpoint(1, 0.0, {"position": 1}))
LARGE = encode(rs.Checkpoint(1, 0.0, {"buffer": "x" * (1 << 20)}))


def calls_of(action: Callable[[], object], *, links: bool = True) -> list[str]:
    """The calls that ``action`` makes when none fails."""
    with faulty_os(links=links) as system:
        action()
    return system.calls


def failure_of(action: Callable[[], object], code: int) -> OSError | None:
    """What ``action`` raises; None if it returns."""
    failure = None
    try:
        action()
    except OSError as error:
        failure = error
    assert failure is None or failure.errno == code
    return failure


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def check_save(store: rs.Directory, failure: OSError | None, system: FaultyOs) -> None:
    """Step 2 was saved under the fault of ``system``: it is old, new, or in doubt."""
    fault = system.fault
    assert fault is not None
    if failure is None and not fault.late:
        # The link by a rename, and the temporary name by the next resume.
        without_harm = ["unlink"], ["link"] * (fault.code in NO_LINKS)
        assert system.failed in without_harm, "a call that matters failed unnoticed"
    found = failure is None or system.leaves_doubt
    assert store.steps() == ([1, 2] if found else [1])
    if not fault.lasting and system.failed != ["unlink"]:
        assert set(os.listdir(store.folder)) <= set(NAMES.values())
    store.remove_unfinished()
    if 2 not in store.steps():
        store.save(2, b"new")
    store.save(3, b"later")
    assert contents(store.folder) == {NAMES[1]: b"old", NAMES[2]: b"new", NAMES[3]: b"later"}


@every_code
@once_and_lasting
@with_and_without_links
def test_a_save_is_whole_or_not_there(
    tmp_path: Path, code: int, lasting: bool, links: bool
) -> None:
    unharmed = rs.Directory(tmp_path)
    calls = calls_of(lambda: unharmed.save(0, b"x"), links=links)
    assert {"open", "write", "fsync", "close", "link"} <= set(calls)
    assert ("rename" in calls) is not links
    for number, fault in enumerate(faults(calls, code, lasting=lasting)):
        store = rs.Directory(tmp_path / str(number))
        store.save(1, b"old")
        before = open_descriptors()
        with faulty_os(fault, links=links) as system:
            failure = failure_of(partial(store.save, 2, b"new"), code)
        assert open_descriptors() == before, (fault, system.calls)
        check_save(store, failure, system)


@pytest.mark.parametrize("longest", [1, 3, 9])
def test_short_writes_are_completed(tmp_path: Path, longest: int) -> None:
    store = rs.Directory(tmp_path)
    with faulty_os(longest=longest) as system:
        store.save(1, b"0123456789")
    assert system.calls.count("write") == -(-10 // longest)
    assert store.load(1) == b"0123456789"


def test_a_disk_that_takes_nothing_and_says_no_error_is_full(tmp_path: Path) -> None:
    store = rs.Directory(tmp_path)
    with faulty_os(longest=0), pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        store.save(1, b"x")
    assert os.listdir(tmp_path) == []


@every_code
@once_and_lasting
def test_a_save_in_pieces_may_fail_at_any_piece(tmp_path: Path, code: int, lasting: bool) -> None:
    for at in range(1, 5):
        store = rs.Directory(tmp_path)  # a new one, which has nothing of another save to roll back
        with faulty_os(Fault(at, code, lasting), longest=2) as system:
            assert failure_of(partial(store.save, 1, b"01234567"), code)
        assert system.failed[0] == "write"
        assert store.steps() == []
    store.remove_unfinished()
    assert os.listdir(tmp_path) == []


@every_code
@with_and_without_links
def test_a_step_is_not_saved_over_whatever_fails(tmp_path: Path, code: int, links: bool) -> None:
    store = rs.Directory(tmp_path)
    store.save(1, b"first")

    def save() -> None:
        with pytest.raises(OSError):  # noqa: PT011  # the fault, or that there is one already
            store.save(1, b"second")

    for fault in faults(calls_of(save, links=links), code, lasting=False):
        with faulty_os(fault, links=links) as system:
            save()
        assert system.failed
        assert store.load(1) == b"first"
        store.remove_unfinished()
        assert os.listdir(tmp_path) == [NAMES[1]]


@with_and_without_links
def test_a_name_given_by_a_call_that_then_fails_is_given(tmp_path: Path, links: bool) -> None:
    store = rs.Directory(tmp_path)
    calls = calls_of(partial(store.save, 1, SMALL), links=links)
    at = calls.index("link" if links else "rename")
    with faulty_os(Fault(at, errno.EIO, late=True), links=links) as system:
        store.save(2, SMALL)
    assert system.failed
    assert contents(store.folder) == {NAMES[1]: SMALL, NAMES[2]: SMALL}


@every_code
@once_and_lasting
@with_and_without_links
def test_a_file_of_a_folder_is_whole_or_not_there(
    tmp_path: Path, code: int, lasting: bool, links: bool
) -> None:
    calls = calls_of(partial(write_if_new, tmp_path / "unharmed", SMALL), links=links)
    for number, fault in enumerate(faults(calls, code, lasting=lasting)):
        folder = tmp_path / str(number)
        folder.mkdir()
        before = open_descriptors()
        with faulty_os(fault, links=links) as system:
            failure = failure_of(partial(write_if_new, folder / "part", SMALL), code)
        assert open_descriptors() == before, (fault, system.calls)
        assert contents(folder) in ({"part": SMALL}, {} if failure else None)


# Each of them lets go of the interpreter's lock, for which a thread that writes has to wait again
# while the loop computes.
COMMIT = ["open", "write", "fsync", "close", "link", "unlink", "open", "fsync", "close"]


def test_a_save_makes_the_calls_of_a_commit_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = rs.Directory(tmp_path)
    monkeypatch.setattr(os, "urandom", None)
    assert calls_of(partial(store.save, 1, SMALL)) == COMMIT
    assert calls_of(partial(store.save, 2, SMALL)) == COMMIT


def every_folder_is_synced(done: list[str]) -> bool:
    """Whether each that was made was at once written to the disk, or taken away again."""
    steps = [name for name in done if name in {"mkdir", "rmdir", "fsync"}]
    followed = itertools.zip_longest(steps, steps[1:])
    return all(after in {"rmdir", "fsync"} for name, after in followed if name == "mkdir")


@every_code
@once_and_lasting
def test_a_folder_is_made_and_synced_or_made_again(
    tmp_path: Path, code: int, lasting: bool
) -> None:
    calls = calls_of(lambda: rs.Directory(tmp_path / "unharmed" / "b" / "c"))
    for number, fault in enumerate(faults(calls, code, lasting=lasting)):
        if lasting and calls[fault.at] == "stat":
            continue  # a disk that is gone is the next test
        folder = tmp_path / str(number) / "b" / "c"
        before = open_descriptors()
        with faulty_os(fault) as system:
            failure = failure_of(partial(rs.Directory, folder), code)
        assert open_descriptors() == before, (fault, system.calls)
        assert folder.is_dir() or failure is not None
        assert lasting or every_folder_is_synced(system.done), (fault, system.calls)
        with faulty_os() as again:
            rs.Directory(folder).save(1, b"x")
        assert every_folder_is_synced(again.done), (fault, system.calls)


@every_code
def test_a_disk_that_is_gone_is_an_error_of_the_system(tmp_path: Path, code: int) -> None:
    for at in range(3):
        with faulty_os(Fault(at, code, lasting=True)):
            assert failure_of(lambda: rs.Directory(tmp_path / "a" / "b"), code)


@pytest.mark.parametrize("target", [None, "nowhere"])
def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path, target: str | None) -> None:
    if target is None:
        (tmp_path / "taken").write_bytes(b"")
    else:
        (tmp_path / "taken").symlink_to(target)
    with pytest.raises(OSError, match="taken"):
        rs.Directory(tmp_path / "taken")


@every_code
@once_and_lasting
@pytest.mark.parametrize("data", [SMALL, LARGE], ids=["small", "large"])
def test_a_load_is_exact_or_an_error(tmp_path: Path, code: int, lasting: bool, data: bytes) -> None:
    store = rs.Directory(tmp_path)
    store.save(1, data)
    calls = calls_of(lambda: store.load(1))
    assert {"open", "fstat", "read", "close"} <= set(calls)
    for fault in faults(calls, code, lasting=lasting):
        before = open_descriptors()
        # EIO may mean that the disk has lost the content.
        refused = (OSError, rs.CorruptCheckpoint) if code == errno.EIO else (OSError,)
        with faulty_os(fault) as system, suppress(*refused):
            assert store.load(1) == data
            assert system.failed == ["lseek"], "a call that matters failed unnoticed"
        assert open_descriptors() == before, (fault, system.calls)
        assert store.load(1) == data


@pytest.mark.parametrize(
    "data",
    [
        SMALL,
        LARGE,
    ],
    ids=["small", "large"],
)
def test_short_reads_are_completed(tmp_path: Path, data: bytes) -> None:
    store = rs.Directory(tmp_path)
    store.save(1, data)
    with faulty_os(longest=15):
        assert store.load(1) == data


@every_code
@once_and_lasting
@with_and_without_links
def test_setting_aside_loses_nothing(tmp_path: Path, code: int, lasting: bool, links: bool) -> None:
    unharmed = rs.Directory(tmp_path)
    unharmed.save(1, b"x")
    calls = calls_of(lambda: unharmed.set_aside(1, "damaged"), links=links)
    for number, fault in enumerate(faults(calls, code, lasting=lasting)):
        store = rs.Directory(tmp_path / str(number))
        store.save(1, b"x")
        before = open_descriptors()
        with faulty_os(fault, links=links) as system:
            failure = failure_of(partial(store.set_aside, 1, "damaged"), code)
        assert open_descriptors() == before, (fault, system.calls)
        assert failure is not None or (fault.late or system.failed == ["link"])
        if 1 in store.steps():
            store.set_aside(1, "damaged")
        assert contents(store.folder) == {NAMES[1] + ".damaged": b"x"}


@every_code
def test_setting_aside_replaces_none_set_aside_before(tmp_path: Path, code: int) -> None:
    store = rs.Directory(tmp_path)
    for content in (b"first", b"second"):
        store.save(1, content)
        with faulty_os(Fault(0, code)):
            failure_of(lambda: store.set_aside(1, "damaged"), code)
        if 1 in store.steps():
            store.set_aside(1, "damaged")
    assert sorted(contents(tmp_path).values()) == [b"first", b"second"]
