"""Objects of S3 are read by obstore where it is installed, and by s3fs wherever that cannot serve."""

from __future__ import annotations

import importlib
import multiprocessing
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.s3_server import s3_server

import resumable as rs
from resumable.formats.io import conditional, object_store

pytest.importorskip("fsspec", reason="fsspec is not installed")
pytest.importorskip("aiohttp", reason="aiohttp is not installed")
obstore: Any = pytest.importorskip("obstore", reason="obstore is not installed")

LINES = [f"line {number} {'y' * 400}" for number in range(500)]
TEXT = "\n".join(LINES).encode()
RETRY = {"attempts": 2, "wait": 0.001, "timeout": 20}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with s3_server({"a.txt": TEXT}) as address:
        yield address


@pytest.fixture(autouse=True)
def unused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_store._ProcessUses, "is_forked", False)
    object_store._ProcessUses.buckets.clear()


@pytest.fixture
def gets(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many ranges each of the two has read."""
    s3fs: Any = importlib.import_module("s3fs")
    counts = Counter[str]()
    ask, call = object_store.read_range, s3fs.S3FileSystem._call_s3

    async def asking(*given: Any) -> Any:
        found = await ask(*given)
        counts["obstore"] += found is not None
        return found

    async def calling(system: Any, method: str, *given: Any, **named: Any) -> Any:
        counts["s3fs"] += method == "get_object"
        return await call(system, method, *given, **named)

    monkeypatch.setattr(conditional, "read_range", asking)
    monkeypatch.setattr(s3fs.S3FileSystem, "_call_s3", calling)
    return counts


def lines(address: str, index_dir: Path | None = None, **options: Any) -> rs.Pipeline[Any]:
    options = {"endpoint_url": address, "skip_instance_cache": True, "retry": RETRY} | options
    return rs.lines("s3://bucket/a.txt", storage_options=options, index_dir=index_dir)


@pytest.mark.parametrize(
    "options",
    [{}, {"key": "key", "secret": "secret"}, {"anon": True}, {"client_kwargs": {"region_name": "us-east-1"}}],
    ids=["of the environment", "keys", "anonymous", "region"],
)  # fmt: skip
def test_streams_and_records_at_random_are_read_by_obstore_alone(
    address: str, tmp_path: Path, gets: Counter[str], options: dict[str, Any]
) -> None:
    assert list(lines(address, **options)) == LINES
    indexed = lines(address, tmp_path, **options)
    gets.clear()
    assert sorted(indexed.shuffle(3)) == sorted(LINES)
    assert gets["obstore"]
    assert not gets["s3fs"]


def test_with_options_that_obstore_does_not_have_s3fs_reads(
    address: str, gets: Counter[str]
) -> None:
    assert list(lines(address, requester_pays=True)) == LINES
    assert gets["s3fs"]
    assert not gets["obstore"]


def test_a_bucket_that_only_s3fs_can_read_is_soon_read_by_it_alone(
    address: str, gets: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = list[str]()

    async def refusing(store: Any, key: str, **options: Any) -> Any:
        tries.append(key)
        raise obstore.exceptions.GenericError("no route")

    monkeypatch.setattr(obstore, "get_async", refusing)
    pipeline = lines(address)
    for _ in range(5):
        assert list(pipeline) == LINES
    assert tries == ["a.txt"] * object_store.MOST_FAILURES
    assert gets["s3fs"]


def test_a_bucket_that_obstore_cannot_open_is_read_by_s3fs(
    address: str, gets: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusing(*given: Any, **options: Any) -> Any:
        raise obstore.exceptions.GenericError("no such endpoint")

    monkeypatch.setattr(obstore.store, "S3Store", refusing)
    assert list(lines(address)) == LINES
    assert gets["s3fs"]
    assert not gets["obstore"]


def test_errors_are_those_of_s3fs(address: str, tmp_path: Path, gets: Counter[str]) -> None:
    import boto3

    client = boto3.client("s3", endpoint_url=address)
    client.put_object(Bucket="bucket", Key="gone.txt", Body=TEXT)
    options = {"endpoint_url": address, "retry": RETRY}
    gone = rs.lines("s3://bucket/gone.txt", storage_options=options, index_dir=tmp_path)
    client.delete_object(Bucket="bucket", Key="gone.txt")
    with pytest.raises(FileNotFoundError, match=r"s3://bucket/gone\.txt"):
        gone[3]
    client.put_object(Bucket="bucket", Key="gone.txt", Body=TEXT[::-1])
    with pytest.raises(rs.MalformedItem, match="changed since the pipeline was built"):
        gone[3]
    client.put_object(Bucket="bucket", Key="gone.txt", Body=TEXT)
    client.close()
    gets.clear()
    assert gone[3] == LINES[3]
    assert gets["obstore"] == 1  # a change and a lost object say nothing of the bucket


def test_a_forked_child_of_a_process_that_has_used_it_reads_by_s3fs(
    address: str, tmp_path: Path, gets: Counter[str]
) -> None:
    pipeline = lines(address, tmp_path)
    assert pipeline[1] == LINES[1]
    assert gets["obstore"]
    answers = multiprocessing.get_context("fork").SimpleQueue()
    for _ in range(4):
        child = os.fork()
        if not child:
            try:
                gets.clear()
                answers.put((list(pipeline.shuffle(1)), gets["obstore"], gets["s3fs"] > 0))
            finally:
                os._exit(0)
        items, by_obstore, by_s3fs = answers.get()
        os.waitpid(child, 0)
        assert items == list(pipeline.shuffle(1))
        assert (by_obstore, by_s3fs) == (0, True)


def test_a_class_that_is_registered_for_s3_gets_no_options_of_botocore(address: str) -> None:
    import fsspec
    from obstore.fsspec import FsspecStore

    class ForS3(FsspecStore):  # type: ignore[misc]
        protocol = "s3"

    before = fsspec.get_filesystem_class("s3")
    fsspec.register_implementation("s3", ForS3, clobber=True)
    options: dict[str, Any] = {
        "config": {"endpoint": address, "virtual_hosted_style_request": False, "region": "us-east-1"},
        "client_options": {"allow_http": True},
    }  # fmt: skip
    try:
        assert list(rs.lines("s3://bucket/a.txt", storage_options=options)) == LINES
    finally:
        fsspec.register_implementation("s3", before, clobber=True)
