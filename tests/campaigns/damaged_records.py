"""Damaged files of records, whose scans and decoders are tried in memory."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from campaigns.hostile_bytes import damage
from formats import warcs
from formats.archives import FORMATS, MemoryReader, archive, numbered, sealed
from formats.tfrecords import framed, framed_head

import resumable as rs
from resumable.formats.csv import checked_dialect
from resumable.formats.jsonl import parse_json_line
from resumable.formats.lines import LINES, decode_line
from resumable.formats.record import BYTE_ORDER_MARK, Format, LocatedRecord
from resumable.formats.tar import TAR, DecodeSample
from resumable.formats.tfrecord import FRAME, TFRECORD, RecordDecoder
from resumable.formats.warc import LENGTH, WARC, parse_warc

__all__ = ["RECORDS", "RecordTarget", "check_named", "damaged_anywhere", "lines_of", "text_files"]

MOST_READ: Final = 1 << 21
"""Bytes that a scan may ask for at once."""
REFUSED: Final = "what was refused"
"""Stands where a record gives no item."""


class RecordTarget(NamedTuple):
    """A format to damage files of.

    Attributes:
      format: finds the records.
      decode: makes items of them.
      real: good files; small ones, so that damage strikes what matters.
      damaged: a file that follows from random choices and the good ones.
      expected: what another reader makes of the first records of a file, damaged or not: items, and
        `REFUSED` for others; and whether that is all of the file. None if there is no other reader.
    """

    format: Format
    decode: Callable[[LocatedRecord], Any]
    real: list[bytes]
    damaged: Callable[[Random, list[bytes]], bytes]
    expected: Callable[[bytes], tuple[list[Any], bool]] | None = None

    def read(self, data: bytes, folder: Path) -> tuple[int, int]:
        """Read ``data`` as a file: how many records gave items, and how many were refused.

        Raises:
          AssertionError: if the scan breaks a rule of `resumable.formats.record.Scan`, or the items
            are not as ``expected``.
        """
        items = self._items(data)
        if self.expected is not None:
            others, complete = self.expected(data)
            found = items if complete else items[: len(others)]
            assert repr(found) == repr(others), f"{found!r} and not {others!r}"
        refused = items.count(REFUSED)
        return len(items) - refused, refused

    def _items(self, data: bytes) -> list[Any]:
        reader = MemoryReader(data)
        items, start, records = list[Any](), 0, 0
        for ends, kept_before in self.format.scan(reader, 0):
            skipped = kept_before.tolist()
            for end in ends.tolist():
                assert start <= end <= len(data), f"record {records} ends at {end} of {len(data)}"
                if skipped and skipped[0] == len(items):
                    del skipped[0]
                else:
                    items.append(self._item(data[start:end], records + 1))
                start = end
                records += 1
            assert not skipped, f"{len(skipped)} records passed over are not there"
        assert reader.most <= MOST_READ, f"{reader.most} bytes were read at once"
        assert reader.calls <= len(data) / 8 + 100, f"{reader.calls} reads of {len(data)} bytes"
        return items

    def _item(self, data: bytes, number: int) -> Any:
        stripped = self.format.stripped
        record = LocatedRecord(data if stripped is None else stripped(data), "x", number)
        try:
            return self.decode(record)
        except rs.MalformedItem as error:
            check_named(error, "x")
            return REFUSED


def check_named(error: Exception, path: str) -> None:
    """Check that ``error`` begins with the file.

    Raises:
      AssertionError: if it does not.
    """
    assert str(error).startswith(path), f"no file is named: {error}"


def damaged_anywhere(random: Random, real: list[bytes]) -> bytes:
    return damage(random, random.choice(real), real)


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


def text_files() -> list[bytes]:
    """Lines that end in both ways, blank ones, and a last one without an end."""
    numbered_lines = b"".join(b"line %d\n" % number for number in range(40))
    return [b"one\r\ntwo\n\n\r\n" + "fünf\nlast".encode(), numbered_lines, b"\n" * 9]


def lines_of(data: bytes) -> list[bytes]:
    """Those that are not blank, without what ends them."""
    return list(filter(None, all_lines_of(data)))


def all_lines_of(data: bytes) -> list[bytes]:
    *whole, last = data.split(b"\n")
    return [line.removesuffix(b"\r") for line in whole] + [last] * bool(last)


def texts_of(data: bytes) -> tuple[list[Any], bool]:
    """The lines of UTF-8 that are not blank."""
    return [text_of(line) for line in lines_of(data)], True


def text_of(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return REFUSED


def json_files() -> list[bytes]:
    """As `json` writes values of all kinds."""
    values: list[Any] = [
        {"text": "fünf", "numbers": [1, -2.5, 10**30]}, [], None, True, "\ud800", float("inf"),
        {"deep": [[[[{"a": 1e-7}]]]]},
    ]  # fmt: skip
    lines = [json.dumps(value) for value in values]
    wide = json.dumps(values[0], ensure_ascii=False).encode()
    return ["\n".join(lines).encode(), BYTE_ORDER_MARK + wide + b"\r\n\r\n" + wide, wide]


def values_of(data: bytes) -> tuple[list[Any], bool]:
    """The values of JSON lines as `json` reads them."""
    lines = [
        line if number else line.removeprefix(BYTE_ORDER_MARK)
        for number, line in enumerate(all_lines_of(data))
        if line
    ]
    return list(map(value_of, lines)), True


def value_of(line: bytes) -> Any:
    try:
        return json.loads(line.decode())
    except (ValueError, RecursionError):
        return REFUSED


def csv_files() -> list[bytes]:
    """As `csv` writes fields with quotes, newlines and delimiters."""
    rows: list[list[Any]] = [
        ["id", "text"],
        [1, 'say "x"'],
        [2, "a\nb,c"],
        [3, ""],
        [4, "ü"],
        ["", ""],
    ]
    files = []
    for dialect in ("excel", "unix"):
        file = io.StringIO(newline="")
        csv.writer(file, dialect).writerows(rows * 3)
        files.append(file.getvalue().encode("latin-1"))
    return [*files, files[0].replace(b"\r\n", b"\n\n"), b'a,b\n1,5" pipe\n']


def rows_of(data: bytes) -> tuple[list[Any], bool]:
    """The rows after the header as `csv` reads them, up to the first that is refused."""
    text = data.removeprefix(BYTE_ORDER_MARK).decode("latin-1")
    *whole, last = text.split("\n")
    lines = [f"{line}\n" for line in whole] + [last] * bool(last)
    # The line behind the last one shows a quote that is not closed, as the reader goes on to it.
    reader = csv.reader([*lines, REFUSED])
    rows = list[Any]()
    while REFUSED not in rows and reader.line_num < len(lines):
        try:
            row = next(reader)
        except csv.Error:
            row = ["\0"]
        if any("\0" in field or REFUSED in field for field in row):
            rows.append(REFUSED)
        elif lines[reader.line_num - 1] not in ("\n", "\r\n"):
            rows.append(row)
    return rows[1:], REFUSED not in rows


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


CSV: Final = checked_dialect(",", '"', "latin-1", header=True)

RECORDS: Final[dict[str, RecordTarget]] = {
    "tar": RecordTarget(
        TAR, DecodeSample({"json": rs.decoders.json}), archives(), damaged_archives
    ),
    "lines": RecordTarget(
        LINES,
        lambda record: decode_line(record, "utf-8", "strict"),
        text_files(),
        damaged_anywhere,
        texts_of,
    ),
    "jsonl": RecordTarget(LINES, parse_json_line, json_files(), damaged_anywhere, values_of),
    "csv": RecordTarget(CSV.format, CSV.fields, csv_files(), damaged_anywhere, rows_of),
}
RECORDS["warc"] = RecordTarget(WARC, parse_warc, warc_files(), damaged_lengths)
if find_spec("google_crc32c"):
    RECORDS["tfrecord"] = RecordTarget(
        TFRECORD, RecordDecoder(), record_files(), damaged_record_files
    )
