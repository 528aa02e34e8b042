"""Every store obeys the same rules; a directory survives what files suffer."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import resumable as rs

STORES: dict[str, Callable[[Path], rs.Store]] = {
    "directory": lambda folder: rs.Directory(folder / "store"),
    "memory": lambda folder: rs.Memory(),
}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> rs.Store:
    return STORES[request.param](tmp_path)


def test_what_was_saved_is_loaded(store: rs.Store) -> None:
    assert store.steps() == []
    for step in (7, 0, 10**13, 300):
        store.save(step, b"%d" % step)
    assert store.steps() == [0, 7, 300, 10**13]
    assert [store.load(step) for step in store.steps()] == [b"0", b"7", b"300", b"10000000000000"]


def test_a_step_is_never_saved_over(store: rs.Store) -> None:
    store.save(3, b"first")
    with pytest.raises(FileExistsError, match="step 3"):
        store.save(3, b"second")
    assert store.load(3) == b"first"


def test_saving_the_same_again_is_success(store: rs.Store) -> None:
    assert store.save(3, b"first") == store.save(3, b"first")
    for other in (b"", b"firs", b"first ", b"First"):
        with pytest.raises(FileExistsError, match="step 3"):
            store.save(3, other)
    assert (store.steps(), store.load(3)) == ([3], b"first")


def test_what_is_missing_is_said_to_be(store: rs.Store) -> None:
    with pytest.raises(FileNotFoundError):
        store.load(3)


def test_setting_aside_keeps_it_out_of_the_steps(store: rs.Store) -> None:
    assert not store.has_damaged()
    for _ in range(3):
        store.save(3, b"x")
        assert "superseded" in store.set_aside(3, "superseded")
    assert not store.has_damaged()
    store.save(3, b"x")
    store.set_aside(3, "damaged")
    assert store.steps() == []
    assert store.has_damaged()


def test_names_share_a_directory_without_touching_each_other(tmp_path: Path) -> None:
    training, other = rs.Directory(tmp_path, "training"), rs.Directory(tmp_path, "input_worker_3")
    training.save(1, b"a")
    other.save(2, b"b")
    assert (training.steps(), other.steps()) == ([1], [2])
    assert sorted(os.listdir(tmp_path)) == [
        "input_worker_3-000000000002.ckpt",
        "training-000000000001.ckpt",
    ]


def test_strangers_are_left_alone(tmp_path: Path) -> None:
    for name in ("input-1.ckpt", "input-000000000001.ckpt.damaged", "other", "input-x.ckpt"):
        (tmp_path / name).write_text("x")
    store = rs.Directory(tmp_path)
    assert store.steps() == []
    store.save(1, b"x")
    assert len(os.listdir(tmp_path)) == 5


def test_permissions_follow_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        path = rs.Directory(tmp_path).save(1, b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o640


@pytest.mark.parametrize("kind", ["fifo", "folder", "link", "dangling"])
def test_what_is_no_file_is_corrupt_and_never_opened(tmp_path: Path, kind: str) -> None:
    store = rs.Directory(tmp_path)
    path = tmp_path / "input-000000000001.ckpt"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("/etc/passwd" if kind == "link" else "/nowhere")
    with pytest.raises(rs.CorruptCheckpoint):
        store.load(1)
    with pytest.raises(FileExistsError):
        store.save(1, b"x")


def test_too_many_open_files_do_not_damage_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = rs.Directory(tmp_path)
    store.save(1, b"x")

    def refuse(*arguments: Any, **options: Any) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refuse)
        with pytest.raises(OSError, match="Too many"):
            store.load(1)
    assert store.load(1) == b"x"


def test_the_folder_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "scratch")
    rs.Directory(tmp_path / "run").save(1, b"x")
    assert rs.Directory(tmp_path / "scratch").load(1) == b"x"


def noting(real: Any, name: str, calls: list[str]) -> Any:
    def note(*arguments: Any, **options: Any) -> Any:
        calls.append(name)
        return real(*arguments, **options)

    return note


@pytest.mark.parametrize("kind", ["fifo", "folder", "link", "dangling", "file"])
def test_whatever_is_damaged_can_be_set_aside(tmp_path: Path, kind: str) -> None:
    store = rs.Directory(tmp_path)
    for number in ("", ".1"):
        path = tmp_path / "input-000000000001.ckpt"
        if kind == "fifo":
            os.mkfifo(path)
        elif kind == "folder":
            path.mkdir()
        elif kind == "file":
            path.write_bytes(b"x")
        else:
            path.symlink_to("/etc/passwd" if kind == "link" else "/nowhere")
        before = os.lstat(path)
        aside = store.set_aside(1, "damaged")
        assert aside == f"{path}.damaged{number}"
        assert (os.lstat(aside).st_ino, store.steps()) == (before.st_ino, [])


def put_before_link(
    monkeypatch: pytest.MonkeyPatch, path: Path, real: Callable[..., None] = os.link
) -> None:
    """Let another process make the file ``path`` just before the next link, by ``real``."""

    def link(*arguments: Any, **options: Any) -> None:
        monkeypatch.undo()
        path.write_bytes(b"theirs")
        real(*arguments, **options)

    monkeypatch.setattr(os, "link", link)


def no_link(*arguments: Any, **options: Any) -> None:
    raise OSError(errno.EPERM, os.strerror(errno.EPERM))


@pytest.mark.parametrize("real", [os.link, no_link])
def test_a_commit_replaces_none_that_comes_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, real: Callable[..., None]
) -> None:
    store, path = rs.Directory(tmp_path), tmp_path / "input-000000000001.ckpt"
    put_before_link(monkeypatch, path, real)
    with pytest.raises(FileExistsError, match="input-000000000001"):
        store.save(1, b"ours")
    assert os.listdir(tmp_path) == [path.name]
    assert store.load(1) == b"theirs"


def test_setting_aside_replaces_none_that_comes_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = rs.Directory(tmp_path)
    store.save(1, b"ours")
    aside = tmp_path / "input-000000000001.ckpt.superseded"
    put_before_link(monkeypatch, aside)
    with pytest.raises(FileExistsError, match="superseded"):
        store.set_aside(1, "superseded")
    assert (aside.read_bytes(), store.load(1)) == (b"theirs", b"ours")
    assert store.set_aside(1, "superseded") == f"{aside}.1"


def test_a_step_that_is_there_already_is_synced_with_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, synced = rs.Directory(tmp_path), list[str]()
    path = store.save(1, b"x")
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    store.save(1, b"x")
    assert synced[-2:] == [path, str(tmp_path)]


def test_the_order_of_the_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    store = rs.Directory(tmp_path)
    for name in ("write", "fsync", "link", "unlink"):
        monkeypatch.setattr(os, name, noting(getattr(os, name), name, calls))
    store.save(1, b"x")
    assert calls == ["write", "fsync", "link", "unlink", "fsync"]
