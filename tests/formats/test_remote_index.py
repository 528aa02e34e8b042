"""Remote files with an index: any record by its number, in few requests, and exact whatever fails."""

from __future__ import annotations

import gzip
import pickle
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from formats.archives import archive, numbered
from formats.http_files import AT_ONCE, CAUSES, FileServer, twice
from support.format_facts import FORMAT_FACTS, named_packages
from support.s3_server import s3_server
from support.tiers import is_deep

import resumable as rs
from resumable.formats import read_planner
from resumable.formats.index.pages import loaded_pages
from resumable.formats.io import held_ranges, remote_content, stored_files
from resumable.testing.laws import (
    pull_agrees_with_next,
    refused_states_leave_no_trace,
    resumes_at_every_position,
    skip_agrees_with_next,
)

for package in ("fsspec", "aiohttp"):
    pytest.importorskip(
        package, reason=f"{package} is not installed: pip install resumable-loader[remote]"
    )

COUNT: Final = 400
LINES: Final = [f"{number} {'y' * (number % 40)}" for number in range(COUNT)]
TEXT: Final = "\n".join(LINES).encode()

FILES: Final = {
    name: file
    for name, file in FORMAT_FACTS.merged(lambda facts: facts.behind_urls).items()
    if file.has_index
}


@pytest.fixture(autouse=True)
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes in proportion to the files of the tests."""
    monkeypatch.setattr(stored_files, "FIRST_RANGE", 512)
    monkeypatch.setattr(stored_files, "SMALL_RANGE", 512)
    for module in (stored_files, remote_content):
        monkeypatch.setattr(module, "LARGEST_RANGE", 4096)
    monkeypatch.setattr(held_ranges, "NEAR", 64)
    monkeypatch.setattr(read_planner, "LARGEST_RUN", 4096)
    monkeypatch.setattr(read_planner, "SMALL_GAP", 64)
    monkeypatch.setattr(held_ranges, "HELD_BYTES", 1 << 16)


@pytest.fixture(params=sorted(FILES))
def written(request: pytest.FixtureRequest, tmp_path: Path, http_server: FileServer) -> Any:
    """The same file, in two parts, on the disk and behind URLs: what reads the one and the other."""
    if (package := named_packages().get(request.param)) is not None:
        pytest.importorskip(package)
    content, read = FILES[request.param].content(), FILES[request.param].read
    paths, urls = [], []
    for name in (f"a.{request.param}", f"b.{request.param}"):
        (tmp_path / name).write_bytes(content)
        paths.append(tmp_path / name)
        http_server.files[f"/{name}"] = content
        urls.append(f"{http_server.address}/{name}")
    options = {"index_dir": tmp_path / "index", "storage_options": {"retry": AT_ONCE}}
    return lambda: read(paths), lambda: read(urls, **options)


def in_memory(**files: bytes) -> str:
    """A new folder of fsspec's file system in memory."""
    import fsspec

    folder = f"/{uuid.uuid4().hex}"
    for name, content in files.items():
        fsspec.filesystem("memory").pipe_file(f"{folder}/{name}", content)
    return f"memory:/{folder}"


def spans(server: FileServer) -> list[tuple[int, int]]:
    """The ranges that were asked for since the last call."""
    found = [span for method, _, span in server.requests if method == "GET" and span]
    server.requests.clear()
    return found


def size_of(ranges: list[tuple[int, int]]) -> int:
    return sum(end - begin for begin, end in ranges)


def test_an_indexed_url_is_as_the_file_on_a_disk(written: Any, http_server: FileServer) -> None:
    local, remote = (make() for make in written)
    expected = list(local)
    assert remote.fingerprint == local.fingerprint
    assert len(remote) == len(expected)
    assert list(remote) == expected
    assert list(remote.shuffle(0)) == list(local.shuffle(0))
    assert [remote[index] for index in (5, 0, len(expected) - 1)] == [
        expected[index] for index in (5, 0, -1)
    ]
    order = np.array([3, 1, 3, len(expected) - 2])
    assert remote.gather(order) == [expected[index] for index in order]
    with iter(local.shuffle(0).batch(7, collate=list)) as iterator:
        iterator.skip(3)
        state = rs.dumps(iterator.get_state())
    assert len(state) <= 300
    rest = list(local.shuffle(0).batch(7, collate=list))[3:]
    assert list(remote.shuffle(0).batch(7, collate=list).resume(rs.loads(state))) == rest


def test_the_index_is_built_by_one_pass_and_kept(written: Any, http_server: FileServer) -> None:
    _, remote = written
    expected = list(remote())
    assert http_server.requests
    spans(http_server)
    again = remote()
    # A header says the names of the columns.
    assert len(spans(http_server)) == (2 if "csv" in repr(again) else 0)
    assert list(again) == expected
    copy = pickle.loads(pickle.dumps(again))
    spans(http_server)
    assert copy[1] == expected[1]
    assert len(spans(http_server)) == 1


def test_building_an_index_reads_every_byte_once_and_then_the_ends(
    tmp_path: Path, http_server: FileServer
) -> None:
    http_server.files["/a.txt"] = TEXT
    rs.lines(f"{http_server.address}/a.txt", index_dir=tmp_path)
    read = spans(http_server)
    assert size_of(read[:-2]) == len(TEXT)
    assert sorted(read[-2:]) == [(0, 4096), (len(TEXT) - 4096, len(TEXT))]


def test_the_bytes_that_a_run_has_read_include_the_scan_that_built_its_index(
    tmp_path: Path,
) -> None:
    url = f"{in_memory(**{'a.txt': TEXT * 5})}/a.txt"
    iter(rs.range(1)).close()  # to which the indexes of other tests count
    for index_dir in (tmp_path / "first", tmp_path / "second"):
        lines = rs.lines(url, index_dir=index_dir)
        with iter(lines) as iterator:
            assert 5 * len(TEXT) <= iterator.stats()["bytes_read"] < 7 * len(TEXT)
        with iter(lines) as iterator:
            assert iterator.stats()["bytes_read"] == 0
    with iter(rs.lines(url, index_dir=tmp_path / "first")) as iterator:
        assert iterator.stats()["bytes_read"] < 2 * len(TEXT)


def test_building_an_index_passes_over_large_members(
    tmp_path: Path, http_server: FileServer
) -> None:
    content = archive(numbered(20, size=40_000))
    http_server.files["/a.tar"] = content
    samples = rs.tar(f"{http_server.address}/a.tar", index_dir=tmp_path)
    assert size_of(spans(http_server)) < len(content) / 2
    assert [sample["jpg"] for sample in samples] == [
        bytes([number]) * 40_000 for number in range(20)
    ]


@pytest.fixture
def text(tmp_path: Path, http_server: FileServer) -> rs.Pipeline[Any]:
    http_server.files["/a.txt"], http_server.tags["/a.txt"] = TEXT, '"1"'
    options = {"retry": AT_ONCE}
    pipeline = rs.lines(f"{http_server.address}/a.txt", index_dir=tmp_path, storage_options=options)
    spans(http_server)
    return pipeline


@pytest.fixture
def counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[rs.Pipeline[Any], list[int]]:
    """5,000 lines in memory, and the sizes of the ranges that are read of them from now on."""
    import fsspec

    content = b"\n".join(b"%d %s" % (number, b"y" * (number % 40)) for number in range(5000))
    lines = rs.lines(f"{in_memory(a=content)}/a", index_dir=tmp_path)
    memory, asked = fsspec.filesystem("memory"), list[int]()
    read = memory.cat_file

    def counting(path: str, start: int, end: int) -> Any:
        asked.append(end - start)
        return read(path, start, end)

    monkeypatch.setattr(memory, "cat_file", counting)
    return lines, asked


@pytest.mark.parametrize("batched", [False, True])
def test_a_pass_in_order_reads_every_byte_once_in_large_ranges(
    counted: tuple[rs.Pipeline[Any], list[int]], batched: bool
) -> None:
    lines, asked = counted
    size = sum(len(line) + 1 for line in lines) - 1
    asked.clear()
    assert len(list(lines.batch(16, collate=list) if batched else lines)) > 0
    assert sum(asked) == size
    assert len(asked) < 2 * size / 4096 + 10
    assert max(asked) == 4096


@pytest.mark.parametrize("batched", [False, True])
def test_a_shuffle_in_blocks_takes_far_fewer_ranges_than_items(
    counted: tuple[rs.Pipeline[Any], list[int]], monkeypatch: pytest.MonkeyPatch, batched: bool
) -> None:
    monkeypatch.setattr("resumable.order.block_permutation.GROUP_ITEMS", 0)
    lines, asked = counted
    expected = sorted(lines)
    size = sum(asked)
    asked.clear()
    shuffled = lines.shuffle(2, block=30)
    items = shuffled.batch(8, collate=list).unbatch() if batched else shuffled
    assert sorted(items) == expected
    assert len(asked) < 5000 / 8
    assert sum(asked) < 2 * size


def test_a_resume_in_a_global_shuffle_reads_what_it_needs(
    text: rs.Pipeline[Any], http_server: FileServer
) -> None:
    shuffled = text.shuffle(5).batch(4, collate=list)
    order = list(rs.range(COUNT).shuffle(5).batch(4, collate=list))
    expected = [[LINES[index] for index in batch] for batch in order]
    with iter(shuffled) as iterator:
        iterator.skip(70)
        state = rs.dumps(iterator.get_state())
    spans(http_server)
    with shuffled.resume(rs.loads(state)) as iterator:
        assert not http_server.requests
        assert next(iterator) == expected[70]
        asked = spans(http_server)
        assert len(asked) <= 4
        assert size_of(asked) < 4 * (50 + 64)
        assert [next(iterator) for _ in range(3)] == expected[71:74]


def test_records_longer_than_a_request_are_read_by_several(
    tmp_path: Path, http_server: FileServer
) -> None:
    lines = ["x" * 10_000, "y", "z" * 9_000]
    http_server.files["/a.txt"] = "\n".join(lines).encode()
    pipeline = rs.lines(f"{http_server.address}/a.txt", index_dir=tmp_path)
    assert list(pipeline.shuffle(1)) == [lines[index] for index in rs.range(3).shuffle(1)]
    assert max(end - begin for begin, end in spans(http_server)) <= 4096


def test_what_fails_for_the_moment_is_tried_again(written: Any, http_server: FileServer) -> None:
    local, remote = (make() for make in written)
    for seed in range(5 if is_deep() else 1):
        http_server.dice.seed(seed)
        http_server.often = 0.2
        again = written[1]()
        for pipeline, expected in (
            (again, local),
            (again.shuffle(3, block=5), local.shuffle(3, block=5)),
            (remote.shuffle(3).batch(3, collate=list), local.shuffle(3).batch(3, collate=list)),
        ):
            iterator, got = iter(pipeline), list[Any]()
            for count in (1, 3, 4):
                got += [next(iterator) for _ in range(count)]
                iterator.close()
                iterator = pipeline.resume(rs.loads(rs.dumps(iterator.get_state())))
            assert got + list(iterator) == list(expected)
        http_server.often = 0.0


@pytest.mark.parametrize(("fault", "cause"), CAUSES.items())
def test_an_error_that_stays_names_url_attempt_and_cause(
    tmp_path: Path, http_server: FileServer, fault: str, cause: str
) -> None:
    http_server.files["/a.txt"] = TEXT
    url = f"{http_server.address}/a.txt"
    options = {"retry": twice(fault)}
    pipeline = rs.lines(url, index_dir=tmp_path, storage_options=options).take(30).shuffle(1)
    expected = list(pipeline)
    message = rf"{url} could not be read: attempt 2 of 2 ended with .*({cause})"
    with iter(pipeline) as iterator:
        first = [next(iterator) for _ in range(3)]
        state = iterator.get_state()
        iterator.set_state(state)  # without what was read ahead
        http_server.faults, http_server.often = (fault,), 1.0
        with pytest.raises(rs.ReadError, match=message):
            next(iterator)
        assert iterator.get_state() == state
        http_server.often = 0.0
        assert first + list(iterator) == expected


@pytest.mark.parametrize("change", ["tag", "size", "gone"])
def test_a_file_that_was_replaced_is_refused_and_indexed_anew(
    text: rs.Pipeline[Any], tmp_path: Path, http_server: FileServer, change: str
) -> None:
    url = f"{http_server.address}/a.txt"
    with iter(text.batch(5, collate=list)) as iterator:
        next(iterator)
        other = "\n".join(reversed(LINES)).encode()
        http_server.files["/a.txt"] = other + b"\nmore" * (change == "size")
        if change == "tag":
            http_server.tags["/a.txt"] = '"2"'
        if change == "gone":
            del http_server.files["/a.txt"]
            with pytest.raises(FileNotFoundError, match=f"there is no {url}"):
                list(iterator)
            return
        with pytest.raises(rs.MalformedItem, match=rf"{url} changed since the pipeline was built"):
            list(iterator)
    expected = [*reversed(LINES), *(["more"] * (change == "size"))]
    assert list(rs.lines(url, index_dir=tmp_path)) == expected


def test_a_damaged_index_is_built_anew(
    text: rs.Pipeline[Any], tmp_path: Path, http_server: FileServer
) -> None:
    (cache,) = tmp_path.glob("a.txt.*.lines.idx")
    original = cache.read_bytes()
    with iter(text) as iterator:
        cache.write_bytes(original[:100] + bytes(len(original) - 100))
        loaded_pages.clear()
        assert list(iterator) == LINES
    assert cache.read_bytes() == original


def test_files_whose_urls_differ_in_the_query_alone_have_an_index_each(
    tmp_path: Path, http_server: FileServer
) -> None:
    http_server.files["/a"] = TEXT
    for query in ("x=1", "x=2/../../b"):
        assert len(rs.lines(f"{http_server.address}/a?{query}", index_dir=tmp_path)) == COUNT
    assert len(list(tmp_path.glob("a.*.lines.idx"))) == 2


def test_indexed_urls_obey_the_laws(tmp_path: Path) -> None:
    folder = in_memory(a=b"1\n2\nno\n3", b=b"", c=b"4\n\n5")
    (tmp_path / "local").write_bytes(b"6")
    paths = [f"{folder}/*", str(tmp_path / "local")]
    pipeline = rs.jsonl(paths, on_error="skip", index_dir=tmp_path / "index")
    assert list(pipeline) == [1, 2, 3, 4, 5, 6]
    for stages in (pipeline, rs.lines(paths, index_dir=tmp_path / "index").shuffle(0).batch(2)):
        resumes_at_every_position(stages)
        refused_states_leave_no_trace(stages, 2)
        pull_agrees_with_next(stages, [1, 2, 9])
        skip_agrees_with_next(stages, [1, 2, 9])


def test_a_bad_line_does_not_hide_those_before_it(tmp_path: Path) -> None:
    lines = rs.lines(f"{in_memory(a=b'1' + bytes([10]) + bytes([255]))}/a", index_dir=tmp_path)
    with iter(lines) as iterator:
        assert next(iterator) == "1"
        with pytest.raises(rs.MalformedItem, match=r"memory://.*a, line 2, byte 1"):
            next(iterator)


def test_what_has_no_index_is_refused(tmp_path: Path) -> None:
    folder = in_memory(**{"a.txt.gz": b"1", "b.txt.gz": b"2"})
    with pytest.raises(rs.InvalidArgument, match=r"None for compressed files, as .*a\.txt\.gz"):
        rs.lines(f"{folder}/*", index_dir=tmp_path)
    packed = in_memory(a=gzip.compress(b"1"))
    with pytest.raises(rs.InvalidArgument, match="compressed by gzip"):
        rs.lines(f"{packed}/a", index_dir=tmp_path)


def test_an_index_folder_is_not_used_if_some_files_are_compressed(tmp_path: Path) -> None:
    folder = in_memory(**{"a.jsonl": b"1\n2\n", "b.jsonl.gz": gzip.compress(b"3\n4\n", 0)})
    (tmp_path / "local.jsonl").write_bytes(b"5")
    for paths in ([f"{folder}/*"], [f"{folder}/*", str(tmp_path / "local.jsonl")]):
        pipeline = rs.jsonl(paths, index_dir=tmp_path / "index")
        assert list(pipeline) == [1, 2, 3, 4, 5][: len(list(rs.jsonl(paths)))]
        assert pipeline.describe() == rs.jsonl(paths).describe()
        resumes_at_every_position(pipeline)
    assert not (tmp_path / "index").exists()


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, Any]]:
    """Options for a server that speaks S3, with a bucket called `bucket`."""
    texts = {"data/a.txt": TEXT[:999], "data/b.txt": b"", "data/c.txt": TEXT[:999]}
    with s3_server(texts) as address:
        yield {"endpoint_url": address, "skip_instance_cache": False}


def test_objects_of_s3_are_shuffled_and_resumed(s3: dict[str, Any], tmp_path: Path) -> None:
    lines = rs.lines("s3://bucket/data/*.txt", storage_options=s3, index_dir=tmp_path)
    batches = lines.shuffle(3).batch(16, collate=list)
    both = TEXT[:999].decode().split("\n") * 2
    expected = [both[index] for index in rs.range(len(both)).shuffle(3)]
    assert [line for batch in batches for line in batch] == expected
    resumes_at_every_position(batches, positions=[0, len(batches) - 1])
    with iter(batches) as iterator:
        iterator.skip(2)
        assert len(rs.dumps(iterator.get_state())) <= 300
