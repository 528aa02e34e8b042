"""What errors of remote file systems say, and which of them are tried again."""

from __future__ import annotations

import io
import os
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from formats.http_files import AT_ONCE, FileServer
from support.s3_server import s3_server

import resumable as rs

pytest.importorskip("fsspec", reason="fsspec is not installed")
pytest.importorskip("aiohttp", reason="aiohttp is not installed")

TWICE = AT_ONCE | {"attempts": 2, "timeout": 60}
REASON = "Because of this."

BY_OBSTORE = find_spec("obstore") is not None  # what it is refused, s3fs asks for once more


@pytest.fixture
def of_s3(http_server: FileServer, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Options of S3 with which `http_server` is asked for objects."""
    pytest.importorskip("s3fs", reason="s3fs is not installed")
    for name, value in (("ACCESS_KEY_ID", "key"), ("SECRET_ACCESS_KEY", "secret")):
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    http_server.files, http_server.tags = {"/bucket/a.txt": b"1\n2"}, {"/bucket/a.txt": '"1"'}
    return {"endpoint_url": http_server.address, "retry": TWICE}


def refuse(server: FileServer, status: int, code: str) -> None:
    server.refusal = status, f"<Error><Code>{code}</Code><Message>{REASON}</Message></Error>"
    server.requests.clear()


HOPELESS = "and trying again would not help:"
AGAIN = "attempt 2 of 2 ended with"


@pytest.mark.parametrize(
    ("status", "code", "outcome"),
    [
        (400, "ExpiredToken", f", {HOPELESS}"),
        (403, "AccessDenied", f", {HOPELESS}"),
        (403, "InvalidAccessKeyId", f", {HOPELESS}"),
        (503, "ServiceUnavailable", f": {AGAIN}"),
        (500, "InternalError", f": {AGAIN}"),
    ],
)
def test_what_s3_refuses_in_mid_run_is_said_with_its_code_and_tried_again_only_if_that_may_help(
    http_server: FileServer, of_s3: dict[str, Any], status: int, code: str, outcome: str
) -> None:
    lines = rs.lines("s3://bucket/a.txt", storage_options=of_s3)
    refuse(http_server, status, code)
    with pytest.raises(rs.ReadError) as raised:
        list(lines)
    where = "s3://bucket/a.txt could not be read"
    assert str(raised.value) == f"{where}{outcome} {code} (status {status}): {REASON}"
    asked = [method for method, path, _ in http_server.requests if path == "/bucket/a.txt"]
    assert asked.count("GET") <= 2 * (1 + BY_OBSTORE)


def test_a_bucket_that_is_not_there_is_said_at_once() -> None:
    with s3_server({"a.txt": b"1"}) as address:
        options = {"endpoint_url": address, "retry": TWICE}
        with pytest.raises(FileNotFoundError) as raised:
            rs.lines("s3://elsewhere/a.txt", storage_options=options)
        assert raised.value.strerror == (
            "there is no s3://elsewhere/a.txt: NoSuchBucket (status 404): "
            "The specified bucket does not exist"
        )
        with pytest.raises(FileNotFoundError) as raised:
            rs.lines("s3://bucket/b.txt", storage_options=options)
        assert raised.value.strerror == "there is no s3://bucket/b.txt"


def test_missing_credentials_are_said_at_once(
    http_server: FileServer, of_s3: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    with pytest.raises(rs.ReadError) as raised:
        rs.lines("s3://bucket/a.txt", storage_options=of_s3 | {"skip_instance_cache": True})
    assert str(raised.value) == (
        "s3://bucket/a.txt could not be read, and trying again would not help: "
        "NoCredentialsError: Unable to locate credentials"
    )
    assert not http_server.requests


@pytest.mark.parametrize(("status", "phrase"), [(401, "Unauthorized"), (403, "Forbidden")])
def test_what_a_web_server_refuses_is_no_missing_file(
    http_server: FileServer, status: int, phrase: str
) -> None:
    url = f"{http_server.address}/a.txt"
    http_server.refusal = status, ""
    with pytest.raises(rs.ReadError) as raised:
        rs.lines(url, storage_options={"retry": TWICE})
    assert str(raised.value) == (
        f"{url} could not be read, and trying again would not help: "
        f"ClientResponseError: {status}, message='{phrase}', url='{url}'"
    )
    assert len(http_server.requests) == 2  # HEAD, and GET in its place


@pytest.mark.parametrize(
    ("options", "name", "cause"),
    [
        ({"endpont_url": "x"}, "endpont_url", "AioSession.__init__"),
        ({"client_kwargs": {"regoin": "x"}}, "regoin", "AioSession._create_client"),
    ],
)
def test_an_option_that_s3_does_not_know_is_refused_when_the_pipeline_is_built(
    http_server: FileServer, of_s3: dict[str, Any], options: dict[str, Any], name: str, cause: str
) -> None:
    with pytest.raises(rs.InvalidArgument) as raised:
        rs.lines("s3://bucket/a.txt", storage_options=of_s3 | options)
    assert str(raised.value) == (
        "storage_options must be what the file system of 's3://bucket/a.txt' takes, got the unknown "
        f"{name!r}: {cause}() got an unexpected keyword argument {name!r}"
    )
    assert not http_server.requests


def test_an_option_that_a_web_client_does_not_know_is_refused_when_the_pipeline_is_built(
    http_server: FileServer,
) -> None:
    url = f"{http_server.address}/a.txt"
    http_server.files = {"/a.txt": b"1"}
    with pytest.raises(rs.InvalidArgument, match=r"^storage_options .* the unknown 'heders': "):
        rs.lines(url, storage_options={"heders": {}})
    with pytest.raises(rs.InvalidArgument, match=r"got \['token'\]: .* missing .*'org' and 'repo'"):
        rs.lines("github://a.txt", storage_options={"token": "secret"})


@pytest.mark.parametrize("protocol", ["filecache", "simplecache", "blockcache", "cached"])
def test_a_cache_of_fsspec_is_refused_with_what_to_use_in_its_place(
    http_server: FileServer, protocol: str, tmp_path: Path
) -> None:
    pytest.importorskip("aiohttp", reason="aiohttp is not installed")
    http_server.files = {"/a.txt": b"1"}
    for start, options in (
        (f"{protocol}::{http_server.address}", {protocol: {"cache_storage": str(tmp_path)}}),
        (f"{protocol}://{http_server.address[7:]}", {"target_protocol": "http"}),
    ):
        with pytest.raises(rs.InvalidArgument) as raised:
            rs.lines(f"{start}/a.txt", storage_options=options, index_dir=tmp_path)
        message = str(raised.value)
        assert message.startswith(
            f"paths must not lead through a cache of fsspec, got '{start}/a.txt': "
        )
        assert message.endswith("; leave it out and pass cache=rs.FileCache(folder, max_bytes)")
    assert not http_server.requests


def test_a_file_within_an_archive_behind_a_url_is_no_cache(http_server: FileServer) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a.txt", "1\n2")
    http_server.files = {"/a.zip": packed.getvalue()}
    assert list(rs.lines(f"zip://a.txt::{http_server.address}/a.zip")) == ["1", "2"]
