"""Remote files of every kind through a cache: the same items, and fewer bytes over the network."""

from __future__ import annotations

import pickle
import re
import warnings
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pytest
from formats.http_files import FileServer
from support.waiting import wait_until

import resumable as rs
from resumable.bench.cached import advice_on_source, needed_of_caches, notes_on_caches
from resumable.bench.ledger import Ledger
from resumable.bench.measuring import measure
from resumable.bench.timed import timed
from resumable.core.process_counts import process_counts
from resumable.core.stage import by_index
from resumable.file_cache.part_file import HEADER
from resumable.testing.laws import resumes_at_every_position

for package in ("fsspec", "aiohttp"):
    pytest.importorskip(
        package, reason=f"{package} is not installed: pip install resumable-loader[remote]"
    )

PART = 1 << 16
LINES = [f"{number:07} {'x' * 992}" for number in range(256)]  # four parts
TEXT = "".join(f"{line}\n" for line in LINES).encode()


@pytest.fixture
def server(http_server: FileServer) -> FileServer:
    http_server.files = {f"/{name}.txt": TEXT.replace(b"x", name.encode()) for name in "abcd"}
    http_server.tags = {path: f'"{path}"' for path in http_server.files}
    return http_server


def urls(server: FileServer) -> list[str]:
    return [server.address + path for path in sorted(server.files)]


def read_bytes(server: FileServer) -> int:
    return sum(span[1] - span[0] for method, _, span in server.requests if method == "GET" and span)


def cache_in(folder: Path, parts: int = 100, **options: Any) -> rs.FileCache:
    return rs.FileCache(folder / "parts", parts * (PART + HEADER.size), PART, **options)


def kinds(server: FileServer, folder: Path, cache: rs.FileCache | None) -> dict[str, Any]:
    """A pipeline of each way to read remote files."""
    indexed = rs.lines(urls(server), index_dir=folder / "index", cache=cache)
    return {
        "stream": lambda: rs.lines(urls(server), cache=cache),
        "index": lambda: indexed.shuffle(3),
        "blocks": lambda: indexed.shuffle(3, block=64).batch(7),
        "files": lambda: rs.files(urls(server), read=True, cache=cache).shuffle(1).repeat(2),
        "ranks": lambda: indexed.shuffle(3).shard(1, 2),
    }


@pytest.mark.filterwarnings("ignore:an order has:RuntimeWarning")
@pytest.mark.parametrize("kind", ["stream", "index", "blocks", "files", "ranks"])
@pytest.mark.parametrize("parts", [4, 100])
def test_the_items_are_those_without_a_cache(
    server: FileServer, tmp_path: Path, kind: str, parts: int
) -> None:
    expected = list(kinds(server, tmp_path, None)[kind]())
    make = kinds(server, tmp_path, cache_in(tmp_path, parts, read_ahead=3 * PART))[kind]
    for _ in range(2):
        got = list(make())
        assert [repr(item) for item in got] == [repr(item) for item in expected]


def test_a_resume_through_a_cache_is_exact_at_every_position(
    server: FileServer, tmp_path: Path
) -> None:
    server.files = {path: text[: 6 * 1001] for path, text in list(server.files.items())[:2]}
    for make in kinds(server, tmp_path, cache_in(tmp_path)).values():
        resumes_at_every_position(make())


def test_what_was_read_once_needs_no_request_again(server: FileServer, tmp_path: Path) -> None:
    pipelines = kinds(server, tmp_path, cache_in(tmp_path))
    before = process_counts.now()
    assert len(list(pipelines["index"]())) == 4 * len(LINES)
    assert read_bytes(server) <= 1.1 * 4 * len(TEXT) + 2 * 4 * len(TEXT)  # the index reads them too
    server.requests.clear()
    for kind in ("index", "blocks", "ranks"):
        list(pipelines[kind]())
    assert not read_bytes(server)
    after = process_counts.now()
    assert after["cache_hits"] > before["cache_hits"]
    assert list(pipelines["index"]()) == list(pickle.loads(pickle.dumps(pipelines["index"]())))


@pytest.mark.parametrize("ahead", [0, 2])
def test_a_stream_keeps_as_much_over_the_epochs_as_there_is_room_for(
    server: FileServer, tmp_path: Path, ahead: int
) -> None:
    lines = rs.lines(urls(server), cache=cache_in(tmp_path, 8, read_ahead=ahead * PART))
    server.requests.clear()
    with iter(lines.repeat(3)) as iterator:
        fetched = [
            read_bytes(server) for _ in range(3) if iterator.skip(len(LINES) * len(server.files))
        ]
    # By last use each epoch would fetch all of it anew.
    size = sum(map(len, server.files.values()))
    most = size - (8 - ahead - 1) * PART
    assert fetched[0] == size
    assert fetched[1] - fetched[0] <= most
    assert fetched[2] - fetched[1] <= most


def test_what_a_stream_reads_next_is_fetched_ahead(server: FileServer, tmp_path: Path) -> None:
    lines = rs.lines(urls(server), cache=cache_in(tmp_path, read_ahead=4 * PART))
    with iter(lines) as iterator:
        next(iterator)
        wait_until(lambda: read_bytes(server) >= 5 * PART)


def test_an_index_is_built_through_the_cache(server: FileServer, tmp_path: Path) -> None:
    list(kinds(server, tmp_path, cache_in(tmp_path))["index"]())
    assert read_bytes(server) <= 1.1 * 4 * len(TEXT)


def test_a_file_that_changed_is_refused_where_it_is_not_in_the_cache(
    server: FileServer, tmp_path: Path
) -> None:
    pipeline = rs.lines(urls(server), index_dir=tmp_path / "index")
    cached = rs.lines(urls(server), index_dir=tmp_path / "index", cache=cache_in(tmp_path))
    assert list(cached) == list(pipeline)
    path = "/a.txt"
    server.files[path] = server.files[path].upper()
    server.tags[path] = '"another"'
    assert next(iter(cached)) == LINES[0].replace("x", "a"), (
        "what it was when the pipeline was built"
    )
    with pytest.raises(rs.MalformedItem, match="changed since the pipeline was built"):
        list(pipeline)
    new = rs.lines(urls(server), index_dir=tmp_path / "index", cache=cache_in(tmp_path))
    assert next(iter(new)) == LINES[0].replace("x", "A")


def test_threads_share_a_cache(server: FileServer, tmp_path: Path) -> None:
    pipeline = kinds(server, tmp_path, cache_in(tmp_path))["index"]()
    expected = list(pipeline)
    server.requests.clear()
    assert list(pipeline.prefetch(2)) == expected
    workers = rs.lines(urls(server), index_dir=tmp_path / "index", cache=cache_in(tmp_path))
    parts = workers.partition(4, lambda part: part.map(str.upper), workers=2, executor="thread")
    assert sorted(parts) == sorted(map(str.upper, workers))
    assert not read_bytes(server)


def test_the_environment_names_a_cache(
    server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RESUMABLE_CACHE_DIR", str(tmp_path / "parts"))
    with pytest.raises(rs.InvalidArgument, match="must both be set"):
        rs.lines(urls(server))
    monkeypatch.setenv("RESUMABLE_CACHE_BYTES", "64GB")
    with pytest.raises(
        rs.InvalidArgument, match=r"RESUMABLE_CACHE_BYTES .* number of bytes, got '64GB'"
    ):
        rs.lines(urls(server))
    monkeypatch.setenv("RESUMABLE_CACHE_BYTES", str(1 << 30))
    expected = list(rs.lines(urls(server)))
    server.requests.clear()
    assert list(rs.lines(urls(server))) == expected
    assert not [span for _, _, span in server.requests if span]


def test_a_cache_does_nothing_for_local_files(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    assert list(rs.lines(tmp_path / "a.txt", cache=cache_in(tmp_path))) == ["one", "two"]
    assert not (tmp_path / "parts").exists()


def test_a_file_that_nothing_tells_apart_is_read_without_the_cache(
    server: FileServer, tmp_path: Path
) -> None:
    server.tags = {}
    expected = list(rs.lines(urls(server)))
    assert list(rs.lines(urls(server), cache=cache_in(tmp_path))) == expected
    assert not list(tmp_path.rglob("*.part"))


def test_the_cache_is_given_once(tmp_path: Path) -> None:
    cache = cache_in(tmp_path)
    with pytest.raises(rs.InvalidArgument, match="got both"):
        rs.lines("http://a/b", storage_options={"cache": cache}, cache=cache)
    with pytest.raises(rs.InvalidType, match=r"cache must be a rs.FileCache or None, got '/tmp'"):
        rs.lines("http://a/b", cache="/tmp")  # type: ignore[arg-type]


@pytest.mark.parametrize(("block", "parts"), [(16, 1), (64, 16), (None, 16)])
def test_bench_says_how_much_of_the_files_is_in_use_at_a_time(
    server: FileServer, tmp_path: Path, block: int | None, parts: int
) -> None:
    # Blocks of 64 items are as long as a part, but begin a little later in each, and 1,024 are all.
    indexed = rs.lines(urls(server), index_dir=tmp_path / "index", cache=cache_in(tmp_path, 8))
    if block == 16:
        indexed = indexed.take(64)
    order = indexed.shuffle(0, block=block).map(len).filter(bool).stage
    (note,) = notes_on_caches(needed_of_caches(order))
    needed = int(re.search(r"up to ([\d,]+) bytes", note)[1].replace(",", ""))  # type: ignore[index]
    assert abs(needed - parts * PART) <= PART
    assert ("set max_bytes to" in note) == (parts > 8)
    advice = advice_on_source(indexed.stage, needed_of_caches(order))
    assert ("Its cache has no room" in advice) == (parts > 8)


def test_timing_a_remote_source_reads_as_far_ahead(server: FileServer, tmp_path: Path) -> None:
    source = rs.lines(urls(server), index_dir=tmp_path / "index", cache=cache_in(tmp_path, 8))
    other = timed(source.shuffle(0).stage, Ledger([None, 0, 1], perf_counter))
    assert by_index(source.stage).plans_far
    assert by_index(other).plans_far


def test_bench_advises_on_the_cache_that_is_too_small_and_nothing_else(
    server: FileServer, tmp_path: Path
) -> None:
    source = rs.lines(urls(server), index_dir=tmp_path / "index", cache=cache_in(tmp_path, 8))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for shuffled in (source.shuffle(0), source.shuffle(0).prefetch(2)):
            report = measure(shuffled, seconds=0.3)
            source_is_slowest = "RecordFile" in report.advice or "Lines" in report.advice
            assert source_is_slowest == ("Its cache has no room" in report.advice), report.advice
            if source_is_slowest:
                assert "prefetch(n)" not in report.advice
                assert re.search(r"set max_bytes to [\d,]+ or more", report.advice)


@pytest.mark.parametrize(
    ("shuffled", "parts", "warns"), [(False, 8, False), (True, 8, True), (True, 20, False)]
)
def test_a_cache_that_is_too_small_for_the_order_is_said_once_with_the_size_that_is_enough(
    server: FileServer, tmp_path: Path, shuffled: bool, parts: int, warns: bool
) -> None:
    def read_twice(cache: rs.FileCache) -> None:
        source = rs.lines(urls(server), index_dir=tmp_path / "index", cache=cache)
        for _ in range(2):
            list((source.shuffle(0) if shuffled else source).batch(16))

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        read_twice(cache_in(tmp_path, parts))
    said = [str(each.message) for each in caught]
    assert len(said) == warns, said
    if warns:
        found = re.search(r"max_bytes to ([\d,]+)", said[0])
        assert found is not None
        needed = int(found[1].replace(",", ""))
        before = process_counts.now()["bytes_read"]
        read_twice(rs.FileCache(tmp_path / "enough", needed, PART))
        assert process_counts.now()["bytes_read"] - before <= 1.01 * 4 * len(TEXT)


def test_of_many_whole_files_only_those_that_are_needed_are_looked_at(
    server: FileServer, tmp_path: Path
) -> None:
    files = rs.files(urls(server), read=True, cache=cache_in(tmp_path))
    needs = by_index(files.stage).needs
    assert needs is not None
    (uses,) = needs(np.array([2, 1, 2]), np.arange(3))
    assert [file.path for file in uses.files] == urls(server)[1:3]
    assert uses.file_of.tolist() == [1] * 4 + [0] * 4 + [1] * 4
    assert uses.parts.tolist() == [*range(4)] * 3
    assert uses.at.tolist() == [0] * 4 + [1] * 4 + [2] * 4
