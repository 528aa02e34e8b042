"""A file that is removed or replaced while a run reads is named by the error, in every format."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from support.format_facts import FORMAT_FACTS
from support.tiers import thinned

import resumable as rs

REMOVED = FORMAT_FACTS.merged(lambda facts: facts.removed)
PACKAGES = FORMAT_FACTS.merged(lambda facts: dict.fromkeys(facts.removed, facts.package))
WALKS: dict[str, Callable[[rs.Pipeline[Any]], rs.Pipeline[Any]]] = {
    "in order": lambda p: p,
    "in batches": lambda p: p.batch(2, collate=list),
    "repeated": lambda p: p.repeat(2),
}


def remove(path: Path) -> None:
    path.unlink()


def replace(path: Path) -> None:
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data[: len(data) // 2])


def test_one_of_many_files_that_is_gone_is_named(tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / f"{number:03}.txt").write_text(f"{number}\n")
    pipeline = rs.lines(tmp_path / "*.txt").shuffle(0)
    gone = tmp_path / "100.txt"
    remove(gone)
    with pytest.raises(
        rs.ReadError, match=f"could not be read: No such file or directory: '{gone}'"
    ):
        list(pipeline)
    with pytest.raises(
        rs.ReadError, match=f"could not be read: No such file or directory: '{gone}'"
    ):
        rs.lines(gone)


def data_of(folder: Path) -> list[Path]:
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return [one for one in found if one.suffix not in {".json", ".idx", ".txn", ".manifest"}]


@pytest.mark.parametrize(("walk", "size"), thinned(product(WALKS, [20, 200_000]), 3, "removed"))
@pytest.mark.parametrize("change", [remove, replace])
@pytest.mark.parametrize("name", REMOVED)
def test_the_file_that_is_gone_is_named(
    tmp_path: Path, name: str, walk: str, change: Callable[[Path], None], size: int
) -> None:
    if (package := PACKAGES[name]) is not None:
        pytest.importorskip(package)
    make = REMOVED[name]
    expected = list(WALKS[walk](make(tmp_path, b"x" * size)))
    pipeline = WALKS[walk](make(tmp_path, b"x" * size))
    *_, last = data_of(tmp_path)
    error: Exception | None = None
    with iter(pipeline) as iterator:
        next(iterator)
        change(last)
        try:
            rest = list(iterator)
        except (rs.ReadError, rs.MalformedItem) as raised:
            error = raised
    if error is None:  # it was in memory
        assert len(rest) == len(expected) - 1
    else:
        assert str(last) in str(error) or name == "lance"
        assert change is replace or isinstance(error, rs.ReadError)


def test_a_replaced_tar_is_named_among_many_when_a_run_resumes(tmp_path: Path) -> None:
    for number in range(300):
        write_tar(tmp_path / f"{number:04}.tar", b"%05d" % number)
    with iter(rs.tar(tmp_path / "*.tar")) as iterator:
        next(iterator)
        state = iterator.get_state()
    write_tar(tmp_path / "0123.tar", b"other")
    os.utime(tmp_path / "0123.tar", (2**31, 2**31))
    named = r"from 0112.tar to 0130.tar \(perhaps .*0123.tar, modified last\) has other content"
    with pytest.raises(rs.StateMismatch, match=named):
        rs.tar(tmp_path / "*.tar").resume(state)


def write_tar(path: Path, content: bytes) -> None:
    with tarfile.open(path, "w") as tar:
        member = tarfile.TarInfo("0.txt")
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))
