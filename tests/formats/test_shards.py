"""What holds for every dataset of shards: laws, ranks, names of records, and shards behind URLs."""

from __future__ import annotations

import bz2
import pickle
import re
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from formats.http_files import AT_ONCE, FileServer
from formats.shard_files import (
    Files,
    litdata_files,
    mds_files,
    numbered,
    token_files,
    write_files,
)
from formats.zipped import unzip
from support.s3_server import s3_server

import resumable as rs
from resumable.formats import read_planner
from resumable.formats.io import held_ranges
from resumable.formats.shards import mds_index, shard
from resumable.testing import check_resumes_everywhere, check_stage
from resumable.testing.comparing import same

COUNT = 23
SAMPLES = [(number, "s" * (number % 3)) for number in range(COUNT)]
TOKENS = [list(range(31)), [7] * 22, [3] * 5, list(range(40))]
Open = Callable[..., rs.Pipeline[Any]]

KINDS: dict[str, tuple[Files, Open]] = {
    "mds": (mds_files(SAMPLES, 4), rs.mds),
    "mds compressed": (mds_files(SAMPLES, 6, "bz2", bz2.compress), rs.mds),
    "litdata": (litdata_files(numbered(COUNT), per_chunk=5), rs.litdata),
    "tokens": (token_files(TOKENS), lambda path, **kw: rs.litdata(path, block_size=4, **kw)),
}
OF_LITDATA = {**dict.fromkeys(["batch", "chunk", "sample"], "backports.zstd"), "table": "pyarrow"}


@pytest.fixture(params=[*KINDS, *OF_LITDATA])
def kind(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Files, Open]:
    """The files of a dataset, and what opens it."""
    name: str = request.param
    if name in KINDS:
        return KINDS[name]
    pytest.importorskip(OF_LITDATA[name], reason=f"{OF_LITDATA[name]} is not installed")
    folder = unzip("of_litdata.zip", tmp_path / "zip") / name
    return {path.name: path.read_bytes() for path in folder.iterdir()}, rs.litdata


def test_every_law_holds_at_every_position(kind: tuple[Files, Open], tmp_path: Path) -> None:
    files, read = kind
    folder = write_files(tmp_path / "data", files)
    check_stage(read(folder))
    check_resumes_everywhere(read(folder).shuffle(3))


def test_two_ranks_and_then_three_see_every_item_once(
    kind: tuple[Files, Open], tmp_path: Path
) -> None:
    files, read = kind
    folder = write_files(tmp_path / "data", files)
    items = read(folder).enumerate().shuffle(1)

    def part(rank: int, ranks: int) -> rs.Pipeline[Any]:
        return items.shard(rank, ranks, uneven="keep")

    two = [iter(part(rank, 2)) for rank in range(2)]
    seen = [item for iterator in two for item in islice(iterator, 3)]
    state = rs.loads(rs.dumps(two[0].get_state()))
    assert state == two[1].get_state()
    assert len(rs.dumps(state)) < 600
    for rank in range(3):
        seen += part(rank, 3).resume(state)
    expected = list(read(folder))
    assert sorted(number for number, _ in seen) == list(range(len(expected)))
    assert all(same(item, expected[number]) for number, item in seen)


def test_another_process_reads_the_same(kind: tuple[Files, Open], tmp_path: Path) -> None:
    files, read = kind
    pipeline = read(write_files(tmp_path / "data", files))
    list(pipeline)
    again = pickle.loads(pickle.dumps(pipeline))
    assert len(pickle.dumps(pipeline)) < 2000
    assert all(map(same, again, pipeline))


def test_no_dataset_depends_on_what_the_caches_keep(
    kind: tuple[Files, Open], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, read = kind
    expected = list(read(write_files(tmp_path / "data", files)))
    for cache in (shard.tables, shard.contents):
        cache.clear()
        monkeypatch.setattr(cache, "most", 1)
    found = list(read(tmp_path / "data").shuffle(5).repeat(2))
    order = list(rs.range(len(expected)).shuffle(5).repeat(2))
    assert all(same(item, expected[number]) for item, number in zip(found, order, strict=True))
    assert len(shard.tables) + len(shard.contents) <= 2


def test_records_are_named_by_their_shard_and_number(tmp_path: Path) -> None:
    folder = write_files(tmp_path, KINDS["mds"][0])
    read = rs.mds(folder)
    origin: Any = rs.origins(read)[6]
    assert (origin.file, origin.record) == (str(folder / "shard.00001.mds"), 2)
    left = read.exclude({0: {"shard.00001.mds": [2]}})
    assert [item["n"] for item in left] == [*range(6), *range(7, COUNT)]
    with pytest.raises(rs.InvalidArgument, match=r"no file is called 'shard\.9\.mds'"):
        list(read.exclude({0: {"shard.9.mds": [2]}}))
    with pytest.raises(rs.InvalidArgument, match=r"00001\.mds, 4, got 4"):
        list(read.exclude({0: {"shard.00001.mds": [4]}}))


@pytest.fixture
def server(http_server: FileServer) -> FileServer:
    for name, (files, _) in KINDS.items():
        folder = name.replace(" ", "-")
        http_server.files |= {f"/{folder}/{key}": data for key, data in files.items()}
    return http_server


REMOTE: dict[str, Any] = {"storage_options": {"retry": AT_ONCE}}


@pytest.mark.parametrize("name", KINDS)
def test_shards_behind_urls_give_the_same(server: FileServer, tmp_path: Path, name: str) -> None:
    files, read = KINDS[name]
    local = list(read(write_files(tmp_path, files)))
    for url in (
        f"{server.address}/{name.replace(' ', '-')}",
        f"{server.address}/{name.replace(' ', '-')}/index.json?x=1",
    ):
        remote = read(url, **REMOTE)
        assert all(map(same, remote, local))
        shuffled = remote.gather(np.array([5, 0, len(local) - 1, 5]))
        assert all(map(same, shuffled, [local[place] for place in (5, 0, -1, 5)]))
    check_resumes_everywhere(read(url, **REMOTE).shuffle(1))


def test_a_sample_takes_a_request_for_the_offsets_and_one_for_itself(
    server: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_ranges, "NEAR", 0)
    read = rs.mds(f"{server.address}/mds", **REMOTE)

    def spans() -> list[tuple[str, tuple[int, int]]]:
        found = [(path, span) for _, path, span in server.requests if span]
        server.requests.clear()
        return found

    assert [path for path, _ in spans()] == ["/mds/index.json"]
    assert read[5]["n"] == 5
    (head, sample) = spans()
    assert head == ("/mds/shard.00001.mds", (0, 24))
    assert sample[0] == "/mds/shard.00001.mds"
    assert sample[1][1] - sample[1][0] == 12 + 2
    assert read[7]["n"] == 7
    assert len(spans()) == 1
    # All at once: the offsets of the shards that are not known, then the samples.
    assert [item["n"] for item in read.gather(np.array([22, 5, 9]))] == [22, 5, 9]
    assert sorted(path[-5] for path, _ in spans()) == ["1", "2", "2", "5", "5"]


@pytest.mark.parametrize("memory", [0, 60, 1 << 20])
def test_whatever_may_be_held_shards_behind_urls_give_the_same(
    kind: tuple[Files, Open],
    memory: int,
    http_server: FileServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(held_ranges, "HELD_BYTES", memory)
    monkeypatch.setattr(held_ranges, "NEAR", 0)
    monkeypatch.setattr(read_planner, "SMALL_GAP", 0)
    files, read = kind
    local = read(write_files(tmp_path / "data", files))
    http_server.files |= {f"/{key}": data for key, data in files.items()}
    remote = read(http_server.address, **REMOTE)
    for block in (None, 1, 3):
        expected = list(local.shuffle(2, block=block).repeat(2))
        found = remote.shuffle(2, block=block).repeat(2)
        assert all(map(same, found, expected))
        batches = found.batch(3, collate=list)
        with iter(batches) as iterator:
            iterator.skip(2)
            rest = [item for batch in iterator for item in batch]
        assert len(rest) == len(expected) - 6
        assert all(map(same, rest, expected[6:]))


@pytest.mark.parametrize("block", [None, 50])
@pytest.mark.parametrize("name", ["mds", "litdata"])
def test_small_samples_in_any_order_are_fetched_about_once(
    server: FileServer, monkeypatch: pytest.MonkeyPatch, name: str, block: int | None
) -> None:
    monkeypatch.setattr(held_ranges, "NEAR", 0)
    files = {
        "mds": mds_files([(number, "s" * 500) for number in range(3000)], 500),
        "litdata": litdata_files(numbered(3000), per_chunk=500),
    }[name]
    server.files |= {f"/many/{key}": data for key, data in files.items()}
    server.tags = dict.fromkeys(server.files, '"1"')  # so nothing is read to tell the files apart
    read = {"mds": rs.mds, "litdata": rs.litdata}[name](f"{server.address}/many", **REMOTE)
    server.requests.clear()
    assert len(list(read.shuffle(1, block=block))) == 3000
    spans = [span for _, _, span in server.requests if span]
    assert sum(end - start for start, end in spans) < 1.1 * sum(map(len, files.values()))
    assert len(spans) < 100


def test_a_plan_opens_no_shards_that_a_cache_fetches_later(
    server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, opening = list[str](), mds_index.MdsShard._opening

    def noting(self: mds_index.MdsShard) -> Any:
        opened.append(self.path)
        return opening(self)

    monkeypatch.setattr(mds_index.MdsShard, "_opening", noting)
    files = mds_files([(number, "s" * 500) for number in range(400)], 10)
    server.files |= {f"/many/{key}": data for key, data in files.items()}
    server.tags = dict.fromkeys(server.files, '"1"')
    cache = rs.FileCache(tmp_path, max_bytes=1 << 26)
    with iter(rs.mds(f"{server.address}/many", cache=cache, **REMOTE).shuffle(1)) as items:
        for _ in range(5):
            next(items)
    assert len(opened) <= 5


def test_what_fails_for_the_moment_is_tried_again(server: FileServer) -> None:
    read = rs.litdata(f"{server.address}/litdata", **REMOTE).shuffle(2)
    expected = list(read)
    server.often = 0.2
    assert list(rs.litdata(f"{server.address}/litdata", **REMOTE).shuffle(2)) == expected


@pytest.mark.parametrize("name", KINDS)
def test_what_a_cache_keeps_of_shards_is_not_read_again(
    server: FileServer, tmp_path: Path, name: str
) -> None:
    files, read = KINDS[name]
    folder = name.replace(" ", "-")
    server.tags = {f"/{folder}/{key}": '"1"' for key in files}
    cache = rs.FileCache(tmp_path / "cache", max_bytes=1 << 26)
    local = list(read(write_files(tmp_path / "data", files)).shuffle(3))
    for epoch in range(2):
        shard.tables.clear()
        shard.contents.clear()
        server.requests.clear()
        remote = read(f"{server.address}/{folder}", cache=cache, **REMOTE)
        assert all(map(same, remote.shuffle(3), local))
        read_shards = [path for method, path, span in server.requests if span]
        assert bool(read_shards) == (epoch == 0)


def test_a_remote_shard_that_has_changed_is_refused(server: FileServer) -> None:
    server.tags = {f"/mds/{name}": '"1"' for name in KINDS["mds"][0]}
    read = rs.mds(f"{server.address}/mds", **REMOTE)
    server.tags["/mds/shard.00001.mds"] = '"2"'
    assert read[0]["n"] == 0
    with pytest.raises(rs.MalformedItem, match=r"shard\.00001\.mds changed since"):
        read[4]


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    content = {
        f"{name}/{key}": data for name, (files, _) in KINDS.items() for key, data in files.items()
    }
    with s3_server(content) as address:
        yield address


@pytest.mark.parametrize("name", ["mds", "litdata"])
def test_shards_in_s3_give_the_same_and_a_resume_reads_none_of_them(
    bucket: str, tmp_path: Path, name: str
) -> None:
    files, read = KINDS[name]
    options = {"endpoint_url": bucket, "retry": AT_ONCE | {"timeout": 20}}
    pipeline = read(f"s3://bucket/{name}", storage_options=options).shuffle(4).batch(5)
    expected = list(read(write_files(tmp_path, files)).shuffle(4).batch(5))
    iterator = iter(pipeline)
    assert same(next(iterator), expected[0])
    state = rs.loads(rs.dumps(iterator.get_state()))
    iterator.close()
    again = pipeline.resume(state)
    assert all(map(same, again, expected[1:]))
    assert re.search("ETag", str(state["fingerprint"]))
