"""`resumable index`: what it builds, leaves and reports."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from formats.http_files import FileServer, serving
from support.s3_server import s3_server

import resumable as rs
from resumable.cli import parsers
from resumable.cli.main import main
from resumable.formats.index import record_index
from resumable.formats.io import remote

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
    for package in ("fsspec", "aiohttp"):
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


@pytest.fixture
def http_server() -> Iterator[FileServer]:
    for package in ("fsspec", "aiohttp"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    with serving() as server:
        yield server


def test_a_server_that_cannot_be_reached_is_named_at_once(
    http_server: FileServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    http_server.faults, http_server.often = ("503",), 1.0
    url = f"{http_server.address}/a.txt"
    command = ["index", url, "--index-dir", str(tmp_path)]
    assert main(command) == 2
    assert [method for method, _, _ in http_server.requests].count("HEAD") == 1
    assert f"{url} could not be read: attempt 1 of 1 ended with" in capsys.readouterr().err

    http_server.requests.clear()
    assert main([*command, "--storage-option", 'retry={"attempts": 3, "wait": 0}']) == 2
    assert [method for method, _, _ in http_server.requests].count("HEAD") == 3


def test_what_fails_for_the_moment_while_a_file_is_read_is_tried_again(
    http_server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    http_server.files["/a.txt"] = b"a line\n" * 2000
    find = remote.found_remote_files

    def found_then_failing(*arguments: Any) -> Any:
        found = find(*arguments)
        http_server.faults, http_server.often = ("503",), 0.5
        return found

    monkeypatch.setattr("resumable.cli.index.found_remote_files", found_then_failing)
    options = [
        "--index-dir",
        str(tmp_path),
        "--storage-option",
        'retry={"attempts": 20, "wait": 0}',
    ]
    assert main(["index", f"{http_server.address}/a.txt", *options]) == 0


def test_storage_options_reach_the_file_system(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("aiohttp", reason="aiohttp is not installed")
    with s3_server({"x/a.txt": b"a line\n" * 30, "x/b.txt": b"a line\n" * 12}) as address:
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
        named = {"endpoint_url": address, "key": "key", "secret": "a5ecret", "use_ssl": "false"}
        options = [f"--storage-option={name}={value}" for name, value in named.items()]
        where = ["--index-dir", str(tmp_path / "index")]
        assert main(["index", "s3://bucket/x/*.txt", *where, *options]) == 0
        assert ["lines", "2", "42"] in [
            line.split() for line in capsys.readouterr().out.splitlines()
        ]
        storage_options = {"endpoint_url": address, "key": "key", "secret": "a5ecret"}
        urls = "s3://bucket/x/*.txt"
        assert (
            len(rs.lines(urls, index_dir=tmp_path / "index", storage_options=storage_options)) == 42
        )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("anon=true", True),
        ("anon=False", False),
        ("profile=mine", "mine"),
        ('client_kwargs={"region_name": "eu"}', {"region_name": "eu"}),
        ("timeout=5", 5),
        ("token=", ""),
        ("key=a=b", "a=b"),
    ],
)
def test_a_storage_option_is_json_or_a_string(text: str, value: object) -> None:
    assert parsers._storage_option(text) == (text.partition("=")[0], value)


def test_storage_options_without_a_url_or_a_name_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["index", str(folder / "large.txt"), "--storage-option", "anon=true"]) == 2
    assert "--storage-option needs a URL" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["index", "s3://bucket/a", "--storage-option", "-=a5ecret"])
    assert "a5ecret" not in capsys.readouterr().err
