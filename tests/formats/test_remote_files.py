"""Remote files: over HTTP from a server that fails, from one that speaks S3, and in memory."""

from __future__ import annotations

import asyncio
import gzip
import pickle
import signal
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from formats.http_files import AT_ONCE, CAUSES, FileServer, twice
from formats.megatron_files import files_of
from formats.tfrecords import framed
from support.s3_server import s3_server
from support.tiers import thinned

import resumable as rs
from resumable.formats.io import fetching, stored_files
from resumable.testing.laws import (
    pull_agrees_with_next,
    refused_states_leave_no_trace,
    resumes_at_every_position,
    resumes_for_generations,
    skip_agrees_with_next,
)

for package in ("fsspec", "aiohttp"):
    pytest.importorskip(
        package, reason=f"{package} is not installed: pip install resumable-loader[remote]"
    )

LINES = [f"line {number} {'y' * (number % 40)}" for number in range(1000)]
TEXT = "\n".join(LINES).encode()


@pytest.fixture(autouse=True)
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_files, "FIRST_RANGE", 512)
    monkeypatch.setattr(stored_files, "SMALL_RANGE", 512)
    monkeypatch.setattr(stored_files, "LARGEST_RANGE", 2048)


@pytest.fixture
def server(http_server: FileServer) -> FileServer:
    http_server.files = {"/a.txt": TEXT, "/b.txt.gz": gzip.compress(TEXT), "/c.txt": b""}
    http_server.tags = {"/a.txt": '"1"', "/b.txt.gz?x=1": '"2"', "/c.txt": '"3"'}
    return http_server


def lines(server: FileServer, *names: str, ahead: int = 1 << 25, **retry: Any) -> rs.Pipeline[Any]:
    urls = [f"{server.address}/{name}" for name in names or ("a.txt", "b.txt.gz?x=1", "c.txt")]
    return rs.lines(urls, storage_options={"retry": AT_ONCE | retry, "read": {"ahead": ahead}})


def test_files_over_http_are_read_by_ranges(server: FileServer) -> None:
    assert list(lines(server)) == LINES * 2
    spans = [span for method, path, span in server.requests if method == "GET" and span]
    assert spans[:2] == [(0, 512), (512, 512 + 1024)]


def test_a_resume_seeks(server: FileServer) -> None:
    pipeline = lines(server, ahead=0)
    with iter(pipeline) as iterator:
        iterator.skip(900)
        state = rs.dumps(iterator.get_state())
    server.requests.clear()
    with pipeline.resume(rs.loads(state)) as iterator:
        assert not server.requests
        assert next(iterator) == LINES[900]
    offset = len("\n".join(LINES[:900])) + 1
    assert next(span for _, _, span in server.requests if span) == (offset, offset + 512)
    assert len(state) <= 300


@pytest.mark.parametrize("seed", range(3))
def test_what_fails_for_the_moment_is_tried_again(server: FileServer, seed: int) -> None:
    pipeline = lines(server)
    server.often = 0.25
    server.dice.seed(seed)
    iterator, got = iter(pipeline), list[Any]()
    for count in (1, 300, 700, 999):
        got += [next(iterator) for _ in range(min(count, 2000 - len(got)))]
        iterator.close()
        iterator = pipeline.resume(rs.loads(rs.dumps(iterator.get_state())))
    assert got + list(iterator) == LINES * 2
    assert len({path for _, path, _ in server.requests}) == 3


@pytest.mark.parametrize(
    ("fault", "cause"),
    (CAUSES | {"short": "the body has 256 bytes instead of 512"}).items(),
)
def test_an_error_that_stays_names_url_attempt_and_cause(
    server: FileServer, fault: str, cause: str
) -> None:
    pipeline = lines(server, **twice(fault))
    with iter(pipeline) as iterator:
        server.faults, server.often = (fault,), 1.0
        message = (
            rf"{server.address}/a.txt could not be read: attempt 2 of 2 ended with .*({cause})"
        )
        with pytest.raises(rs.ReadError, match=message):
            next(iterator)
        assert iterator.get_state()["step"] == 0
        server.often = 0.0
        assert list(iterator) == LINES * 2


def test_what_will_not_pass_is_not_tried_again(server: FileServer) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no http.*/none"):
        lines(server, "none")
    pipeline = lines(server)
    server.ranges = False
    server.requests.clear()
    with pytest.raises(
        rs.ReadError, match=r"trying again would not help: .* whole files, not ranges"
    ):
        next(iter(pipeline))
    server.sizes = False
    with pytest.raises(rs.InvalidArgument, match=r"known size.*a\.txt"):
        lines(server)


@pytest.mark.parametrize("change", ["tag", "size"])
@pytest.mark.parametrize("after", [0, 999])
def test_a_file_that_changed_is_refused(
    server: FileServer, change: str, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_files, "LARGEST_RANGE", 1 << 20)
    text = server.files["/a.txt"] = TEXT * 130
    with iter(lines(server, "a.txt", ahead=0)) as iterator:
        assert iterator.skip(after) == after
        server.tags["/a.txt"] = '"2"' if change == "tag" else '"1"'
        server.files["/a.txt"] = text[:-1] if change == "size" else text
        with pytest.raises(rs.MalformedItem, match=r"a\.txt changed since the pipeline was built"):
            list(iterator)


def test_a_handler_that_raises_is_no_failure_of_the_server(server: FileServer) -> None:
    def give_up(*_: object) -> None:
        raise TimeoutError("given up")

    pipeline = lines(server, timeout=30)
    server.faults, server.often = ("slow",), 1.0
    before = signal.signal(signal.SIGALRM, give_up)
    try:
        with iter(pipeline) as iterator:
            with pytest.raises(TimeoutError, match="given up"):  # noqa: PT012
                signal.setitimer(signal.ITIMER_REAL, 0.1)
                next(iterator)
            server.often = 0.0
            assert list(iterator) == LINES * 2
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_what_only_begins_as_compressed_files_do_is_read() -> None:
    pytest.importorskip("google_crc32c", reason="google-crc32c is not installed")
    content = bytes(0x8B1F)  # its length begins as gzip does
    url = f"{in_memory({'a.tfrecord': framed(content)})}/a.tfrecord"
    assert list(rs.tfrecord(url)) == [content]
    with pytest.raises(rs.InvalidArgument, match=r"compressed by gzip.*must be named so"):
        list(rs.tfrecord(f"{in_memory({'a.tfrecord': gzip.compress(content)})}/a.tfrecord"))


FILES = {f"/x/{number:02}.bin": b"%d" % number * number for number in range(30)}


@pytest.fixture
def whole(http_server: FileServer) -> list[str]:
    """The URLs of `FILES`."""
    http_server.files = dict(FILES)
    return [f"{http_server.address}{path}?signed=1" for path in FILES]


def test_whole_files_are_urls_or_bytes(whole: list[str], tmp_path: Path) -> None:
    for path, content in FILES.items():
        (tmp_path / path.rpartition("/")[2]).write_bytes(content)
    assert list(rs.files(whole)) == whole
    remote = rs.files(whole, read=True, storage_options={"retry": AT_ONCE})
    local = rs.files(tmp_path / "*.bin", read=True)
    assert list(remote) == list(local) == list(FILES.values())
    assert list(remote.shuffle(1).batch(7, collate=list)) == list(
        local.shuffle(1).batch(7, collate=list)
    )
    assert remote.fingerprint == local.fingerprint
    assert list(pickle.loads(pickle.dumps(remote))) == list(FILES.values())
    resumes_at_every_position(remote, positions=[0, 17, 30])


def test_whole_files_are_read_whatever_fails_for_the_moment(
    whole: list[str], http_server: FileServer
) -> None:
    files = rs.files(whole, read=True, storage_options={"retry": AT_ONCE})
    http_server.often = 0.25
    assert list(files) == list(FILES.values())
    assert list(files.batch(9, collate=list).unbatch()) == list(FILES.values())
    http_server.faults, http_server.often = ("503",), 1.0

    with pytest.raises(rs.ReadError, match=r"/x/03\.bin\?hidden=\w+ could not be read: attempt 12"):
        files[3]


def test_a_whole_file_that_changed_is_refused(whole: list[str], http_server: FileServer) -> None:
    files = rs.files(whole, read=True)
    http_server.files["/x/05.bin"] = b"longer"
    with iter(files) as iterator:
        assert [next(iterator) for _ in range(5)] == list(FILES.values())[:5]
        with pytest.raises(rs.MalformedItem, match=r"05\.bin\?hidden=\w+ changed since"):
            next(iterator)


def in_memory(files: dict[str, bytes]) -> str:
    """A new folder of fsspec's file system in memory."""
    import fsspec

    folder = f"/{uuid.uuid4().hex}"
    for name, content in files.items():
        fsspec.filesystem("memory").pipe_file(f"{folder}/{name}", content)
    return f"memory:/{folder}"


@pytest.mark.parametrize("kind", ["paths", "files", "lines", "parquet", "megatron"])
def test_a_file_that_was_found_is_no_pattern_to_another_process(tmp_path: Path, kind: str) -> None:
    contents = {name: name.encode() for name in ("a1", "a[1]", "a{1,2}", "a*")}
    if kind == "parquet":
        pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
        parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
        for name in contents:
            parquet.write_table(pa.table({"name": [name]}), tmp_path / "table")
            contents[name] = (tmp_path / "table").read_bytes()
    elif kind == "megatron":
        pairs = {name: files_of([[list(name.encode())]]) for name in contents}
        contents = {f"{name}.idx": index for name, (index, _) in pairs.items()}
        contents |= {f"{name}.bin": tokens for name, (_, tokens) in pairs.items()}
    url = f"{in_memory(contents)}/*"
    pipelines: dict[str, Callable[[], rs.Pipeline[Any]]] = {
        "paths": lambda: rs.files(url),
        "files": lambda: rs.files(url, read=True),
        "lines": lambda: rs.lines(url, index_dir=tmp_path),
        "parquet": lambda: rs.parquet(url),
        "megatron": lambda: rs.megatron(url),
    }
    pipeline = pipelines[kind]()
    expected = list(map(repr, pipeline))
    assert len(set(expected)) == 4
    for _ in range(2):
        pipeline = pickle.loads(pickle.dumps(pipeline))
        assert list(map(repr, pipeline)) == expected
    if kind == "paths":
        assert {type(path) for path in pipeline} == {str}


def test_remote_files_obey_the_laws() -> None:
    folder = in_memory({"b.jsonl": b"4\n\n5", "a.jsonl.gz": gzip.compress(b"1\n2\nno\n3")})
    pipeline = rs.jsonl(f"{folder}/*.jsonl*", on_error="skip")
    assert list(pipeline) == [1, 2, 3, 4, 5]
    assert list(pickle.loads(pickle.dumps(pipeline))) == [1, 2, 3, 4, 5]
    resumes_at_every_position(pipeline)
    resumes_for_generations(pipeline, [1, 2, 1])
    refused_states_leave_no_trace(pipeline, 2)
    pull_agrees_with_next(pipeline, [1, 2, 9])
    skip_agrees_with_next(pipeline, [1, 2, 9])


def test_local_and_remote_files_may_be_mixed(tmp_path: Path) -> None:
    (tmp_path / "local.txt").write_bytes(b"1\n2")
    folder = in_memory({"x.txt": b"3"})
    assert list(rs.lines([f"{folder}/x.txt", str(tmp_path / "local.txt")])) == ["3", "1", "2"]


def test_bad_urls_and_options_are_refused() -> None:
    folder = in_memory({"x.txt": b"3"})
    with pytest.raises(rs.InvalidArgument, match="must match at least one file"):
        rs.lines(f"{folder}/*.none")
    with pytest.raises(rs.InvalidArgument, match=r"URLs that fsspec knows, got 'nothing://x'"):
        rs.lines("nothing://x")
    with pytest.raises(rs.InvalidArgument, match="storage_options must be None for local files"):
        rs.lines(__file__, storage_options={})
    with pytest.raises(rs.InvalidType, match="storage_options must be a dict, got int"):
        rs.lines(f"{folder}/x.txt", storage_options=3)  # type: ignore[arg-type]
    for retry, message in (
        ({"attempts": 0}, "attempts must be at least 1, got 0"),
        ({"timeout": 0}, "timeout must be at least 0.001, got 0"),
        ({"wait": float("inf")}, "wait must be at least 0, got inf"),
        ({"tries": 3}, r"must have keys of \['attempts', .*got \['tries'\]"),
        ({"wait": "1"}, "wait must be a number, got '1'"),
        (3, r"storage_options\['retry'\] must be a dict, got 3"),
    ):
        with pytest.raises((rs.InvalidArgument, rs.InvalidType), match=message):
            rs.lines(f"{folder}/x.txt", storage_options={"retry": retry})
    for read, message in (
        ({"at_once": 0}, "at_once must be at least 1, got 0"),
        ({"at_once": 101}, "at_once must be at most 100, got 101"),
        ({"at_once": 1.5}, r"at_once must be a number, got 1\.5"),
        ({"ahead": -1}, "ahead must be at least 0, got -1"),
        ({"ahead": "1 MiB"}, "ahead must be a number, got '1 MiB'"),
        (
            {"attempts": 3},
            r"storage_options\['read'\] must have keys of \['at_once', 'ahead'\], got \['attempts'\]",
        ),
        ([], r"storage_options\['read'\] must be a dict, got \[\]"),
    ):
        with pytest.raises((rs.InvalidArgument, rs.InvalidType), match=message):
            rs.lines(f"{folder}/x.txt", storage_options={"read": read})


@pytest.mark.parametrize("at_once", [1, 3, 16])
def test_so_many_requests_are_made_at_the_same_time(at_once: int) -> None:
    now = most = 0

    async def call() -> int:
        nonlocal now, most
        now += 1
        most = max(most, now)
        for _ in range(20):  # so all that may begin do
            await asyncio.sleep(0)
        now -= 1
        return most

    requests = [fetching.Request(str(number), call) for number in range(20)]
    assert len(fetching.fetch_all(requests, fetching.Patience(at_once=at_once))) == 20
    assert most == at_once


def test_waits_grow_up_to_a_limit_and_leave_the_dice_of_the_user_alone() -> None:
    patience = fetching.Patience(wait=1, longest_wait=8)
    for attempt, longest in ((1, 1), (2, 2), (3, 4), (4, 8), (5, 8), (5000, 8)):
        assert longest / 2 <= patience.seconds_after(attempt) <= longest


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, Any]]:
    """Options for a server that speaks S3, with a bucket called `bucket`."""
    texts = {"data/a.txt": TEXT, "data/b.txt.gz": gzip.compress(TEXT), "data/c.txt": b""}
    with s3_server(texts) as address:
        yield {"endpoint_url": address, "skip_instance_cache": False}


def test_objects_of_s3_are_read_and_resumed(s3: dict[str, Any]) -> None:
    pipeline = rs.lines("s3://bucket/data/*.txt*", storage_options=s3).batch(10, collate=list)
    batches = [LINES[start : start + 10] for start in range(0, 1000, 10)] * 2
    assert list(pipeline) == batches
    positions = thinned(range(201), 5, "s3")
    resumes_at_every_position(pipeline, positions=positions)
    with iter(pipeline) as iterator:
        iterator.skip(150)
        assert len(rs.dumps(iterator.get_state())) <= 300
