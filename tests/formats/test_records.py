"""Records of a format that is not one of the library's: what all formats share."""

from __future__ import annotations

import bz2
import gzip
import lzma
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import resumable as rs
from resumable.formats.index import record_index
from resumable.formats.record import ByteReader, Format, FoundRecords, LocatedRecord
from resumable.formats.records import records
from resumable.testing import check_stage

END = 255


def scan_runs(reader: ByteReader, offset: int) -> Iterator[FoundRecords]:
    """A length of one byte, then so many bytes; an empty one is passed over, and 255 is the end."""
    ends, kept_before = list[int](), list[int]()
    while (size := reader.read(1)) and size[0] != END:
        offset += 1 + reader.skip(size[0])
        ends.append(offset)
        if not size[0]:
            kept_before.append(len(ends) - len(kept_before) - 1)
    yield FoundRecords(np.array(ends, np.int64), np.array(kept_before, np.int64))


RUNS = Format("runs", "run", scan_runs)
TRAILED = Format("trailed", "run", scan_runs, lambda run: run[1:])


def value(run: LocatedRecord) -> str:
    """The text of a run."""
    if len(run.data) != 1 + run.data[0]:
        raise rs.MalformedItem(f"{run.path}, run {run.number}: it is cut short")
    return run.data[1:].decode()


def written(path: Path, runs: list[str], rest: bytes = b"\xff\0\0\0\0") -> Path:
    path.write_bytes(b"".join(bytes([len(run)]) + run.encode() for run in runs) + rest)
    return path


def texts(*paths: Path) -> rs.Pipeline[str]:
    return rs.Pipeline(records(RUNS, paths)).map(value)


@pytest.fixture(params=[0, record_index.SMALLEST_CACHED], ids=["cached", "scanned"])
def smallest_cached(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    for module in ("record_index", "packs"):
        monkeypatch.setattr(f"resumable.formats.index.{module}.SMALLEST_CACHED", request.param)
    return int(request.param)


def test_any_format_keeps_the_laws(tmp_path: Path, smallest_cached: int) -> None:
    first = written(tmp_path / "first", ["a", "", "bc", "", "", "def"])
    empty = written(tmp_path / "empty", [])
    last = written(tmp_path / "last", [str(number) for number in range(20)], b"")
    pipeline = texts(first, empty, last)
    assert list(pipeline) == ["a", "bc", "def", *map(str, range(20))]
    assert sorted(pipeline.shuffle(0).batch(20).unbatch()) == sorted(pipeline)
    check_stage(pipeline)
    names = ["first", "empty", "last"]
    caches = {path.name for path in tmp_path.glob("*.runs.idx")}
    assert caches == (set() if smallest_cached else {f"{name}.runs.idx" for name in names})
    assert list(texts(tmp_path / "*st")) == list(pipeline)
    assert "'first' and 1 more" in repr(texts(tmp_path / "*st").stage.inputs[0])


def test_records_are_told_where_they_stand(tmp_path: Path) -> None:
    path = written(tmp_path / "data", ["a", "", "bc"])
    stage = records(RUNS, path)
    assert list(stage.start()) == [
        LocatedRecord(b"\1a", str(path), 1),
        LocatedRecord(b"\2bc", str(path), 3),
    ]
    assert [item.data for item in records(TRAILED, path).start()] == [b"a", b"bc"]
    assert "format=runs" in rs.Pipeline(stage).describe()
    assert "2 runs" in rs.Pipeline(stage).fingerprint
    assert list(pickle.loads(pickle.dumps(stage)).start()) == list(stage.start())


def test_what_is_damaged_is_an_error_with_file_and_record(tmp_path: Path) -> None:
    path = written(tmp_path / "data", ["a", "bc"], b"\5ab")
    iterator = iter(texts(path))
    assert [next(iterator), next(iterator)] == ["a", "bc"]
    with pytest.raises(rs.MalformedItem, match="data, run 3: it is cut short"):
        next(iterator)
    skipping = rs.Pipeline(records(RUNS, path)).map(value, on_error="skip")
    assert list(skipping) == ["a", "bc"]


def test_a_state_of_another_format_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "data", ["a", "bc"])
    state = iter(rs.Pipeline(records(RUNS, path))).get_state()
    with pytest.raises(
        rs.StateMismatch,
        match="saved format of paths=runs, this pipeline has format of paths=trailed",
    ):
        rs.Pipeline(records(TRAILED, path)).resume(state)


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize("format", [RUNS, None])
def test_compressed_content_is_refused(
    tmp_path: Path, compress: Callable[[bytes], bytes], format: Format | None
) -> None:
    path = tmp_path / "data"
    path.write_bytes(compress(b"line\n" * 100))
    with pytest.raises(rs.InvalidArgument, match=r"uncompressed files, got .*data', which is"):
        rs.lines(path) if format is None else records(format, path)


def test_caches_of_one_format_are_no_data_of_another(tmp_path: Path) -> None:
    for name in ("data", "data.lines.idx", "data.csv-27.idx", ".tmp-0123456789abcdef.idx"):
        (tmp_path / name).write_text("text\n")
    assert list(rs.lines(tmp_path / "*")) == ["text"]
    (tmp_path / "data.idx").write_text("index\n")
    assert list(rs.lines(tmp_path / "*")) == ["text", "index"]
