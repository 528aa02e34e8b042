"""What the tests of every format know of `tar`."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from random import Random
from typing import Any, Final

from campaigns.damaged_records import RecordTarget, damaged_anywhere
from campaigns.hostile_bytes import damage
from formats.archives import FORMATS, archive, numbered, sealed
from formats.records_of_formats import files_in
from support.format_facts import BehindUrl, FormatFacts, InStreams, Mutation, OneSize, Pipelines

import resumable as rs
from resumable.formats.tar import TAR, DecodeSample


def damaged_headers(random: Random, real: list[bytes]) -> bytes:
    """An archive with damage in one field of a header, whose checksum is right again."""
    data = bytearray(random.choice(real))
    blocks = [at for at in range(0, len(data), 512) if data[at + 148 : at + 156].strip(b"\0")]
    for at in random.sample(blocks, random.choice((1, 1, 2))):
        start, stop = random.choice(FIELDS)
        value = random.choice(VALUES) or random.randbytes(stop - start)
        value = value[: stop - start]
        data[at + start : at + start + len(value)] = value
        data[at : at + 512] = sealed(data[at : at + 512])
    whole = bytes(data)
    return whole if random.random() < 0.8 else damage(random, whole, real)


FIELDS: Final = [(0, 100), (124, 136), (156, 157), (156, 157), (257, 265), (345, 500), (482, 483)]
VALUES: Final = [
    b"", b"", b"x", b"L", b"g", b"S", b"1", b"5", b"7", b"\0", b"\xff" * 12, b"77777777777",
    b"\x80" + b"\xff" * 11, b"\x80" + bytes(9) + b"\1\0", b"00000001000", b"a/b.c", b"__a__/b.c",
]  # fmt: skip


def damaged_archives(random: Random, real: list[bytes]) -> bytes:
    return random.choice((damaged_anywhere, damaged_headers))(random, real)


def archives() -> list[bytes]:
    """Small ones of all formats, with long names, and without the zeros at their end."""
    members = [*numbered(2, 600), ("ж" * 120 + ".txt", b"text"), ("a.seg.png", b"")]
    short = [("p/" * 60 + "n.txt", b"text"), *numbered(1, 5)]
    made = [archive(members, kind) for name, kind in FORMATS.items() if name != "ustar"]
    made.append(archive(short, FORMATS["ustar"]))
    return [data[: -(-len(data.rstrip(b"\0")) // 512) * 512 + 1024] for data in made]


def of_one_size(number: int) -> bytes:
    """As many tars are: the members of each have other names, but all tars have one size."""
    return archive((f"{10 * number + sample}.txt", b"y" * 70) for sample in range(5))


def written(folder: Path, data: bytes) -> rs.Pipeline[Any]:
    for path in files_in(folder, ".tar"):
        path.write_bytes(archive((f"{number}.bin", data) for number in range(4)))
    return rs.tar(folder / "*.tar")


def short_members(number: int) -> bytes:
    return archive(((f"{number}-{at}.cls", b"%d" % at) for at in range(9)), tarfile.DEFAULT_FORMAT)


def pipelines(folder: Path) -> Pipelines:
    return {
        "tar": lambda: rs.tar(folder / "[01].tar", decode={"cls": int}).shuffle(2).repeat(2),
        "tar skipping": lambda: rs.tar(folder / "*.tar", on_error="skip").map(len),
    }


def write(folder: Path) -> None:
    write_archive(folder / "0.tar", tarfile.GNU_FORMAT, ["txt", "cls"])
    write_archive(folder / "1.tar", tarfile.PAX_FORMAT, ["cls"])
    write_archive(folder / "bad.tar", tarfile.USTAR_FORMAT, ["cls", "cls"])


def write_archive(path: Path, kind: int, extensions: list[str]) -> None:
    """Thirteen samples, with names of many lengths."""
    with tarfile.open(path, "w", format=kind) as tar:
        for index in range(13):
            for extension in extensions:
                member = tarfile.TarInfo(f"ж/{index:0{7 * index}d}.{extension}")
                member.size = 1 + index
                tar.addfile(member, io.BytesIO(b"7" * member.size))


FACTS = FormatFacts(
    damaged=lambda: {
        "tar": RecordTarget(
            TAR, DecodeSample({"json": rs.decoders.json}), archives(), damaged_archives
        )
    },
    one_size={"tar": OneSize(of_one_size, rs.tar, "{}.tar")},
    removed={"tar": written},
    pipelines=pipelines,
    write=write,
    behind_urls={"tar": BehindUrl(lambda: archive(numbered(30)), rs.tar)},
    in_streams={"tar": InStreams(short_members, rs.tar)},
    mutations=[
        Mutation("formats/tar.py", "        if name in sample:", "        if False:"),
        Mutation("formats/tar.py", "if member.start > found.stop:", "if False:"),
        Mutation(
            "formats/tar.py",
            "self._passed_over.append(self.samples)",
            "self._passed_over.append(0)",
        ),
        Mutation(
            "formats/tar_members.py", "if recorded - 255 - summed not in (0, 65521)", "if False"
        ),
        Mutation("formats/tar_members.py", "        if kind in WITHOUT_DATA:", "        if False:"),
        Mutation(
            "formats/tar_members.py",
            "            sparse = sparse or extension.sparse\n            extension = None\n",
            "            sparse = sparse or extension.sparse\n",
        ),
    ],
)
