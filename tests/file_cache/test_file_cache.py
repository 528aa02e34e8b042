"""The arguments of a cache, and what the command shows of one."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from campaigns import cache_kills
from file_cache.remote import PART, File, Network, Span, opened, some_files
from support.command import call_command

import resumable as rs
from resumable.file_cache.plan import NextUses


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"folder": 7}, rs.InvalidType, "folder must be a path, got 7"),
        ({"max_bytes": 1.5}, rs.InvalidType, "max_bytes must be an integer"),
        ({"max_bytes": 400_000}, rs.InvalidArgument, "got 400000; or set part_bytes to at most 99"),
        ({"max_bytes": 200_000}, rs.InvalidArgument, "got 200000$"),
        ({"part_bytes": 1}, rs.InvalidArgument, "part_bytes must be at least 65536, got 1"),
        ({"part_bytes": 1 << 27}, rs.InvalidArgument, r"part_bytes must be at most 2\*\*26"),
        ({"read_ahead": -1}, rs.InvalidArgument, "read_ahead must be at least 0, got -1"),
        ({"on_full": "ignore"}, rs.InvalidArgument, "on_full must be .*'warn'.*got 'ignore'"),
    ],
)
def test_bad_arguments_are_refused_with_their_names(
    tmp_path: Path, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    arguments: dict[str, Any] = {"folder": tmp_path, "max_bytes": 1 << 30} | options
    with pytest.raises(error, match=message):
        rs.FileCache(**arguments)


def test_a_cache_is_the_same_after_pickling(tmp_path: Path) -> None:
    cache = rs.FileCache(tmp_path / ".." / tmp_path.name, 1 << 30)
    assert pickle.loads(pickle.dumps(cache)) == cache
    assert cache.path == str(tmp_path)


def test_the_command_shows_the_files_and_removes_only_what_is_of_the_cache(
    tmp_path: Path,
) -> None:
    cache = rs.FileCache(tmp_path, 1 << 30, PART)
    file = File(
        "https://me:secret@host/data/1.tar?signature=secret", some_files(3 * PART)[0].content
    )
    reader = opened(cache)
    reader.read([Span(file, 0, PART)], Network())
    (tmp_path / "notes.txt").write_text("mine")
    (part,) = tmp_path.rglob("*.part")
    (part.parent / "more.txt").write_text("mine")
    shown = call_command(tmp_path, "cache", str(tmp_path))
    assert "https://host/data/1.tar" in shown.stdout
    assert "33 %" in shown.stdout
    assert "1 parts of 1 files" in shown.stdout
    assert "used by 1 processes" in shown.stdout
    assert not [
        path for path in tmp_path.rglob("*") if path.is_file() and b"secret" in path.read_bytes()
    ]
    reader.close()
    assert (
        "65,568 bytes removed" in call_command(tmp_path, "cache", str(tmp_path), "--clear").stdout
    )
    left = sorted(path.name for path in tmp_path.rglob("*") if path.is_file())
    assert left == ["more.txt", "notes.txt"]
    assert call_command(tmp_path, "cache", str(tmp_path / "none")).returncode == 2


def test_a_plan_that_is_cut_short_is_none() -> None:
    import numpy as np

    codes = np.array([3, 1, 3], np.uint64)
    uses = NextUses.first_of(codes, np.array([7, 2, 5]), np.array([9], np.uint64))
    assert uses.of(np.array([1, 2, 3], np.uint64)).tolist() == [2, -1, 5]
    data = uses.to_bytes()
    read = NextUses.from_bytes(data)
    assert read is not None
    assert [column.tolist() for column in read] == [[1, 3], [2, 5], [9]]
    for end in range(len(data)):
        assert NextUses.from_bytes(data[:end]) is None


def test_processes_that_are_killed_and_a_folder_that_is_damaged_change_no_byte(
    tmp_path: Path,
) -> None:
    report = cache_kills.campaign(kills=6, seed=0, folder=tmp_path)
    assert not report.problems
