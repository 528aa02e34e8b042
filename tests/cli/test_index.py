"""`resumable index`: what it builds, leaves and reports."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

import resumable as rs
from resumable.cli.main import main
from resumable.formats.index import record_index

LINES = 20_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files of lines that share a cache, one of JSON lines and an archive that have their own."""
    (tmp_path / "large.txt").write_bytes(b"a line\n" * LINES)
    (tmp_path / "large.jsonl").write_bytes(b'{"a": 1}\n\n' * LINES)
    for number in range(20):
        (tmp_path / f"small-{number}.txt").write_bytes(b"a line of text\n" * 400)
    with tarfile.open(tmp_path / "0.tar", "w") as tar:
        tar.add(tmp_path / "large.txt", "a.txt")
        tar.add(tmp_path / "large.txt", "b.txt")
    return tmp_path


def test_files_are_indexed_by_their_names_and_opened_without_a_scan(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["index", str(folder / "*"), "--workers", "3"]) == 0
    printed = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert printed[0] == ["format", "files", "records"]
    assert ["lines", "21", f"{LINES + 20 * 400:,}"] in printed
    assert ["jsonl", "1", f"{LINES:,}"] in printed
    assert ["tar", "1", "2"] in printed
    assert {path.name for path in folder.glob("*.idx")} == {
        ".folder.lines.idx",
        "large.jsonl.lines.idx",
        "0.tar.tar.idx",
    }

    def scanned(*_: object) -> None:
        raise AssertionError("scanned again")

    monkeypatch.setattr(record_index, "scanned", scanned)
    assert len(rs.lines(folder / "*.txt")) == LINES + 20 * 400
    assert len(rs.jsonl(folder / "*.jsonl")) == LINES
    assert len(rs.tar(folder / "*.tar")) == 2
    assert main(["index", str(folder / "*")]) == 0


def test_the_format_and_the_folder_of_the_indexes_can_be_chosen(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = folder / "indexes"
    path = str(folder / "large.jsonl")
    assert main(["index", path, "--format", "lines", "--index-dir", str(where)]) == 0
    assert f"{2 * LINES:,}" in capsys.readouterr().out
    assert len(list(where.iterdir())) == 1
    assert not list(folder.glob("*.idx"))


def test_files_behind_urls_are_indexed_in_a_folder(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("fsspec", "tenacity"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    url, local, where = (
        "file://" + str(folder / "*"),
        str(folder / "0.tar"),
        str(folder / "indexes"),
    )
    assert main(["index", url + ".jsonl", url + ".txt", local, "--index-dir", where]) == 0
    printed = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["lines", "21", f"{LINES + 20 * 400:,}"] in printed
    assert ["jsonl", "1", f"{LINES:,}"] in printed
    assert ["tar", "1", "2"] in printed

    def scanned(*_: object) -> None:
        raise AssertionError("scanned again")

    monkeypatch.setattr(record_index, "scanned", scanned)
    assert len(rs.lines(url + ".txt", index_dir=where)) == LINES + 20 * 400
    assert len(rs.jsonl(url + ".jsonl", index_dir=where)) == LINES
    assert main(["index", local, url + ".jsonl"]) == 2
    assert "--index-dir must say where the index of a URL is kept" in capsys.readouterr().err
    assert main(["index", url + ".none", "--index-dir", where]) == 2
    assert "paths must match at least one file" in capsys.readouterr().err


def test_what_cannot_be_indexed_is_named_and_the_rest_is_done(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "more.jsonl.gz").write_bytes(b"\x1f\x8b")
    assert main(["index", str(folder / "*.gz"), str(folder / "large.txt"), str(folder / "no")]) == 1
    printed = capsys.readouterr()
    assert "more.jsonl.gz is compressed, and read as a stream" in printed.err
    assert "No such file" in printed.err
    assert (folder / "large.txt.lines.idx").exists()
    assert main(["index", str(folder / "*.none")]) == 2
    assert "paths must match at least one file" in capsys.readouterr().err


@pytest.mark.parametrize("workers", [0, -1])
def test_fewer_than_one_worker_are_refused(
    workers: int, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["index", str(folder / "*"), "--workers", str(workers)])
    assert end.value.code == 2
    assert f"--workers: must be at least 1, got {workers}" in capsys.readouterr().err
