"""Files of samples, written by others: the laws, global shuffles, changing ranks, and many samples."""

from __future__ import annotations

import pickle
import shutil
import subprocess
from collections.abc import Callable
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pytest
from formats.archives import FORMATS, archive, numbered
from support.tiers import thinned

import resumable as rs
from resumable.formats.index import record_index
from resumable.testing import check_stage
from resumable.testing.fresh_process import resume_in_a_fresh_process

DECODE = {"json": rs.decoders.json}


def by_tarfile(kind: int) -> Callable[[Path, int], None]:
    def write(path: Path, count: int) -> None:
        path.write_bytes(archive(numbered(count), kind))

    return write


def by_shard_writer(path: Path, count: int) -> None:
    writer = pytest.importorskip("webdataset", reason="webdataset is not installed").TarWriter
    with writer(str(path)) as tar:
        for number in range(count):
            tar.write({"__key__": f"ж/{number}", "txt": "t" * number, "json": {"n": number}})


def by_gnu_tar(path: Path, count: int) -> None:
    if shutil.which("tar") is None:
        pytest.skip("tar is not installed")
    folder = path.with_suffix("")
    folder.mkdir()
    for number in range(count):
        (folder / f"{'long' * 40}{number:03d}.txt").write_text("x" * 40 * number)
        (folder / f"{'long' * 40}{number:03d}.json").write_text(str(number))
    command = ["tar", "--format=gnu", "--sort=name", "-C", str(folder), "-cf", str(path), "."]
    subprocess.run(command, check=True)


WRITERS: dict[str, Callable[[Path, int], None]] = {
    **{name: by_tarfile(kind) for name, kind in FORMATS.items()},
    "webdataset": by_shard_writer,
    "gnu tar": by_gnu_tar,
}


@pytest.fixture(params=thinned(WRITERS, 3, "writers"))
def shards(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder with shards of 9, no and one sample."""
    for number, count in enumerate((9, 0, 1)):
        WRITERS[request.param](tmp_path / f"{number}.tar", count)
    return tmp_path


def keys(pipeline: Any) -> list[str]:
    return [sample["__key__"] for sample in pipeline]


def test_the_laws_hold_and_any_process_resumes(shards: Path) -> None:
    pipeline = rs.tar(shards / "*.tar", decode=DECODE)
    assert len(pipeline) == len(list(pipeline)) == 10
    assert pipeline.random_access
    check_stage(pipeline)
    shuffled = pipeline.shuffle(1).repeat(2)
    iterator, whole = iter(shuffled), list(shuffled)
    assert sorted(keys(whole[:10])) == sorted(keys(pipeline))
    states = []
    for _ in range(20):
        states.append(rs.dumps(iterator.get_state()))
        next(iterator)
    found = resume_in_a_fresh_process(shuffled, states, [3] * 20)
    assert [run.items for run in found] == [whole[place : place + 3] for place in range(20)]


def test_two_ranks_are_resumed_by_three(shards: Path) -> None:
    def rank(index: int, count: int) -> rs.Pipeline[Any]:
        return rs.tar(shards / "*.tar").shuffle(5).shard(index, count, uneven="keep")

    for taken in range(6):
        first = [iter(rank(index, 2)) for index in range(2)]
        seen = [keys(islice(iterator, taken)) for iterator in first]
        state = rs.loads(rs.dumps(first[0].get_state()))
        assert state == first[1].get_state()
        rest = [keys(rank(index, 3).resume(state)) for index in range(3)]
        assert sorted(chain.from_iterable(seen + rest)) == sorted(keys(rs.tar(shards / "*.tar")))


def test_an_index_is_kept_and_believed_and_the_pipeline_can_be_sent(tmp_path: Path) -> None:
    (tmp_path / "x.tar").write_bytes(archive(numbered(200, 500)))
    pipeline = rs.tar(tmp_path / "x.tar", index_dir=tmp_path / "indexes", decode=DECODE)
    assert [path.name[:6] for path in (tmp_path / "indexes").iterdir()] == ["x.tar."]
    assert keys(pickle.loads(pickle.dumps(pipeline))) == keys(pipeline)
    assert "200 samples" in pipeline.fingerprint
    assert keys(rs.tar(tmp_path / "*")) == keys(pipeline)


def test_damage_is_raised_or_skipped_and_counted_and_the_next_file_is_read(tmp_path: Path) -> None:
    whole = archive(numbered(200, 500))
    (tmp_path / "a.tar").write_bytes(whole[: len(whole) // 2 - 100])
    (tmp_path / "b.tar").write_bytes(whole)
    count = len(rs.tar(tmp_path / "a.tar")) - 1
    iterator = iter(rs.tar(tmp_path / "*.tar"))
    assert len(list(islice(iterator, count))) == count
    for _ in range(2):
        with pytest.raises(rs.MalformedItem, match=rf"a\.tar, sample {count}: .*cut short"):
            next(iterator)
    skipped: list[tuple[int, str]] = []
    pipeline = rs.tar(
        tmp_path / "*.tar",
        on_error="skip",
        on_skip=lambda number, error: skipped.append((number, str(error))),
    )
    assert len(list(pipeline)) == count + 200
    assert [number for number, _ in skipped] == [count]


def test_a_file_replaced_while_it_is_read_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    path.write_bytes(archive(numbered(300, 500)))
    iterator = iter(rs.tar(path).shuffle(0))
    next(iterator)
    path.write_bytes(archive(numbered(299, 500)))
    with pytest.raises(rs.MalformedItem, match=r"x.tar changed since"):
        list(iterator)


def test_compressed_archives_are_refused_with_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "x.tar").write_bytes(b"\x1f\x8b" + bytes(100))
    with pytest.raises(rs.InvalidArgument, match="compressed by gzip"):
        rs.tar(tmp_path / "x.tar")


@pytest.mark.deep
def test_twenty_thousand_samples(tmp_path: Path) -> None:
    for name, kind in FORMATS.items():
        (tmp_path / f"{name}.tar").write_bytes(archive(numbered(20_000), kind))
        pipeline = rs.tar(tmp_path / f"{name}.tar", decode=DECODE)
        assert len(pipeline) == 20_000
        assert all(sample["json"]["label"] == number for number, sample in enumerate(pipeline))
        shuffled = pipeline.shuffle(3)
        with shuffled.start() as iterator:
            seen = {sample["json"]["label"] for sample in islice(iterator, 12_000)}
            state = iterator.get_state()
        assert len(rs.dumps(state)) < 1000
        rest = {sample["json"]["label"] for sample in shuffled.resume(state)}
        assert not seen & rest
        assert len(seen | rest) == 20_000


@pytest.mark.parametrize("content", [bytes(1 << 17), archive(numbered(3)) + bytes(1 << 17)])
def test_an_archive_that_was_indexed_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    (tmp_path / "x.tar").write_bytes(content)
    expected = list(rs.tar(tmp_path / "x.tar"))
    monkeypatch.delattr(record_index, "scanned")
    assert list(rs.tar(tmp_path / "x.tar")) == expected
