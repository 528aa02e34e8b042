"""What the tests of every format know of `warc`."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from campaigns.damaged_records import RecordTarget
from campaigns.hostile_bytes import damage
from formats import warcs
from formats.records_of_formats import files_in, numbered_lines
from support.format_facts import BehindUrl, FormatFacts, InStreams, Mutation, OneSize, Pipelines

import resumable as rs
from resumable.formats.warc import LENGTH, WARC, parse_warc


def warc_files() -> list[bytes]:
    """With long headers, empty content, and content that looks like a record."""
    inner = warcs.record(b"inner")
    folded = ("WARC-Target-URI", "a:\r\n b")
    return [
        b"".join(warcs.records_of(6)),
        warcs.record(inner) + warcs.record(b"", "metadata", folded) + inner,
        warcs.record(b"x" * 6000, "response", ("WARC-Refers-To", "y" * 5000)) + inner,
    ]


def damaged_lengths(random: Random, real: list[bytes]) -> bytes:
    """A file with another length in the header of one of its records, or with other damage."""
    data = random.choice(real)
    length = random.choice([found.span(1) for found in LENGTH.finditer(data)])
    value = random.choice(
        (b"0", b"1", b"9" * 18, b"9" * 19, b"-1", b"", b"%d" % random.randrange(9000))
    )
    whole = data[: length[0]] + value + data[length[1] :]
    return whole if random.random() < 0.5 else damage(random, data, real)


def written(folder: Path, data: bytes) -> rs.Pipeline[Any]:
    for path in files_in(folder, ".warc"):
        path.write_bytes(warcs.record(data) * 4)
    return rs.warc(folder / "*.warc")


def url_of(record: dict[str, Any]) -> str:
    """A short item of a record."""
    return f"{record['url']} {len(record['content'])}"


def pipelines(folder: Path) -> Pipelines:
    return {
        "warc": lambda: rs.warc(folder / "rows.warc").map(url_of).shuffle(2).repeat(2),
        "warc skipping": lambda: rs.warc(folder / "*.warc", on_error="skip").map(url_of),
        "warc compressed": lambda: rs.warc([folder / "rows.warc.gz", folder / "one.warc.gz"]).map(
            url_of
        ),
    }


def write(folder: Path) -> None:
    crawled = warcs.records_of(11)
    (folder / "rows.warc").write_bytes(b"".join(crawled))
    (folder / "bad.warc").write_bytes(b"".join(crawled)[:-9])
    (folder / "rows.warc.gz").write_bytes(warcs.zipped(crawled))
    (folder / "one.warc.gz").write_bytes(warcs.member(b"".join(crawled)))


FACTS = FormatFacts(
    damaged=lambda: {"warc": RecordTarget(WARC, parse_warc, warc_files(), damaged_lengths)},
    one_size={"warc": OneSize(lambda number: warcs.record(numbered_lines(number)), rs.warc)},
    removed={"warc": written},
    pipelines=pipelines,
    write=write,
    behind_urls={"warc": BehindUrl(lambda: b"".join(warcs.records_of(40)), rs.warc)},
    in_streams={
        "warc": InStreams(
            lambda number: b"".join(warcs.record(b"%d %d" % (number, at)) for at in range(9)),
            rs.warc,
        )
    },
    mutations=[
        Mutation("formats/warc.py", "stop <= seen and tail == END", "stop <= seen"),
        Mutation("formats/warc.py", "stop <= seen and tail == END", "tail == END"),
        Mutation("formats/warc.py", "if len(lengths) != 1:", "if not lengths:"),
        Mutation("formats/warc.py", "if end != len(data) or not data.endswith(END):", "if False:"),
    ],
)
