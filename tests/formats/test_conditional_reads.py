"""A remote file that has changed is refused, whatever its server makes of conditions."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from formats.http_files import AT_ONCE, FileServer
from support.s3_server import s3_server

import resumable as rs
from resumable.formats import read_planner
from resumable.formats.io import conditional, stored_files

pytest.importorskip("fsspec", reason="fsspec is not installed")
pytest.importorskip("aiohttp", reason="aiohttp is not installed")

LINES = [f"line {number} {'y' * 4000}" for number in range(1000)]
TEXT = "\n".join(LINES).encode()
OTHER = "\n".join(reversed(LINES)).encode()
CHANGED = r"changed since the pipeline was built"


@pytest.fixture(autouse=True)
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_files, "FIRST_RANGE", 512)
    monkeypatch.setattr(stored_files, "SMALL_RANGE", 512)
    monkeypatch.setattr(stored_files, "LARGEST_RANGE", 1 << 20)
    monkeypatch.setattr(read_planner, "LARGEST_RUN", 1 << 15)
    monkeypatch.setattr(conditional, "servers_without_tags", set())


def found(server: FileServer, tag: str, index_dir: Path | None = None) -> rs.Pipeline[Any]:
    server.files, server.tags = {"/a.txt": TEXT}, {"/a.txt": tag}
    url = f"{server.address}/a.txt"
    retry = AT_ONCE | {"timeout": 20}
    options = {"retry": retry, "read": {"ahead": 0}}  # so that all is read after a change
    lines = rs.lines(url, storage_options=options, index_dir=index_dir)
    server.requests.clear()
    return lines


def asked(server: FileServer) -> Counter[str]:
    methods = Counter(method for method, _, _ in server.requests)
    server.requests.clear()
    return methods


SERVERS = [
    (conditions, told, tag)
    for conditions in ("kept", "unknown", "refused")
    for told in (True, False)
    for tag in ('"1"', 'W/"1"')
]


@pytest.mark.parametrize(("conditions", "told", "tag"), SERVERS)
def test_whatever_a_server_makes_of_conditions_a_change_is_refused_and_nothing_else(
    http_server: FileServer, tmp_path: Path, conditions: Any, told: bool, tag: str
) -> None:
    http_server.conditions, http_server.tags_of_bodies = conditions, told
    for index_dir in (None, tmp_path):
        lines = found(http_server, tag, index_dir)
        with iter(lines) as iterator:
            assert [next(iterator) for _ in range(5)] == LINES[:5]
            http_server.files["/a.txt"] = OTHER
            http_server.tags["/a.txt"] = '"2"'
            with pytest.raises(rs.MalformedItem, match=CHANGED):
                list(iterator)
        assert list(found(http_server, tag, index_dir)) == LINES


@pytest.mark.parametrize(("conditions", "told"), [("kept", True), ("unknown", True)])
def test_no_request_only_asks_if_a_file_is_what_it_was(
    http_server: FileServer, tmp_path: Path, conditions: Any, told: bool
) -> None:
    http_server.conditions = conditions
    assert list(found(http_server, '"1"')) == LINES
    assert asked(http_server).keys() == {"GET"}
    lines = found(http_server, '"1"', index_dir=tmp_path)
    assert list(lines.shuffle(1)) == [LINES[index] for index in rs.range(1000).shuffle(1)]
    assert asked(http_server).keys() == {"GET"}


def test_a_server_whose_answers_prove_nothing_is_asked_by_head_from_then_on(
    http_server: FileServer, tmp_path: Path
) -> None:
    http_server.tags_of_bodies = False
    lines = found(http_server, '"1"', index_dir=tmp_path)
    for index in (3, 999, 0):
        assert lines[index] == LINES[index]
        assert asked(http_server) == {"GET": 1, "HEAD": 1}


def test_a_range_of_another_content_is_never_taken_though_a_head_tells_the_old_one(
    http_server: FileServer, tmp_path: Path
) -> None:
    lines = found(http_server, 'W/"1"', index_dir=tmp_path)
    http_server.files["/a.txt"] = OTHER
    http_server.tags["GET /a.txt"] = '"2"'  # as behind a cache that is half renewed
    message = r'attempt 12 of 12 .* a range has the ETag "2", but HEAD reports W/"1"'
    with pytest.raises(rs.ReadError, match=message):
        lines[5]
    del http_server.tags["GET /a.txt"]
    http_server.files["/a.txt"] = TEXT
    assert lines[5] == LINES[5]


def test_a_range_of_a_longer_content_is_refused_whatever_its_tag(
    http_server: FileServer, tmp_path: Path
) -> None:
    lines = found(http_server, 'W/"1"', index_dir=tmp_path)
    http_server.files["/a.txt"] = TEXT + b" and more"
    with pytest.raises(rs.MalformedItem, match=CHANGED):
        lines[5]


def test_no_server_may_compress_a_range(http_server: FileServer, tmp_path: Path) -> None:
    assert found(http_server, '"1"', index_dir=tmp_path)[5] == LINES[5]
    http_server.encodings.clear()
    assert found(http_server, '"1"', index_dir=tmp_path)[6] == LINES[6]
    assert http_server.encodings == {"identity"}


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, Any]]:
    """Options for a server that speaks S3, with a bucket called `bucket`."""
    with s3_server() as address:
        yield {"endpoint_url": address, "skip_instance_cache": False}


@pytest.mark.parametrize("local_check", [False, True])
@pytest.mark.parametrize("indexed", [False, True])
def test_an_object_of_s3_that_changed_is_refused_without_a_head(
    s3: dict[str, Any], tmp_path: Path, local_check: bool, indexed: bool
) -> None:
    def put(body: bytes) -> None:
        client: Any = importlib.import_module("boto3").client("s3", endpoint_url=s3["endpoint_url"])
        client.put_object(Bucket="bucket", Key="a.txt", Body=body)
        client.close()

    put(TEXT)
    lines = rs.lines(
        "s3://bucket/a.txt",
        storage_options=s3 | {"local_expiry_check": local_check},
        index_dir=tmp_path if indexed else None,
    )
    s3fs = importlib.import_module("s3fs")
    methods, call = list[str](), s3fs.S3FileSystem._call_s3

    async def noting(system: Any, method: str, *given: Any, **named: Any) -> Any:
        methods.append(method)
        return await call(system, method, *given, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(s3fs.S3FileSystem, "_call_s3", noting)
        assert list(lines) == LINES
        assert set(methods) == {"get_object"}
    put(OTHER)
    with pytest.raises(rs.MalformedItem, match=rf"^s3://bucket/a\.txt {CHANGED}"):
        list(lines)
