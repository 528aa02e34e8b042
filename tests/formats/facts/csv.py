"""What the tests of every format know of `csv`."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any, Final

from campaigns.damaged_records import REFUSED, RecordTarget, damaged_anywhere
from formats.records_of_formats import files_in, numbered_lines
from support.format_facts import BehindUrl, FormatFacts, InStreams, Mutation, OneSize, Pipelines

import resumable as rs
from resumable.formats.csv import checked_dialect
from resumable.formats.record import BYTE_ORDER_MARK

DIALECT: Final = checked_dialect(",", '"', "latin-1", header=True)


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


def written(folder: Path, data: bytes) -> rs.Pipeline[Any]:
    for path in files_in(folder, ".csv"):
        path.write_bytes(b"a,b\n" + (data[:100_000] + b",2\n") * 4)
    return rs.csv(folder / "*.csv")


def with_newlines(number: int) -> bytes:
    rows = b"".join(b"\n" * (at == 3) + b'%d,"a\n%d"\n' % (number, at) for at in range(8))
    return b"\nid,text\n" + rows


def pipelines(folder: Path) -> Pipelines:
    return {
        "csv": lambda: rs.csv([folder / "rows.csv", folder / "more.csv"]),
        "csv shuffled": lambda: rs.csv(folder / "[rm]o*.csv", columns=["text"]).shuffle(3).batch(2),
        "csv skipping": lambda: rs.csv(folder / "bad.csv", on_error="skip"),
    }


def write(folder: Path) -> None:
    (folder / "rows.csv").write_bytes(
        b'id,text\r\n\r\n1,"a\nb"\r\n2,"say ""x"""\n3,\n4,\xc3\xbc\n5,last'
    )
    (folder / "more.csv").write_bytes(b"id,text\n" + b"6,x\n" * 9)
    (folder / "bad.csv").write_bytes(b'id,text\n1,a\nshort\n\n2,"b"\n3,5" pipe\n4,"open')


FACTS = FormatFacts(
    damaged=lambda: {
        "csv": RecordTarget(DIALECT.format, DIALECT.fields, csv_files(), damaged_anywhere, rows_of)
    },
    one_size={"csv": OneSize(lambda number: b"column\n" + numbered_lines(number), rs.csv)},
    removed={"csv": written},
    pipelines=pipelines,
    write=write,
    behind_urls={
        "csv": BehindUrl(
            lambda: b"id,text\n" + b"".join(b'%d,"a\nb"\n' % n for n in range(60)), rs.csv
        )
    },
    in_streams={"csv": InStreams(with_newlines, rs.csv)},
    mutations=[
        Mutation("formats/csv_scan.py", "if not at_start.all():", "if False:"),
        Mutation(
            "formats/csv_scan.py",
            "max(last_end + LARGEST_DAMAGED, quotes.opened + 1)",
            "last_end + LARGEST_DAMAGED",
        ),
        Mutation("formats/csv_scan.py", "inside or closed == place - 1 or", "inside or"),
        Mutation("formats/csv_scan.py", "(self.before == scan.quote and not self.closed)", "False"),
        Mutation("formats/csv_scan.py", " or (byte == scan.escape and closed == place - 1)", ""),
        Mutation("formats/csv_scan.py", "(begins_field and start >= taken)", "begins_field"),
        Mutation("formats/csv_scan.py", "not inside and place > taken and", "not inside and"),
        Mutation("formats/csv.py", "    if rows.line_num > 1:", "    if False:"),
        Mutation("formats/csv.py", "elif found not in (None, names):", "elif False:"),
    ],
)
