"""Whole files as items: their order, their identity, and what becomes of a file that changes."""

from __future__ import annotations

import os
import pickle
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import resumable as rs


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    for name in ("b/2.bin", "a/1.bin", "a/\u00fc" + "x" * 120 + ".bin", "c/empty.bin"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"" if "empty" in name else name.encode())
    return folder


def test_files_are_paths_or_bytes_in_order(folder: Path) -> None:
    expected = sorted(str(path) for path in folder.glob("*/*.bin"))
    assert list(rs.files(folder / "*" / "*.bin")) == expected
    contents = [Path(path).read_bytes() for path in expected]
    assert list(rs.files(folder / "*" / "*.bin", read=True)) == contents
    files = rs.files([folder / "c/empty.bin", folder / "a/1.bin"], read=True)
    assert list(files) == [b"", b"a/1.bin"]
    assert files.gather(np.array([1, 0, 1])) == [b"a/1.bin", b"", b"a/1.bin"]


def test_a_resume_goes_on_in_another_folder_with_files_of_these_names_and_sizes(
    folder: Path, tmp_path: Path
) -> None:
    pattern = os.path.join("*", "*.bin")
    iterator = iter(rs.files(folder / pattern, read=True).shuffle(1))
    first = list(islice(iterator, 2))
    state = iterator.get_state()
    moved = folder.rename(tmp_path / "moved")
    files = rs.files(moved / pattern, read=True).shuffle(1)
    assert first + list(files.resume(state)) == list(files)
    (moved / "b" / "2.bin").rename(moved / "c" / "2.bin")
    with pytest.raises(rs.StateMismatch, match=r"Files at .*files"):
        rs.files(moved / pattern, read=True).shuffle(1).resume(state)
    paths = rs.files(moved / pattern)
    with pytest.raises(rs.StateMismatch, match="read"):
        paths.resume(iter(rs.files(moved / pattern, read=True)).get_state())


@pytest.mark.parametrize("content", [b"other", b"longer than before", b""])
def test_a_file_that_changes_is_an_error(folder: Path, content: bytes) -> None:
    path = folder / "a" / "1.bin"
    files = rs.files([path, folder / "b" / "2.bin"], read=True)
    os.utime(path, ns=(0, 0))
    path.write_bytes(content)
    with pytest.raises(rs.MalformedItem, match=r"1\.bin changed since the pipeline was built"):
        list(files)
    assert files[1] == b"b/2.bin"


def test_a_file_that_becomes_a_folder_or_goes_is_an_error(folder: Path) -> None:
    path = folder / "a" / "1.bin"
    files = rs.files(path, read=True)
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"1\.bin"):
        files[0]
    path.mkdir()
    with pytest.raises(rs.MalformedItem, match="changed"):
        files[0]


def test_only_regular_files_are_taken(folder: Path) -> None:
    with pytest.raises(rs.InvalidArgument, match=r"must name regular files, got .*data"):
        rs.files(folder)
    os.mkfifo(folder / "fifo")
    with pytest.raises(rs.InvalidArgument, match="must name regular files"):
        rs.files([folder / "fifo"], read=True)


def test_files_can_be_pickled(folder: Path) -> None:
    files = rs.files(folder / "*" / "*.bin", read=True)
    expected = list(files)
    copy: rs.Pipeline[Any] = pickle.loads(pickle.dumps(files))
    (folder / "a" / "new.bin").write_bytes(b"not among the files that were found")
    assert list(copy) == expected
    assert copy.fingerprint == files.fingerprint


def test_files_are_open_only_while_they_are_read(tmp_path: Path) -> None:
    for number in range(50):
        (tmp_path / f"{number:02}").write_bytes(b"%d" % number)
    before = len(os.listdir("/proc/self/fd"))
    iterator = iter(rs.files(tmp_path / "*", read=True))
    assert list(islice(iterator, 40)) == [b"%d" % number for number in range(40)]
    assert len(os.listdir("/proc/self/fd")) == before


def test_paths_read_nothing(folder: Path) -> None:
    files = rs.files(folder / "*" / "*.bin")
    for path in files:
        Path(path).unlink()
    assert len(list(files)) == 4


def test_paths_need_an_order(tmp_path: Path) -> None:
    for paths in ({"a", "b"}, frozenset("a")):
        with pytest.raises(
            rs.InvalidType, match=r"paths must have an order, .* pass sorted\(paths\)"
        ):
            rs.files(paths)
