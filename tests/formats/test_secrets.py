"""Passwords, signed URLs and storage options stand in no state, no file, no message and no view."""

from __future__ import annotations

import json
import logging
import pickle
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from formats.http_files import AT_ONCE, FileServer
from support.format_facts import FORMAT_FACTS, named_packages

import resumable as rs
from resumable.cli.main import main
from resumable.errors.public_urls import public_text, public_url

for package in ("fsspec", "aiohttp"):
    pytest.importorskip(package, reason=f"{package} is not installed")

PASSWORD, SIGNATURE, TOKEN = "pass5ecret", "sign5ecret", "token5ecret"
SECRETS = (PASSWORD, SIGNATURE, TOKEN)
QUERY = f"X-Amz-Expires=60&X-Amz-Signature={SIGNATURE}%2B"


FILES = FORMAT_FACTS.merged(lambda facts: facts.behind_urls)


def assert_public(told: Iterable[str | bytes]) -> None:
    for each in told:
        text = each if isinstance(each, str) else each.decode("latin-1")
        assert not [secret for secret in SECRETS if secret in text], text


def all_of(error: BaseException) -> str:
    """What is printed of an error that nobody catches."""
    return "".join(traceback.format_exception(error)) + repr(error)


class Secret:
    """A file behind a signed URL with a password, and how it is read."""

    def __init__(self, kind: str, server: FileServer, folder: Path) -> None:
        file = FILES[kind]
        self._read = file.read
        if (package := named_packages().get(kind)) is not None:
            pytest.importorskip(package, reason=f"{package} is not installed")
        self.name, self.server = f"/some/a.{kind}", server
        server.files[self.name] = file.content()
        server.tags[f"{self.name}?{QUERY}"] = '"1"'
        self.url = f"{server.address}{self.name}?{QUERY}".replace("//", f"//user:{PASSWORD}@", 1)
        self.options: dict[str, Any] = {
            "storage_options": {
                "retry": AT_ONCE | {"attempts": 2, "timeout": 20},
                "client_kwargs": {"headers": {"X-Token": TOKEN}},
            }
        }
        if file.has_index:
            self.options["index_dir"] = str(folder / "index")

    def pipeline(self) -> rs.Pipeline[Any]:
        return self._read([self.url], **self.options)


@pytest.fixture(params=FILES)
def secret(request: pytest.FixtureRequest, http_server: FileServer, tmp_path: Path) -> Secret:
    return Secret(request.param, http_server, tmp_path)


def test_states_runs_indexes_and_views_hold_no_secret(
    secret: Secret, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="resumable")
    pipeline = secret.pipeline()
    items = list(pipeline)
    assert items
    with iter(pipeline) as iterator:
        next(iterator)
        state = iterator.get_state()
        told: list[str | bytes] = [rs.dumps(state), repr(state), repr(iterator), str(iterator)]
        told += [json.dumps(iterator.stats())]
    stage = pipeline.stage
    told += [
        repr(pipeline),
        str(pipeline),
        pipeline.describe(),
        pipeline.to_mermaid(),
    ]
    told += [
        repr(stage),
        str(stage),
        repr(getattr(stage, "_files", None)),
        str(pipeline.fingerprint),
    ]
    told += [repr(getattr(stage, "upstream", None)), caplog.text]
    told += [json.dumps(origin.to_json()) for origin in rs.origins(pipeline)]
    with rs.Checkpointer(tmp_path / "run", rs.EverySteps(1), stats=True) as checkpointer:
        for _ in checkpointer.resume(pipeline):
            pass
    for path in tmp_path.rglob("*"):
        told += [str(path), path.read_bytes() if path.is_file() else b""]
    assert_public(told)
    assert any("hidden=" in each for each in told if isinstance(each, str))


def test_another_process_gets_the_secrets(secret: Secret) -> None:
    pipeline = secret.pipeline()
    again = pickle.loads(pickle.dumps(pipeline))
    assert repr(list(again)) == repr(list(pipeline))


def test_the_urls_that_files_delivers_are_whole(http_server: FileServer, tmp_path: Path) -> None:
    secret = Secret("bytes", http_server, tmp_path)
    assert list(rs.files(secret.url, **secret.options)) == [secret.url]


def test_a_pipeline_goes_on_with_another_password_and_signature(secret: Secret) -> None:
    with iter(secret.pipeline()) as iterator:
        next(iterator)
        state = rs.loads(rs.dumps(iterator.get_state()))
        rest = list(iterator)
    secret.url = secret.url.replace(PASSWORD, "another").replace(SIGNATURE, "again")
    secret.server.tags[secret.url.partition(str(secret.server.server_address[1]))[2]] = '"1"'
    assert repr(list(secret.pipeline().resume(state))) == repr(rest)


@pytest.mark.parametrize("fault", ["404", "503", "reset", "sizes", "changed"])
def test_errors_and_their_causes_hold_no_secret(secret: Secret, fault: str) -> None:
    server = secret.server
    pipeline = None if fault == "sizes" else secret.pipeline()
    if fault == "404":
        server.files.clear()
    elif fault == "sizes":
        server.sizes = False
    elif fault == "changed":
        server.tags.clear()
        server.files = {name: content + b"?" for name, content in server.files.items()}
    else:
        server.faults, server.often = (fault,), 1.0
    errors = []
    for call in (secret.pipeline, lambda: list(pipeline or secret.pipeline())):
        try:
            call()
        except (rs.ResumableError, OSError) as error:
            errors.append(error)
    assert errors
    assert_public(map(all_of, errors))
    assert all(secret.name in str(error) for error in errors)


def test_a_malformed_record_is_named_without_a_secret(
    http_server: FileServer, tmp_path: Path
) -> None:
    secret = Secret("jsonl", http_server, tmp_path)
    http_server.files[secret.name] = b"no json\n"
    with pytest.raises(rs.MalformedItem) as raised:
        list(secret.pipeline())
    assert_public([all_of(raised.value)])


@pytest.mark.parametrize(
    "call",
    [
        lambda options: rs.lines(__file__, storage_options=options),
        lambda options: rs.lines("http://x/y", storage_options=TOKEN),  # type: ignore[arg-type]
        lambda options: rs.lines(
            "http://x/y", storage_options={"retry": {"attempts": 0}} | options
        ),
        lambda options: rs.lines(f"nothing://user:{PASSWORD}@x/?sig={SIGNATURE}"),
        lambda options: rs.lines(f"memory://none-*.txt?sig={SIGNATURE}"),
        lambda options: rs.Remote(f"nothing://user:{PASSWORD}@x/?sig={SIGNATURE}", **options),
        lambda options: rs.Remote(f"file://user:{PASSWORD}@x/?sig={SIGNATURE}", **options),
    ],
)
def test_refused_arguments_hold_no_secret(call: Callable[[dict[str, Any]], Any]) -> None:
    with pytest.raises((rs.ResumableError, OSError, TypeError)) as raised:
        call({"token": TOKEN})
    assert_public([all_of(raised.value)])


def test_commands_print_no_secret(
    http_server: FileServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = Secret("jsonl", http_server, tmp_path)
    script = tmp_path / "train.py"
    script.write_text(
        f"import resumable as rs\npipeline = rs.jsonl({secret.url!r}, **{secret.options!r}).batch(4)\n"
    )
    pipeline = secret.pipeline().batch(4)
    with rs.Checkpointer(tmp_path / "run", rs.EverySteps(2)) as checkpointer:
        for _ in checkpointer.resume(pipeline):
            pass
    target, page = f"{script}:pipeline", tmp_path / "report.html"
    assert main(["show", target]) == 0
    assert main(["report", target, "-o", str(page)]) == 0
    assert main(["inspect", str(tmp_path / "run")]) == 0
    assert main(["trace", str(tmp_path / "run"), target, "--step", "2"]) == 0
    assert main(["index", secret.url, "--index-dir", str(tmp_path / "index")]) == 0
    http_server.files.clear()
    assert main(["index", secret.url, "--index-dir", str(tmp_path / "index")]) == 2
    printed = capsys.readouterr()
    assert "hidden=" in printed.out
    assert secret.name in printed.err
    assert_public([printed.out, printed.err, page.read_bytes()])


def test_a_file_is_left_out_by_its_name_with_or_without_its_query(
    http_server: FileServer, tmp_path: Path
) -> None:
    secret = Secret("jsonl", http_server, tmp_path)
    (record,) = next(iter(rs.origins(secret.pipeline()))).records()
    for name in (record.file, secret.url, f"a.jsonl?{QUERY}"):
        assert len(secret.pipeline().exclude({str(name): [0, 1]})) == 58
        left = list(secret.pipeline().exclude({str(name): [0]}))
        assert len(left) == 59


def test_two_users_of_one_url_are_refused(http_server: FileServer, tmp_path: Path) -> None:
    secret = Secret("lines", http_server, tmp_path)
    urls = [secret.url, secret.url.replace(PASSWORD, "another5ecret")]
    with pytest.raises(
        rs.InvalidArgument, match="must not differ in user and password alone"
    ) as it:
        rs.lines(urls, **secret.options)
    assert_public([all_of(it.value)])


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://host/a.tar", "https://host/a.tar"),
        ("https://user:secret@host/a.tar", "https://***@host/a.tar"),
        ("https://secret@host:80/a", "https://***@host:80/a"),
        ("s3://bucket/a-??.tar", "s3://bucket/a-??.tar"),
        ("s3://bucket/a.tar?versionId=x.1", "s3://bucket/a.tar?versionId=x.1"),
        ("s3://bucket/a@b.tar", "s3://bucket/a@b.tar"),
        ("hf://datasets/me/data@main/a.parquet", "hf://datasets/me/data@main/a.parquet"),
        ("/data/a?x=1.txt", "/data/a?hidden=d6fc277b9708"),
    ],
)
def test_what_is_shown_of_a_url(url: str, shown: str) -> None:
    assert public_url(url) == shown
    assert public_url(shown) == shown


def test_urls_that_differ_in_their_query_are_shown_differently() -> None:
    shown = {public_url(f"https://host/download?id={number}") for number in range(1000)}
    assert len(shown) == 1000
    assert all(each.startswith("https://host/download?hidden=") for each in shown)


def test_all_urls_of_a_text_are_shown() -> None:
    text = "403, url='https://u:p5@h/a?k=s5', for \"http://h/?s5\" and GET /a/b?sig=s5: no"
    assert "5'" not in public_text(text).replace("hidden", "")
    assert all(secret not in public_text(text) for secret in ("p5", "=s5", "?s5"))
