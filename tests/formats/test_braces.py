"""Braces in paths, as bash expands them, and paths in lists of lists."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import resumable as rs
from resumable.formats.io import braces
from resumable.formats.io.braces import expanded

# The one of macOS is too old to pad numbers.
needs_bash = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("bash") is None, reason="needs a bash of today"
)

ends = st.one_of(
    st.integers(-12, 12).map(str),
    st.integers(0, 120).map("{:03}".format),
    st.sampled_from("abcxyz"),
    st.sampled_from("ABCXYZ"),
)
steps = st.one_of(st.just(""), st.integers(-4, 4).map("..{}".format))
sequences = st.builds("{{{}..{}{}}}".format, ends, ends, steps).filter(
    # Between capitals and small letters bash counts signs that a shell takes for more than letters.
    lambda text: (
        not (text[1].isalpha() and text[4].isalpha() and text[1].islower() != text[4].islower())
    )
)
# Braces in pairs, and dots in sequences only: of others, bash makes something of its own.
pieces = st.one_of(sequences, st.text("ab,-", min_size=1, max_size=6))
patterns = st.recursive(
    st.lists(pieces, min_size=1, max_size=4).map("".join),
    lambda inner: st.lists(inner, min_size=1, max_size=3).map(
        lambda some: "{" + ",".join(some) + "}"
    ),
    max_leaves=6,
)


@needs_bash
@given(st.lists(patterns.filter(lambda text: len(expanded(text)) < 500), min_size=1, max_size=20))
def test_braces_are_expanded_as_bash_does(texts: list[str]) -> None:
    # Before each an `x`, since bash drops words that are empty.
    script = "".join(f"printf '%s\\n' x{text}; echo; " for text in texts)
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    theirs = [part.splitlines() for part in done.stdout.split("\n\n")[:-1]]
    assert [expanded(f"x{text}") for text in texts] == theirs


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "{",
        "}",
        "{}",
        "{a}",
        "{1..}",
        "{1..2",
        "a{b",
        "{..}",
        "{a..5}",
        "{1.5..2}",
        "{1..٣}",
        f"{{0..{10**18}}}",
    ],
)
def test_what_is_no_list_and_no_sequence_stays(text: str) -> None:
    assert expanded(text) == [text]


def test_a_pattern_of_too_many_paths_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(braces, "MOST_PATHS", 1000)
    with pytest.raises(rs.InvalidArgument, match="paths must name at most 1000 files, got"):
        rs.lines("x-{0..99999999}{0..99999999}")


@pytest.fixture
def shards(tmp_path: Path) -> list[str]:
    for number in range(8, 13):
        (tmp_path / f"part-{number:02}.txt").write_text(f"{number}\n")
    return [str(tmp_path / f"part-{number:02}.txt") for number in range(8, 13)]


def items(paths: Any, **options: Any) -> list[Any]:
    return list(rs.lines(paths, encoding="utf-8", **options))


def test_braces_patterns_and_lists_of_lists_name_the_same_files(
    shards: list[str], tmp_path: Path
) -> None:
    expected = items(shards)
    assert items(f"{tmp_path}/part-{{08..12}}.txt") == expected
    assert items(f"{tmp_path}/part-{{0,1}}*.txt") == expected
    assert items([shards[:2], (shards[2], [tmp_path / "part-{11,12}.txt"])]) == expected
    assert items(f"{tmp_path}/part-{{12,08}}.txt") == ["12", "8"]
    assert items([f"{tmp_path}/**/part-08.txt"]) == ["8"]
    whole, first = rs.lines(f"{tmp_path}/part-{{08..12}}.txt"), rs.lines(shards)
    state = iter(whole).get_state()
    with first.resume(state) as iterator:
        assert len(list(iterator)) == 5


def test_a_shard_that_is_missing_is_named(shards: list[str], tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"part-13\.txt"):
        rs.lines(f"{tmp_path}/part-{{08..13}}.txt")
    with pytest.raises(rs.InvalidArgument, match=r"at least one file, got .*part-2\*"):
        rs.lines(f"{tmp_path}/part-{{1,2}}*.txt")


def test_a_file_with_braces_in_its_name_is_itself(tmp_path: Path) -> None:
    (tmp_path / "{a,b}.txt").write_text("braces\n")
    (tmp_path / "a.txt").write_text("a\n")
    assert items(tmp_path / "{a,b}.txt") == ["braces"]
    assert items(f"{tmp_path}/?a,b?.txt") == ["braces"]


@pytest.mark.parametrize("inner", [{"a"}, 3, b"a", iter(["a"])])
def test_a_list_of_something_else_is_refused(inner: Any) -> None:
    with pytest.raises(rs.InvalidType, match="paths must hold paths, got"):
        rs.lines(["a", inner])


def test_urls_have_braces_too(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
    pytest.importorskip("aiohttp", reason="aiohttp is not installed")
    system = fsspec.filesystem("memory")
    for folder in ("en", "de/old"):
        for number in range(3):
            system.pipe(f"/braces/{folder}/{number}.txt", f"{folder} {number}\n".encode())
    try:
        remote = {"index_dir": tmp_path}
        named = [f"{folder} {number}" for folder in ("en", "de/old") for number in range(3)]
        assert items("memory://braces/{en,de/old}/{0..2}.txt", **remote) == named
        assert items("memory://braces/{en,de/old}/*.txt", **remote) == named
        assert items(["memory://braces/{en,de/**}/1.txt"], **remote) == ["en 1", "de/old 1"]
        with pytest.raises(FileNotFoundError, match=r"en/3\.txt"):
            items("memory://braces/en/{2..3}.txt", **remote)
    finally:
        system.rm("/braces", recursive=True)


def test_a_range_of_records_in_a_path_is_answered_with_what_to_write(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("0\n1\n2\n3")
    with pytest.raises(rs.InvalidArgument) as raised:
        rs.lines(f"{path}[1:3]")
    assert str(raised.value).endswith(
        f"for its records 1 to 3, pass {str(path)!r}, and add .skip(1).take(2)"
    )
    assert list(rs.lines(path).skip(1).take(2)) == ["1", "2"]
