"""ArrayRecord files of the real package: every law, other ranks, other processes, remote, changed and damaged."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from formats.array_records import OPTIONS, records, write
from formats.http_files import AT_ONCE, FileServer
from formats.laws_of_sources import check_laws, items_of_two_ranks_then_three
from support.native_forks import called_in_threads, holds_in_a_fork
from support.s3_server import s3_server
from support.tiers import thinned

import resumable as rs
from resumable.formats.array_record_file import open_readers
from resumable.formats.io import local_copies, remote_content
from resumable.testing import check_resumes_everywhere
from resumable.testing.laws import first_items, resumes_at_every_position

module = pytest.importorskip(
    "array_record.python.array_record_module", reason="array_record is not installed"
)

# Where the tests of Lance ran in this process, its warning comes at each fork.
pytestmark = pytest.mark.filterwarnings("ignore:lance is not fork-safe")

ALL = records(0, 30)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of 30 records in all, one without any."""
    folder = tmp_path_factory.mktemp("array_records")
    for part, (begin, end) in enumerate([(0, 11), (11, 11), (11, 29), (29, 30)]):
        write(folder / f"{part}.array_record", ALL[begin:end], OPTIONS[part])
    return folder


def source(data: Path) -> rs.Pipeline[bytes]:
    return rs.array_record(data / "*.array_record")


def length(record: bytes) -> int:
    return len(record)


def is_long(record: bytes) -> bool:
    return len(record) > 4


PIPELINES: dict[str, Callable[[Path], rs.Pipeline[Any]]] = {
    "in order": source,
    "shuffled": lambda data: source(data).shuffle(1).repeat(2),
    "in blocks": lambda data: source(data).shuffle(2, block=4).batch(4, collate=list),
    "of a rank": lambda data: source(data).shuffle(3).shard(1, 2).repeat(2),
    "window": lambda data: source(data).filter(is_long).shuffle(4, window=5),
    "prefetch": lambda data: source(data).take(8).map(length).prefetch(3),
    "partitions": lambda data: (
        source(data).shuffle(5).partition(4, lambda part: part.filter(is_long))
    ),
    "one file": lambda data: rs.array_record(data / "2.array_record").shuffle(0),
    "no record": lambda data: rs.array_record(data / "1.array_record").repeat(2),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_records_obey_every_law(name: str, data: Path) -> None:
    check_laws(PIPELINES[name](data))


@pytest.mark.parametrize("options", OPTIONS)
def test_records_are_those_that_the_package_reads(options: str, tmp_path: Path) -> None:
    found = records(0, 700)
    path = write(tmp_path / "a.array_record", found, options)
    reader = module.ArrayRecordReader(str(path))
    theirs = reader.read_all()
    reader.close()
    pipeline = rs.array_record(path)
    assert list(pipeline) == theirs == found
    order = np.random.default_rng(0).integers(0, 700, 400)
    assert pipeline.gather(order) == [found[number] for number in order.tolist()]
    assert [pipeline[index] for index in (0, 699, -1)] == [found[0], found[699], found[699]]
    assert pipeline.gather(np.arange(5, 650)) == found[5:650]
    assert pipeline.gather(np.array([4, 6, 5, 7])) == [found[number] for number in (4, 6, 5, 7)]


def test_items_are_those_of_grains_data_source(data: Path) -> None:
    theirs = pytest.importorskip(
        "array_record.python.array_record_data_source", reason="array_record is not installed"
    )
    paths = [str(path) for path in sorted(data.iterdir())]
    with theirs.ArrayRecordDataSource(paths) as found:
        expected = [found[index] for index in range(len(found))]
    assert list(source(data)) == expected


def test_two_ranks_are_resumed_by_three(data: Path) -> None:
    pipeline = source(data).shuffle(5).repeat(2)
    seen = items_of_two_ranks_then_three(pipeline)
    assert sorted(seen) == sorted(ALL * 2)


def test_processes_read_and_compute_the_same(data: Path) -> None:
    mapped = source(data).shuffle(2).map(length, workers=2, executor="process")
    assert first_items(mapped) == [len(record) for record in source(data).shuffle(2)]
    parts = source(data).shuffle(2).partition(4, _lengths, workers=2, executor="process")
    assert first_items(parts) == first_items(source(data).shuffle(2).partition(4, _lengths))


def _lengths(part: rs.Pipeline[bytes]) -> rs.Pipeline[int]:
    return part.map(length)


def test_a_pipeline_resumes_in_a_fresh_process(data: Path) -> None:
    check_resumes_everywhere(source(data).shuffle(1), positions=[0, 17, 30], fresh_process=True)


def test_a_pickled_pipeline_reads_the_same(data: Path) -> None:
    pipeline = source(data)
    next(iter(pipeline))
    assert list(pickle.loads(pickle.dumps(pipeline))) == ALL


def test_forks_read_while_other_threads_do(data: Path) -> None:
    pipeline = rs.array_record(data / "2.array_record")
    with called_in_threads(lambda: pipeline.gather(np.arange(18)[::-1])):
        for _ in range(20):
            assert holds_in_a_fork(lambda: list(pipeline) == ALL[11:29])


def test_few_files_are_open_at_a_time(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_readers.clear()
    monkeypatch.setattr(open_readers, "most", 2)
    paths = [path for path in data.iterdir() if path.name != "1.array_record"]
    pipeline = rs.array_record(paths * 20)
    list(pipeline.shuffle(0))
    assert len(open_readers) == 2
    links = [os.path.realpath(f"/proc/self/fd/{one}") for one in os.listdir("/proc/self/fd")]
    assert sum(link.startswith(str(data.resolve())) for link in links) <= 2


def test_origins_and_exclusions_name_file_and_record(data: Path) -> None:
    shuffled = source(data).shuffle(3)
    origins: rs.Pipeline[Any] = rs.origins(shuffled)
    for index, origin in enumerate(origins):
        file = rs.array_record(str(origin.file))
        assert shuffled[index] == file[origin.record]
    excluded = source(data).exclude({"2.array_record": [0, 17], "0.array_record": [3]})
    assert list(excluded) == [ALL[i] for i in range(30) if i not in (3, 11, 28)]


def test_other_contents_of_the_same_size_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.array_record", records(10, 20))
    with iter(rs.array_record(path)) as iterator:
        next(iterator)
        state = iterator.get_state()
    size = path.stat().st_size
    write(path, [record[::-1] for record in records(10, 20)])
    assert path.stat().st_size == size
    with pytest.raises(rs.StateMismatch, match=r"a.array_record has other content"):
        rs.array_record(path).resume(state)


@pytest.mark.parametrize("used", [False, True])
def test_a_file_that_was_replaced_is_refused(tmp_path: Path, used: bool) -> None:
    path = write(tmp_path / "a.array_record", records(0, 20))
    pipeline = rs.array_record(path)
    if used:
        assert pipeline[3] == records(3, 4)[0]
    else:
        open_readers.clear()
    write(tmp_path / "b", records(20, 40)).replace(path)
    os.utime(path, ns=(1, 1))  # a clock may not tell the two apart
    for read in (
        lambda: pipeline[3],
        lambda: list(pipeline),
        lambda: pipeline.gather(np.array([5, 2])),
    ):
        with pytest.raises(rs.MalformedItem, match=r"a.array_record changed since"):
            read()


def test_a_damaged_record_is_named_and_others_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.array_record"
    found = [bytes([number]) * 3000 for number in range(30)]
    write(path, found, "group_size:1,uncompressed")
    content = bytearray(path.read_bytes())
    content[content.index(found[7]) + 5] ^= 1
    path.write_bytes(content)
    pipeline = rs.array_record(path)
    for read in (lambda: pipeline[7], lambda: pipeline.gather(np.array([9, 7, 3]))):
        with pytest.raises(rs.MalformedItem, match=r"a.array_record, record 7: .*hash mismatch"):
            read()
    with iter(pipeline) as iterator:
        assert list(islice(iterator, 7)) == found[:7]
        with pytest.raises(rs.MalformedItem, match="record 7"):
            next(iterator)
        assert iterator.get_state()["step"] == 7
    assert pipeline.gather(np.array([9, 8, 3])) == [found[9], found[8], found[3]]
    assert holds_in_a_fork(lambda: refuses(pipeline, 7) and pipeline[8] == found[8])


def refuses(pipeline: rs.Pipeline[bytes], index: int) -> bool:
    try:
        return not pipeline[index]
    except rs.MalformedItem:
        return True


@pytest.mark.parametrize("content", [b"", b"no such file at all", bytes(70_000)])
def test_what_is_no_array_record_file_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.array_record"
    path.write_bytes(content)
    with pytest.raises(rs.MalformedItem, match=r"a.array_record, list of records: "):
        rs.array_record(path)


def test_a_file_that_is_cut_short_anywhere_is_refused(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole", records(0, 300)).read_bytes()
    path = tmp_path / "a.array_record"
    for size in thinned(range(len(whole)), 30, "cut"):
        path.write_bytes(whole[:size])
        with pytest.raises(rs.MalformedItem, match="list of records"):
            rs.array_record(path)


def test_without_the_package_the_extra_is_named(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "array_record.python.array_record_module", None)
    with pytest.raises(
        rs.MissingDependency, match=r"pip install 'resumable-loader\[array-record\]'"
    ):
        source(data)


def test_errors_of_the_system_are_its_own(data: Path) -> None:
    with pytest.raises(FileNotFoundError):
        rs.array_record(data / "none")
    with pytest.raises(rs.InvalidArgument, match="at least one file"):
        rs.array_record(data / "*.none")
    with pytest.raises(rs.InvalidArgument, match="regular files"):
        rs.array_record(data)


def served(server: FileServer, data: Path) -> list[str]:
    for path in data.iterdir():
        server.files[f"/{path.name}"] = path.read_bytes()
        server.tags[f"/{path.name}"] = '"1"'
    return [f"{server.address}/{part}.array_record" for part in range(4)]


def test_remote_files_are_copied_once_and_read_as_local_ones(
    data: Path, http_server: FileServer
) -> None:
    urls = served(http_server, data)
    http_server.often = 0.2
    pipeline = rs.array_record(urls, storage_options={"retry": AT_ONCE})
    http_server.often = 0.0
    http_server.requests.clear()
    resumes_at_every_position(pipeline.shuffle(2).batch(4, collate=list), positions=[0, 3, 8])
    assert list(pipeline) == ALL
    again = rs.array_record(urls, storage_options={"retry": AT_ONCE})
    assert list(again) == ALL
    assert not [one for one in http_server.requests if one[0] == "GET" and one[2] != (0, 4095)]


def test_another_process_makes_its_copies_out_of_the_cache(
    data: Path, http_server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = served(http_server, data)
    cache = rs.FileCache(tmp_path, max_bytes=1 << 26)
    monkeypatch.setattr(local_copies, "_folder", None)
    pipeline = rs.array_record(urls, storage_options={"retry": AT_ONCE}, cache=cache)
    monkeypatch.setattr(local_copies, "_folder", None)  # as it is in another one
    http_server.requests.clear()
    assert list(pickle.loads(pickle.dumps(pipeline))) == list(pipeline) == ALL
    assert not [one for one in http_server.requests if one[0] == "GET" and one[2] != (0, 4095)]


def test_a_remote_file_that_changes_while_it_is_copied_is_refused(
    data: Path, http_server: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    (url, *_) = served(http_server, data)
    monkeypatch.setattr(local_copies, "PIECE", 1 << 12)
    monkeypatch.setattr(local_copies, "LARGEST_RANGE", 1 << 12)
    read = remote_content.read_uncached

    def changing(*arguments: Any, **options: Any) -> list[bytes]:
        http_server.tags["/0.array_record"] = '"2"'
        return read(*arguments, **options)

    http_server.tags["/0.array_record"] = '"0"'
    monkeypatch.setattr(local_copies, "read_uncached", changing)
    with pytest.raises(rs.MalformedItem, match=rf"{url} changed since the pipeline was built"):
        rs.array_record(url, storage_options={"retry": AT_ONCE})


def test_a_fork_uses_the_copies_of_its_parent_and_does_not_remove_them(
    data: Path, http_server: FileServer
) -> None:
    urls = served(http_server, data)
    options = {"retry": AT_ONCE}
    pipeline = rs.array_record(urls, storage_options=options)
    folder = local_copies._folder
    assert folder is not None
    copies = sorted(os.listdir(folder.path))

    def reads_them() -> bool:
        same = list(pipeline) == ALL and local_copies._folder_of_process().path == folder.path
        local_copies._remove(folder)
        return same

    assert holds_in_a_fork(reads_them)
    assert sorted(os.listdir(folder.path)) == copies
    assert list(pipeline) == ALL


@pytest.fixture(scope="module")
def s3(data: Path) -> Iterator[dict[str, Any]]:
    files = {f"data/{path.name}": path.read_bytes() for path in data.iterdir()}
    with s3_server(files) as address:
        yield {"endpoint_url": address, "skip_instance_cache": False}


def test_objects_of_s3_are_shuffled_and_resumed(s3: dict[str, Any]) -> None:
    pipeline = rs.array_record("s3://bucket/data/*.array_record", storage_options=s3).shuffle(3)
    expected = [ALL[number] for number in rs.range(30).shuffle(3)]
    with iter(pipeline) as iterator:
        first = list(islice(iterator, 7))
        state = rs.dumps(iterator.get_state())
    assert first + list(pipeline.resume(rs.loads(state))) == expected


def test_copies_lie_in_the_cache_for_all_processes_and_within_its_limit(
    data: Path, http_server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = served(http_server, data)
    total = sum(len(content) for content in http_server.files.values())
    monkeypatch.setattr(local_copies, "_folder", None)
    cache = rs.FileCache(tmp_path, max_bytes=4 * (total + (1 << 16)), part_bytes=1 << 16)
    assert list(rs.array_record(urls, cache=cache).shuffle(1)) == list(source(data).shuffle(1))
    assert sum(path.stat().st_size for path in tmp_path.rglob("*.copy")) == total
    assert not [*tmp_path.rglob("*.part")]
    assert local_copies._folder is None, "nothing is copied to the folder of temporary files"


def test_copies_for_which_a_cache_has_no_room_are_said_with_their_size(
    data: Path, http_server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = served(http_server, data)
    large = write(tmp_path / "large", [bytes([n]) * 4096 for n in range(200)], "uncompressed")
    http_server.files["/0.array_record"] = large.read_bytes()
    size, total = large.stat().st_size, sum(map(len, http_server.files.values()))
    cache = rs.FileCache(tmp_path / "cache", max_bytes=total - size + 4096, part_bytes=1 << 16)
    monkeypatch.setattr(local_copies, "_folder", None)
    with pytest.warns(
        RuntimeWarning, match=rf"whole copies of its files, {total:,} bytes.* of {size:,} bytes are"
    ) as told:
        pipeline = rs.array_record(urls, cache=cache)
    assert len(told) == 1
    assert len(list(pipeline)) == 200 + len(ALL) - 11
