"""What the tests of every format know of `tfrecord`."""

from __future__ import annotations

import gzip
from pathlib import Path
from random import Random
from typing import Any, Final

from campaigns.damaged_records import RecordTarget
from campaigns.hostile_bytes import damage
from formats.records_of_formats import files_in, numbered_lines
from formats.tfrecords import framed, framed_head, write_records
from support.format_facts import BehindUrl, FormatFacts, InStreams, Mutation, OneSize, Pipelines

import resumable as rs
from resumable.formats.tfrecord import FRAME, TFRECORD, RecordDecoder


def damaged_record_files(random: Random, real: list[bytes]) -> bytes:
    """A file of records, in half of the cases with a wrong length whose checksum is right."""
    data = random.choice(real)
    if random.random() < 0.5:
        return damage(random, data, real)
    begin = random.choice(starts_of(data))
    head = framed_head(random.getrandbits(random.choice((4, 8, 12, 33, 64))))
    return data[:begin] + head + data[begin + len(head) :]


def record_files() -> list[bytes]:
    """Small ones, with records of many sizes."""
    return [b"".join(framed(b"x" * size) for size in sizes) for sizes in RECORD_SIZES]


RECORD_SIZES: Final = [(3,), (0, 0, 7), (5, 200, 0, 40), (30,) * 20, (4_100, 1, 5_000)]


def starts_of(data: bytes) -> list[int]:
    """Where the records of an undamaged file begin."""
    starts, begin = list[int](), 0
    while begin < len(data):
        starts.append(begin)
        begin += int.from_bytes(data[begin : begin + 8], "little") + FRAME
    return starts


def written(folder: Path, data: bytes) -> rs.Pipeline[Any]:
    for path in files_in(folder, ".tfrecord"):
        write_records(path, [data] * 4)
    return rs.tfrecord(folder / "*.tfrecord")


def pipelines(folder: Path) -> Pipelines:
    return {
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


def write(folder: Path) -> None:
    write_records(folder / "0.tfrecord", [b"%d" % 7**number for number in range(11)])
    write_records(folder / "none.tfrecord", [])
    bad = [framed(b"good"), framed(b"bad")[:-1], b"?", framed(b"good too"), framed(b"cut")[:-9]]
    (folder / "bad.tfrecord").write_bytes(b"".join(bad))
    (folder / "bad.tfrecord.gz").write_bytes(gzip.compress(b"".join(bad), 0))


FACTS = FormatFacts(
    damaged=lambda: {
        "tfrecord": RecordTarget(TFRECORD, RecordDecoder(), record_files(), damaged_record_files)
    },
    one_size={"tfrecord": OneSize(lambda number: framed(numbered_lines(number)), rs.tfrecord)},
    removed={"tfrecord": written},
    package="google_crc32c",
    pipelines=pipelines,
    write=write,
    behind_urls={
        "tfrecord": BehindUrl(
            lambda: b"".join(framed(b"%d" % n * (n % 50)) for n in range(60)), rs.tfrecord
        )
    },
    in_streams={
        "tfrecord": InStreams(
            lambda number: b"".join(framed(b"%d %d" % (number, at)) for at in range(9)), rs.tfrecord
        )
    },
    mutations=[
        Mutation("formats/tfrecord.py", "if is_damaged or passed", "if passed"),
        Mutation("formats/tfrecord.py", "min(left, MOST_SHOWN)", "left"),
    ],
)
