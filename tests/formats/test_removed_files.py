"""A file that is removed or replaced while a run reads is named by the error, in every format."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import os
import tarfile
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from formats.array_records import write as write_array_record
from formats.megatron_files import write_tokens
from formats.shard_files import litdata_files, mds_files, write_files
from formats.tfrecords import write_records
from support.tiers import thinned

import resumable as rs

Files = Callable[[Path, bytes], rs.Pipeline[Any]]
"""Writes files into a folder, each with a few records of that size, and reads them."""

COUNT = 3


def each(folder: Path, suffix: str) -> Iterator[Path]:
    return (folder / f"{number}{suffix}" for number in range(COUNT))


def lines(folder: Path, data: bytes, suffix: str = ".txt") -> rs.Pipeline[Any]:
    packed: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".bz2": bz2.compress}
    compress = packed.get(suffix, bytes)
    for path in each(folder, suffix):
        path.write_bytes(compress((data + b"\n") * 4))
    return rs.lines(folder / f"*{suffix}", encoding=None)


def jsonl(folder: Path, data: bytes) -> rs.Pipeline[Any]:
    for path in each(folder, ".jsonl"):
        path.write_text(f"{json.dumps(data.decode())}\n" * 4)
    return rs.jsonl(folder / "*.jsonl")


def csv(folder: Path, data: bytes) -> rs.Pipeline[Any]:
    for path in each(folder, ".csv"):
        path.write_bytes(b"a,b\n" + (data[:100_000] + b",2\n") * 4)
    return rs.csv(folder / "*.csv")


def tar(folder: Path, data: bytes) -> rs.Pipeline[Any]:
    for path in each(folder, ".tar"):
        with tarfile.open(path, "w") as archive:
            for number in range(4):
                member = tarfile.TarInfo(f"{number}.bin")
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
    return rs.tar(folder / "*.tar")


def tfrecord(folder: Path, data: bytes) -> rs.Pipeline[Any]:
    pytest.importorskip("google_crc32c")
    for path in each(folder, ".tfrecord"):
        write_records(path, [data] * 4)
    return rs.tfrecord(folder / "*.tfrecord")


def mds(folder: Path, data: bytes, *compression: Any) -> rs.Pipeline[Any]:
    samples = [(number, data.decode()) for number in range(4 * COUNT)]
    return rs.mds(write_files(folder, mds_files(samples, 4, *compression)))


def litdata(folder: Path, data: bytes) -> rs.Pipeline[Any]:
    samples = [(str(number).encode(), data) for number in range(4 * COUNT)]
    return rs.litdata(write_files(folder, litdata_files(samples, ("bytes", "bytes"))))


def megatron(folder: Path, data: bytes) -> rs.Pipeline[Any]:
    for path in each(folder, "_document"):
        write_tokens(path, [[list(data)]] * 4)
    return rs.megatron(folder / "*_document")


def files(folder: Path, data: bytes) -> rs.Pipeline[Any]:
    for path in each(folder, ".bin"):
        path.write_bytes(data)
    return rs.files(folder / "*.bin", read=True)


def image_folder(folder: Path, data: bytes) -> rs.Pipeline[Any]:
    for path in each(folder, ".png"):
        (folder / "cat").mkdir(exist_ok=True)
        (folder / "cat" / path.name).write_bytes(data)
    return rs.image_folder(folder, decode=bytes)


def table(folder: Path, data: bytes, write: Callable[[Any, Path], object], suffix: str) -> None:
    pa = pytest.importorskip("pyarrow")
    for number, path in enumerate(each(folder, suffix)):
        ids = range(4 * number, 4 * number + 4)
        write(pa.table({"id": list(ids), "data": [data + bytes([each]) for each in ids]}), path)


def parquet(folder: Path, data: bytes) -> rs.Pipeline[Any]:
    pq = pytest.importorskip("pyarrow.parquet")
    table(folder, data, lambda rows, path: pq.write_table(rows, path, row_group_size=2), ".parquet")
    return rs.parquet(folder / "*.parquet")


def arrow(folder: Path, data: bytes) -> rs.Pipeline[Any]:
    pa = pytest.importorskip("pyarrow")

    def write(rows: Any, path: Path) -> None:
        with pa.ipc.new_file(path, rows.schema) as writer:
            writer.write_table(rows, max_chunksize=2)

    table(folder, data, write, ".arrow")
    return rs.arrow(folder / "*.arrow")


def array_record(folder: Path, data: bytes) -> rs.Pipeline[Any]:
    pytest.importorskip("array_record")
    for path in each(folder, ".array_record"):
        write_array_record(path, [data] * 4)
    return rs.array_record(folder / "*.array_record")


def lance(folder: Path, data: bytes) -> rs.Pipeline[Any]:
    dataset = pytest.importorskip("lance")
    pa = pytest.importorskip("pyarrow")
    rows = pa.table({"id": range(4 * COUNT), "data": [data] * (4 * COUNT)})
    dataset.write_dataset(rows, folder, max_rows_per_file=4, mode="overwrite")
    return rs.lance(folder)


FORMATS: dict[str, Files] = {
    "lines": lines,
    "lines gzip": lambda folder, data: lines(folder, data, ".gz"),
    "lines bzip2": lambda folder, data: lines(folder, data, ".bz2"),
    "jsonl": jsonl,
    "csv": csv,
    "tar": tar,
    "tfrecord": tfrecord,
    "mds": mds,
    "mds compressed": lambda folder, data: mds(folder, data, "bz2", bz2.compress),
    "litdata": litdata,
    "megatron": megatron,
    "files": files,
    "image_folder": image_folder,
    "parquet": parquet,
    "arrow": arrow,
    "array_record": array_record,
    "lance": lance,
}
WALKS: dict[str, Callable[[rs.Pipeline[Any]], rs.Pipeline[Any]]] = {
    "in order": lambda p: p,
    "in batches": lambda p: p.batch(2, collate=list),
    "repeated": lambda p: p.repeat(2),
}


def remove(path: Path) -> None:
    path.unlink()


def replace(path: Path) -> None:
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data[: len(data) // 2])


def test_one_of_many_files_that_is_gone_is_named(tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / f"{number:03}.txt").write_text(f"{number}\n")
    pipeline = rs.lines(tmp_path / "*.txt").shuffle(0)
    gone = tmp_path / "100.txt"
    remove(gone)
    with pytest.raises(
        rs.ReadError, match=f"could not be read: No such file or directory: '{gone}'"
    ):
        list(pipeline)
    with pytest.raises(
        rs.ReadError, match=f"could not be read: No such file or directory: '{gone}'"
    ):
        rs.lines(gone)


def data_of(folder: Path) -> list[Path]:
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return [one for one in found if one.suffix not in {".json", ".idx", ".txn", ".manifest"}]


@pytest.mark.parametrize(("walk", "size"), thinned(product(WALKS, [20, 200_000]), 3, "removed"))
@pytest.mark.parametrize("change", [remove, replace])
@pytest.mark.parametrize("name", FORMATS)
def test_the_file_that_is_gone_is_named(
    tmp_path: Path, name: str, walk: str, change: Callable[[Path], None], size: int
) -> None:
    make = FORMATS[name]
    expected = list(WALKS[walk](make(tmp_path, b"x" * size)))
    pipeline = WALKS[walk](make(tmp_path, b"x" * size))
    *_, last = data_of(tmp_path)
    error: Exception | None = None
    with iter(pipeline) as iterator:
        next(iterator)
        change(last)
        try:
            rest = list(iterator)
        except (rs.ReadError, rs.MalformedItem) as raised:
            error = raised
    if error is None:  # it was in memory
        assert len(rest) == len(expected) - 1
    else:
        assert str(last) in str(error) or name == "lance"
        assert change is replace or isinstance(error, rs.ReadError)


def test_a_replaced_tar_is_named_among_many_when_a_run_resumes(tmp_path: Path) -> None:
    for number in range(300):
        write_tar(tmp_path / f"{number:04}.tar", b"%05d" % number)
    with iter(rs.tar(tmp_path / "*.tar")) as iterator:
        next(iterator)
        state = iterator.get_state()
    write_tar(tmp_path / "0123.tar", b"other")
    os.utime(tmp_path / "0123.tar", (2**31, 2**31))
    named = r"from 0112.tar to 0130.tar \(perhaps .*0123.tar, modified last\) has other content"
    with pytest.raises(rs.StateMismatch, match=named):
        rs.tar(tmp_path / "*.tar").resume(state)


def write_tar(path: Path, content: bytes) -> None:
    with tarfile.open(path, "w") as tar:
        member = tarfile.TarInfo("0.txt")
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))
