"""What the tests of every format know of `lines`."""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from campaigns.damaged_records import (
    REFUSED,
    RecordTarget,
    damaged_anywhere,
    lines_of,
    text_files,
)
from formats.records_of_formats import files_in, numbered_lines, short_lists
from support.format_facts import BehindUrl, FormatFacts, InStreams, Mutation, OneSize, Pipelines

import resumable as rs
from resumable.formats.lines import LINES, decode_line


def texts_of(data: bytes) -> tuple[list[Any], bool]:
    """The lines of UTF-8 that are not blank."""
    return [text_of(line) for line in lines_of(data)], True


def text_of(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return REFUSED


def packed_stream(number: int) -> bytes:
    return gzip.compress(numbered_lines(number), compresslevel=0, mtime=0)


def written(folder: Path, data: bytes, suffix: str = ".txt") -> rs.Pipeline[Any]:
    packed: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".bz2": bz2.compress}
    compress = packed.get(suffix, bytes)
    for path in files_in(folder, suffix):
        path.write_bytes(compress((data + b"\n") * 4))
    return rs.lines(folder / f"*{suffix}", encoding=None)


def pipelines(folder: Path) -> Pipelines:
    text, more = folder / "text.txt", folder / "more.txt"
    return {
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
    }


def write(folder: Path) -> None:
    (folder / "text.txt").write_bytes("one\r\ntwo\n\nfünf\nlast".encode())
    (folder / "more.txt").write_bytes(b"")
    (folder / "third.txt").write_bytes(b"x\n" * 30)
    (folder / "text.txt.gz").write_bytes(
        gzip.compress(b"one\r\n\ntwo\n", 0) + gzip.compress(b"last", 0)
    )
    (folder / "none.bz2").write_bytes(b"")
    (folder / "numbers.BZ2").write_bytes(bz2.compress(b"".join(b"%d\n" % i for i in range(40))))


FACTS = FormatFacts(
    damaged=lambda: {
        "lines": RecordTarget(
            LINES,
            lambda record: decode_line(record, "utf-8", "strict"),
            text_files(),
            damaged_anywhere,
            texts_of,
        )
    },
    one_size={
        "lines": OneSize(numbered_lines, rs.lines),
        "lines in large files": OneSize(lambda number: numbered_lines(number, 20_000), rs.lines),
        "compressed": OneSize(packed_stream, rs.lines, "{}.txt.gz"),
    },
    removed={
        "lines": written,
        "lines gzip": partial(written, suffix=".gz"),
        "lines bzip2": partial(written, suffix=".bz2"),
    },
    pipelines=pipelines,
    write=write,
    behind_urls={
        "lines": BehindUrl(
            lambda: "\n".join(f"{n} {'y' * (n % 40)}" for n in range(400)).encode()[:1500], rs.lines
        ),
        "stream": BehindUrl(lambda: b"one line\n" * 40, rs.lines, has_index=False),
    },
    in_streams={
        "lines": InStreams(short_lists, rs.lines),
        "lines, not blank": InStreams(short_lists, partial(rs.lines, skip_blank=True)),
    },
    mutations=[
        Mutation("formats/line_scan.py", "kept_before = blank + lines -", "kept_before = blank -"),
        Mutation(
            "formats/line_file.py",
            "    if len(found) != len(ends):\n        return None\n",
            "",
        ),
        Mutation("formats/lines.py", "range(start - begin, stop - begin)", "range(start, stop)"),
    ],
)
