"""The last lines of a file that grows."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resumable.checkpoint.last_lines import AT_FIRST, AT_MOST, last_lines


def number(line: bytes) -> int | None:
    return int(line.lstrip(b"0")) if line.isdigit() else None


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lines") / "stats.jsonl"


PIECES = st.lists(
    st.sampled_from([b"1", b"22", b"x", b"", b"\xff\x00", b"y" * AT_FIRST]), max_size=9
)


@given(PIECES, st.booleans(), st.integers(1, 3))
def test_the_last_lines_that_mean_something_are_found(
    file: Path, pieces: list[bytes], ended: bool, count: int
) -> None:
    file.write_bytes(b"\n".join(pieces) + b"\n" * ended)
    meant = [int(piece) for piece in pieces if piece.isdigit()]
    assert last_lines(file, count, number) == meant[-count:]


@pytest.mark.parametrize("short", [1, 2, 5])
def test_a_line_that_is_cut_short_does_not_hide_the_others(file: Path, short: int) -> None:
    file.write_bytes(b"11\n22\n[33333"[:-short])
    assert last_lines(file, 2, number) == [11, 22]


def test_of_a_long_file_only_the_end_is_read(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_bytes(b"7\n" * AT_MOST)
    read: list[bytes] = []

    def note(line: bytes) -> int | None:
        read.append(line)
        return number(line)

    assert last_lines(file, 2, note) == [7, 7]
    assert len(read) <= 4
    file.write_bytes(b"7\n" + b"x" * (2 * AT_MOST) + b"\n")
    read.clear()
    assert last_lines(file, 2, note) == []
    assert sum(map(len, read)) <= 2 * AT_MOST


def test_a_line_longer_than_the_first_look_is_found_as_a_whole(file: Path) -> None:
    file.write_bytes(b"1" * 2 * AT_FIRST + b"\n22\n")
    assert last_lines(file, 2, lambda line: len(line) or None) == [2 * AT_FIRST, 2]
    file.write_bytes(b"0" * (3 * AT_FIRST) + b"5\n6\n")
    assert last_lines(file, 2, number) == [5, 6]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes with names")
def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        last_lines(tmp_path / "pipe", 1, number)
    with pytest.raises(FileNotFoundError):
        last_lines(tmp_path / "nothing", 1, number)
