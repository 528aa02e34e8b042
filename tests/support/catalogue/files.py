"""Pipelines over files, and the files that they read."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import os
import tarfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from formats import warcs
from formats.megatron_files import write_tokens
from formats.shard_files import litdata_files, mds_files, numbered, token_files, write_files
from formats.tfrecords import framed, write_records

import resumable as rs

from ..samples import bytes_over_size, read_lines, without_folder

__all__ = ["over_files", "write_data"]


def over_files(folder: Path) -> dict[str, Callable[[], rs.Pipeline[Any]]]:
    """The pipelines over what `write_data` writes into ``folder``."""
    text, values, more = folder / "text.txt", folder / "values.jsonl", folder / "more.txt"
    packaged: dict[str, Callable[[], rs.Pipeline[Any]]] = {}
    if find_spec("google_crc32c"):
        packaged = {
            "tfrecord": lambda: (
                rs.tfrecord([folder / "0.tfrecord", folder / "none.tfrecord"]).shuffle(2).repeat(2)
            ),
            "tfrecord skipping": lambda: rs.tfrecord(
                [folder / "bad.tfrecord", folder / "0.tfrecord"], decode=len, on_error="skip"
            ).batch(2),
            "tfrecord compressed": lambda: rs.tfrecord(
                [folder / "bad.tfrecord.gz", folder / "0.tfrecord"], on_error="skip"
            ).repeat(2),
        }
    return packaged | {
        "lines": lambda: rs.lines([text, more, folder / "third.txt"]),
        "lines glob shuffled": lambda: rs.lines(folder / "t*.txt", encoding=None).shuffle(3),
        "lines not blank": lambda: rs.lines(text, skip_blank=True),
        "lines compressed": lambda: rs.lines(
            [folder / "text.txt.gz", text, folder / "none.bz2", folder / "numbers.BZ2"]
        ),
        "lines compressed not blank": lambda: (
            rs.lines(folder / "text*", skip_blank=True, encoding=None).repeat(3).batch(4)
        ),
        "lines compressed without some": lambda: rs.lines(
            [text, folder / "none.bz2", folder / "numbers.BZ2"]
        ).exclude({0: {"text.txt": [1, 2]}, 9: {"numbers.BZ2": [2, 30, 31]}}),
        "jsonl damaged skipping": lambda: rs.jsonl(
            [folder / "cut.jsonl.gz", values, folder / "cut.jsonl.gz"], on_error="skip"
        ),
        "jsonl": lambda: rs.jsonl(values).shuffle(2).batch(3),
        "tar": lambda: rs.tar(folder / "[01].tar", decode={"cls": int}).shuffle(2).repeat(2),
        "tar skipping": lambda: rs.tar(folder / "*.tar", on_error="skip").map(len),
        "jsonl skipping": lambda: rs.jsonl(folder / "bad.jsonl", on_error="skip"),
        "warc": lambda: rs.warc(folder / "rows.warc").map(url_of).shuffle(2).repeat(2),
        "warc skipping": lambda: rs.warc(folder / "*.warc", on_error="skip").map(url_of),
        "warc compressed": lambda: rs.warc([folder / "rows.warc.gz", folder / "one.warc.gz"]).map(
            url_of
        ),
        "csv": lambda: rs.csv([folder / "rows.csv", folder / "more.csv"]),
        "csv shuffled": lambda: rs.csv(folder / "[rm]o*.csv", columns=["text"]).shuffle(3).batch(2),
        "csv skipping": lambda: rs.csv(folder / "bad.csv", on_error="skip"),
        "files": lambda: rs.files([text, folder / "t*.txt"]).map(os.path.basename).repeat(2),
        "files read": lambda: rs.files(folder / "*.txt", read=True).shuffle(2).repeat(3),
        "image folder": lambda: (
            rs.image_folder(folder / "images").map(without_folder).shuffle(1).repeat(2)
        ),
        "image folder skipping": lambda: rs.image_folder(
            folder / "images", decode=bytes_over_size, on_error="skip"
        ).repeat(3),
        "megatron": lambda: rs.megatron(folder / "*_document").shuffle(2).repeat(2),
        "megatron sequences": lambda: rs.megatron(
            [folder / "b_document", folder / "a_document.idx"], items="sequence"
        ),
        "mds": lambda: rs.mds(folder / "mds").shuffle(2).repeat(2),
        "mds compressed": lambda: rs.mds(folder / "mds compressed").batch(3),
        "mds without some": lambda: rs.mds(folder / "mds").exclude(
            {0: {"shard.00001.mds": [0, 3]}, 1: {"shard.00002.mds": [1]}}
        ),
        "litdata": lambda: rs.litdata(folder / "litdata").shuffle(2).repeat(2),
        "litdata tokens": lambda: rs.litdata(folder / "tokens", block_size=4).batch(2),
        "partition of files": lambda: rs.files(folder / "t*.txt").partition(
            2, lambda part: part.flat_map(read_lines).enumerate()
        ),
    }


def write_data(folder: Path) -> None:
    """The files that the catalogue reads."""
    (folder / "text.txt").write_bytes("one\r\ntwo\n\nfünf\nlast".encode())
    (folder / "more.txt").write_bytes(b"")
    (folder / "third.txt").write_bytes(b"x\n" * 30)
    lines = [json.dumps({"i": i}) + "\n" for i in range(11)]
    (folder / "values.jsonl").write_text("".join(lines) + "\n")
    for number, name in enumerate(("cat/1.png", "cat/deep/2.JPG", "dog/3.png", "dog/4.webp")):
        path = folder / "images" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\x89" * number)
    (folder / "text.txt.gz").write_bytes(
        gzip.compress(b"one\r\n\ntwo\n", 0) + gzip.compress(b"last", 0)
    )
    (folder / "none.bz2").write_bytes(b"")
    (folder / "numbers.BZ2").write_bytes(bz2.compress(b"".join(b"%d\n" % i for i in range(40))))
    cut = gzip.compress(json.dumps({"i": 0}).encode() * 3, 0)[:-9]
    (folder / "cut.jsonl.gz").write_bytes(gzip.compress("".join(lines).encode(), 0) + cut)
    (folder / "bad.jsonl").write_text('{"a": 1}\n{broken\n[2]\n\n"three"\nnot json\n4')
    crawled = warcs.records_of(11)
    (folder / "rows.warc").write_bytes(b"".join(crawled))
    (folder / "bad.warc").write_bytes(b"".join(crawled)[:-9])
    (folder / "rows.warc.gz").write_bytes(warcs.zipped(crawled))
    (folder / "one.warc.gz").write_bytes(warcs.member(b"".join(crawled)))
    (folder / "rows.csv").write_bytes(
        b'id,text\r\n\r\n1,"a\nb"\r\n2,"say ""x"""\n3,\n4,\xc3\xbc\n5,last'
    )
    (folder / "more.csv").write_bytes(b"id,text\n" + b"6,x\n" * 9)
    (folder / "bad.csv").write_bytes(b'id,text\n1,a\nshort\n\n2,"b"\n3,5" pipe\n4,"open')
    write_archive(folder / "0.tar", tarfile.GNU_FORMAT, ["txt", "cls"])
    write_archive(folder / "1.tar", tarfile.PAX_FORMAT, ["cls"])
    write_archive(folder / "bad.tar", tarfile.USTAR_FORMAT, ["cls", "cls"])
    sequences = [[list(range(number, 2 * number))] * (number % 3) for number in range(9)]
    write_tokens(folder / "a_document", sequences, "int32")
    write_tokens(folder / "b_document", [[[40_000, 1]], [[2]]], modes=True)
    samples = [(number, "s" * (number % 3)) for number in range(11)]
    write_files(folder / "mds", mds_files(samples))
    write_files(folder / "mds compressed", mds_files(samples, 5, "bz2", bz2.compress))
    write_files(folder / "litdata", litdata_files(numbered(11)))
    write_files(folder / "tokens", token_files([list(range(14)), [7] * 9, [3]]))
    write_records(folder / "0.tfrecord", [b"%d" % 7**number for number in range(11)])
    write_records(folder / "none.tfrecord", [])
    bad = [framed(b"good"), framed(b"bad")[:-1], b"?", framed(b"good too"), framed(b"cut")[:-9]]
    (folder / "bad.tfrecord").write_bytes(b"".join(bad))
    (folder / "bad.tfrecord.gz").write_bytes(gzip.compress(b"".join(bad), 0))


def url_of(record: dict[str, Any]) -> str:
    """A short item of a record of a WARC file."""
    return f"{record['url']} {len(record['content'])}"


def write_archive(path: Path, kind: int, extensions: list[str]) -> None:
    """Thirteen samples, with names of many lengths."""
    with tarfile.open(path, "w", format=kind) as tar:
        for index in range(13):
            for extension in extensions:
                member = tarfile.TarInfo(f"ж/{index:0{7 * index}d}.{extension}")
                member.size = 1 + index
                tar.addfile(member, io.BytesIO(b"7" * member.size))
