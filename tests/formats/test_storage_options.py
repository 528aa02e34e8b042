"""Storage options do what the guide says: credentials, other servers, proxies, the configuration of fsspec."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from formats.http_files import AT_ONCE, FileServer
from support.s3_server import s3_server

import resumable as rs

for package in ("fsspec", "aiohttp"):
    pytest.importorskip(package, reason=f"{package} is not installed")

URL = "s3://bucket/a.txt"


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """The address of a server that speaks S3; no credentials are in the environment."""
    with s3_server({"a.txt": b"a line"}) as address, pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION"):
            patch.delenv(name)
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        yield address


def test_without_credentials_nothing_is_read(s3: str) -> None:
    with pytest.raises(rs.ReadError, match="credentials"):
        rs.lines(URL, storage_options={"endpoint_url": s3, "retry": {"attempts": 1}})


@pytest.mark.parametrize(
    "options",
    [
        {"anon": True},
        {"key": "key", "secret": "secret"},
        {"key": "key", "secret": "secret", "requester_pays": True},
        {"profile": "mine"},
        {"key": "key", "secret": "secret", "client_kwargs": {"region_name": "eu-west-1"}},
    ],
    ids=lambda options: ",".join(options),
)
def test_credentials_may_be_given_in_any_of_the_ways_of_s3fs(
    options: dict[str, Any], s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    credentials = tmp_path / "credentials"
    credentials.write_text("[mine]\naws_access_key_id = key\naws_secret_access_key = secret\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(credentials))
    options = {"endpoint_url": s3, "skip_instance_cache": True, **options}
    assert list(rs.lines(URL, storage_options=options)) == ["a line"]


@pytest.mark.parametrize(
    ("variables", "options"),
    [
        ({"AWS_ENDPOINT_URL": "HERE"}, {}),
        ({"S3_ENDPOINT_URL": "HERE"}, {}),
        ({"S3_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_ENDPOINT_URL": "HERE"}, {}),
        ({"S3_ENDPOINT_URL": "http://127.0.0.1:9"}, {"endpoint_url": "HERE"}),
        ({"S3_ENDPOINT_URL": "http://127.0.0.1:9"}, {"client_kwargs": {"endpoint_url": "HERE"}}),
    ],
)
def test_the_address_may_stand_in_the_environment(
    variables: dict[str, str], options: dict[str, Any], s3: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value.replace("HERE", s3))
    options = json.loads(json.dumps(options).replace("HERE", s3))
    options |= {"anon": True, "skip_instance_cache": True}
    assert list(rs.lines(URL, storage_options=options)) == ["a line"]


def test_fsspec_may_be_configured_in_place_of_options(
    s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fsspec.config

    (tmp_path / "s3.json").write_text(json.dumps({"s3": {"endpoint_url": s3}}))
    conf: dict[str, Any] = {}
    fsspec.config.set_conf_files(str(tmp_path), conf)
    fsspec.config.set_conf_env(conf, {"FSSPEC_S3_KEY": "key", "FSSPEC_S3_SECRET": "secret"})
    monkeypatch.setitem(fsspec.config.conf, "s3", conf["s3"] | {"skip_instance_cache": True})
    assert list(rs.lines(URL)) == ["a line"]


def test_a_proxy_of_the_environment_is_asked(
    http_server: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "http://elsewhere.invalid/a.txt"
    http_server.files[url] = b"a line"
    monkeypatch.setenv("HTTP_PROXY", http_server.address)
    options = {"client_kwargs": {"trust_env": True}, "retry": AT_ONCE | {"timeout": 20}}
    assert list(rs.lines(url, storage_options=options)) == ["a line"]


def test_headers_are_sent_with_each_request(http_server: FileServer) -> None:
    http_server.files["/a.txt"] = b"a line"
    options = {"headers": {"Authorization": "Bearer x"}, "retry": AT_ONCE | {"timeout": 20}}
    url = f"{http_server.address}/a.txt"
    assert list(rs.lines(url, storage_options=options)) == ["a line"]
    assert http_server.authorizations == {"Bearer x"}
