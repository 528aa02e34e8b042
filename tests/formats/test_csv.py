"""CSV files: the rows that the standard library reads, found by index."""

from __future__ import annotations

import csv
import gzip
import io
import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import resumable as rs
from resumable.formats import csv_scan
from resumable.formats.csv import LARGEST_HEADER, Dialect, checked_dialect
from resumable.formats.record import LocatedRecord, MemoryReader
from resumable.formats.records import records
from resumable.stages.map import Map
from resumable.testing import check_resumes_everywhere

PLAIN = Dialect(",", '"', "utf-8", header=False)
PIECES = ["a", "bc", ",", '"', '""', "\n", "\r\n", '","', '"\n', '\n"', "\u00fc", ";", " "]


def rows_of(text: str, comment: str | None = None, **options: Any) -> list[list[str]]:
    """The rows that the standard library finds, without blank lines and comments."""
    begins = True

    def lines() -> Iterator[str]:
        nonlocal begins
        for line in io.StringIO(text, newline=""):
            if not begins or comment is None or not line.startswith(comment):
                begins = False
                yield line

    rows, found = csv.reader(lines(), **options), list[list[str]]()
    while (row := next(rows, None)) is not None:
        begins = True
        found += [row] if row else []
    return found


def ends_closed(text: str) -> bool:
    """Whether the last quote of ``text`` is closed."""
    return rows_of(f"{text}\nEND,\n")[-1] == ["END", ""]


def fields_of(data: bytes, dialect: Dialect = PLAIN) -> list[list[str]]:
    """The fields of the records found in ``data``."""
    start, number, kept, passed = 0, 0, list[LocatedRecord](), set[int]()
    for part in dialect.format.scan(MemoryReader(data), 0):
        passed |= set(
            (
                part.kept_before + np.arange(len(passed), len(passed) + len(part.kept_before))
            ).tolist()
        )
        for end in part.ends.tolist():
            kept.append(LocatedRecord(data[start:end], "x.csv", number + 1))
            start, number = end, number + 1
    return [dialect.fields(record) for place, record in enumerate(kept) if place not in passed]


@pytest.mark.parametrize("chunk", [3, 4, 7, 1 << 20])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(pieces=["bc", '"', '"\n', "a"], mark=False)
@given(pieces=st.lists(st.sampled_from(PIECES), max_size=20), mark=st.booleans())
def test_records_are_those_of_the_standard_library(
    monkeypatch: pytest.MonkeyPatch, chunk: int, pieces: list[str], mark: bool
) -> None:
    monkeypatch.setattr(csv_scan, "CHUNK", chunk)
    text = "".join(pieces)
    data = b"\xef\xbb\xbf" * mark + text.encode()
    if ends_closed(text):
        assert fields_of(data) == rows_of(text)
    else:
        with pytest.raises(rs.MalformedItem, match="a quote is not closed"):
            fields_of(data)
    bare = Dialect(",", None, "utf-8", header=False)
    assert fields_of(data, bare) == rows_of(text, quoting=csv.QUOTE_NONE)


OPTIONS: dict[str, Any] = {"escapechar": [None, "\\"], "comment": [None, "#"], "skipinitialspace": [False, True]}  # fmt: skip
DIALECTS = st.builds(
    Dialect, st.just(","), st.sampled_from(['"', None]), st.just("utf-8"), st.just(False),
    **{name: st.sampled_from(values) for name, values in OPTIONS.items()},
)  # fmt: skip
TEXTS = st.lists(
    st.sampled_from([*PIECES, "\\", "\\", '\\"', "\\\n", "#", "\n#"]), max_size=20
).map("".join)


def expected_rows(text: str, dialect: Dialect) -> list[list[str]] | None:
    """The rows of the standard library; None if a quote or an escape is open at the end."""
    quoting = csv.QUOTE_NONE if dialect.quotechar is None else csv.QUOTE_MINIMAL
    options: Any = {"quotechar": dialect.quotechar, "quoting": quoting} | {
        name: getattr(dialect, name) for name in OPTIONS
    }
    if rows_of(f"{text}\nEND,\n", **options)[-1] != ["END", ""]:
        return None
    return rows_of(text, **options)


# At each place of short chunks: quotes that are text after an escaped delimiter, an escape after a
# quote that closes, comments that follow each other, an escaped newline, and quotes in quotes.
MIXED = 'a\\,"b\n"c"\\,d\n#"\n#,"\\\ne\\\n#\\\\\n, "f""\\"\n" ,g""h"\n"i"\\\nj\n'


@pytest.mark.parametrize("chunk", [3, 4, 7, 1 << 20])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(text=MIXED, dialect=Dialect(",", '"', "utf-8", False, "\\", "#", True), mark=False)
@example(text=MIXED, dialect=Dialect(",", '"', "utf-8", False, "\\", "#", True), mark=True)
@example(text="a" + MIXED, dialect=Dialect(",", '"', "utf-8", False, "\\", "#"), mark=False)
@example(text=MIXED, dialect=Dialect(",", None, "utf-8", False, "\\"), mark=False)
@given(text=TEXTS, dialect=DIALECTS, mark=st.booleans())
def test_escapes_comments_and_spaces_mean_what_they_mean_to_the_standard_library(
    monkeypatch: pytest.MonkeyPatch, chunk: int, text: str, dialect: Dialect, mark: bool
) -> None:
    monkeypatch.setattr(csv_scan, "CHUNK", chunk)
    data = b"\xef\xbb\xbf" * mark + text.encode()
    expected = expected_rows(text, dialect)
    if expected is not None:
        assert fields_of(data, dialect) == expected
    else:
        with pytest.raises(
            rs.MalformedItem, match=r"a quote is not closed|an escape is not closed"
        ):
            fields_of(data, dialect)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=TEXTS, dialect=DIALECTS, compressed=st.booleans())
def test_rows_with_escapes_resume_everywhere(
    tmp_path: Path, text: str, dialect: Dialect, compressed: bool
) -> None:
    expected = expected_rows(text, dialect)
    if expected is None:
        return
    path = tmp_path / ("rows.csv.gz" if compressed else "rows.csv")
    path.write_bytes(gzip.compress(text.encode(), 0) if compressed else text.encode())
    rows = rs.Pipeline(Map(records(dialect.format, path), dialect.fields))
    assert list(rows) == expected
    check_resumes_everywhere(rows)


@given(st.lists(st.lists(st.text(max_size=4).filter(lambda text: "\0" not in text), min_size=1, max_size=3), max_size=8),
       st.sampled_from(["\n", "\r\n"]), st.sampled_from(",;\t|"), st.sampled_from("\"'"))  # fmt: skip
def test_what_the_standard_library_wrote_is_read(
    rows: list[list[str]], ending: str, delimiter: str, quotechar: str
) -> None:
    file = io.StringIO(newline="")
    csv.writer(
        file, delimiter=delimiter, quotechar=quotechar, lineterminator=ending, quoting=csv.QUOTE_ALL
    ).writerows(rows)
    data = file.getvalue().encode("utf-8", "surrogatepass")
    if data.decode("utf-8", "replace").encode() == data:
        assert fields_of(data, Dialect(delimiter, quotechar, "utf-8", header=False)) == rows


def written(folder: Path, **files: str | bytes) -> list[Path]:
    for name, content in files.items():
        data = content.encode() if isinstance(content, str) else content
        (folder / f"{name}.csv").write_bytes(data)
    return [folder / f"{name}.csv" for name in files]


def test_rows_are_dicts_of_strings(tmp_path: Path) -> None:
    paths = written(
        tmp_path,
        first='id,text\r\n1,"a\nb"\r\n\r\n2,"say ""x"""\r\n',
        empty="",
        marked=b'\xef\xbb\xbf"id",text\n,\n',
        only_header="id,text",
        only_mark=b"\xef\xbb\xbf\n",
        last="\n\nid,text\n3,\u00fc",
    )
    rows = rs.csv(paths)
    expected = [("1", "a\nb"), ("2", 'say "x"'), ("", ""), ("3", "\u00fc")]
    assert list(rows) == [{"id": number, "text": text} for number, text in expected]
    assert rows[-1] == {"id": "3", "text": "\u00fc"}
    assert next(iter(rs.csv(paths, columns=["text"]))) == {"text": "a\nb"}
    assert list(rs.csv(paths, columns=["text", "id"])[2]) == ["text", "id"]
    check_resumes_everywhere(rows.shuffle(0).batch(2))
    assert list(pickle.loads(pickle.dumps(rows))) == list(rows)


def test_other_dialects(tmp_path: Path) -> None:
    (path,) = written(tmp_path, data=b"1;'a;\n'\n2;caf\xe9\n")
    rows = rs.csv(
        path, delimiter=";", quotechar="'", header=False, columns=["a", "b"], encoding="latin-1"
    )
    assert list(rows) == [{"a": "1", "b": "a;\n"}, {"a": "2", "b": "caf\xe9"}]
    assert "format=csv-3b270" in rows.describe()
    (quotes,) = written(tmp_path, quotes='size,of\n5",pipe\n"x,y"\n')
    assert list(rs.csv(quotes, quotechar=None)) == [
        {"size": '5"', "of": "pipe"},
        {"size": '"x', "of": 'y"'},
    ]


def test_a_file_as_spark_and_mysql_write_it(tmp_path: Path) -> None:
    (path,) = written(
        tmp_path, data='# by "hand\nid, text\n\n1, "say \\"x\\",\\ny"\n#2,"\n3, a\\\nb\n4,\\N'
    )
    options: Any = {"escapechar": "\\", "comment": "#", "skipinitialspace": True}
    rows = rs.csv(path, **options)
    texts = {"1": 'say "x",ny', "3": "a\nb", "4": "N"}
    assert list(rows) == [{"id": number, "text": text} for number, text in texts.items()]
    assert "format=csv-2c2215c231" in rows.describe()
    check_resumes_everywhere(rows.shuffle(0))
    (plain,) = written(tmp_path, plain="a\n1\n")
    with pytest.raises(rs.StateMismatch, match="format of paths"):
        iter(rs.csv(plain, escapechar="\\")).set_state(iter(rs.csv(plain)).get_state())


@pytest.mark.parametrize("small", [0, 1 << 20])
def test_a_large_file_has_an_index_which_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: int
) -> None:
    monkeypatch.setattr("resumable.formats.io.open_files.SMALL", small)
    rows = [
        {"id": str(number), "text": f"line\n{number}, " + "x" * (number % 50)}
        for number in range(3000)
    ]
    with open(tmp_path / "data.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, ["id", "text"])
        writer.writeheader()
        writer.writerows(rows)
    assert list(rs.csv(tmp_path / "*")) == rows
    assert sorted(os.listdir(tmp_path)) == ["data.csv", "data.csv.csv.idx"]
    monkeypatch.setattr("resumable.formats.index.cache_file.scanned", None)
    assert list(rs.csv(tmp_path / "*")) == rows


ERRORS = {
    "1,2,3": "3 fields, not 2",
    "1": "1 fields, not 2",
    '1,"open': "a quote is not closed",
    "1,a\0": "it has a NUL",
    "1,a\rb": r"new-line character seen in unquoted field; .* convert a file whose lines end with",
    "1," + "x" * 131073: r"field larger than field limit \(131072\); csv.field_size_limit\(n\)",
    b"1,\xff": "byte 3: cannot decode as utf-8",
}


@pytest.mark.parametrize("record", ERRORS)
def test_a_damaged_record_is_named_or_left_out(tmp_path: Path, record: str | bytes) -> None:
    data = record if isinstance(record, bytes) else record.encode()
    (path,) = written(tmp_path, data=b"id,text\n1,a\n\n" + data + b"\n2,b\n")
    iterator = iter(rs.csv(path))
    assert next(iterator) == {"id": "1", "text": "a"}
    for _ in range(2):
        with pytest.raises(rs.MalformedItem, match=f"data.csv, record 3: .*{ERRORS[record]}"):
            next(iterator)
    skipped: list[int] = []
    rows = rs.csv(path, on_error="skip", on_skip=lambda number, error: skipped.append(number))
    after = [] if record == '1,"open' else [{"id": "2", "text": "b"}]
    assert list(rows) == [{"id": "1", "text": "a"}, *after]
    assert skipped == [1]


@pytest.mark.parametrize("chunk", [64, 1 << 20])
@pytest.mark.parametrize("before", [1, 4090, 4095, 4096, 5000])
def test_an_open_quote_costs_no_memory_and_is_seen(
    monkeypatch: pytest.MonkeyPatch, chunk: int, before: int
) -> None:
    monkeypatch.setattr(csv_scan, "CHUNK", chunk)
    data = b"a,b\n" + b"x" * before + b',"' + b"y\n" * 5000
    ends = [end for part in PLAIN.format.scan(MemoryReader(data), 0) for end in part.ends.tolist()]
    assert len(ends) == 2
    assert ends[1] == 4 + max(4096, before + 2)
    with pytest.raises(rs.MalformedItem, match="record 1: a quote is not closed"):
        fields_of(data)


def test_files_with_other_headers_are_refused_at_once(tmp_path: Path) -> None:
    written(tmp_path, a="id,text\n1,a\n", b="id,other\n1,a\n")
    with pytest.raises(
        rs.InvalidArgument,
        match=r"one header, got .*'text'.* in .*a.csv and .*'other'.* in .*b.csv",
    ):
        rs.csv(tmp_path / "*.csv")


@pytest.mark.parametrize(
    ("content", "options", "error", "message"),
    [
        ("a,a\n", {}, rs.InvalidArgument, "columns that differ, got 'a' twice in .*data.csv"),
        ('a,"b\n1', {}, rs.MalformedItem, "data.csv, record 0: a quote is not closed"),
        ("x" * (LARGEST_HEADER + 5000), {}, rs.MalformedItem, r"no header in 1048576 bytes; it ends with \\n or"),
        ("a,b\n", {"columns": ["c"]}, rs.InvalidArgument, r"columns must be among \['a', 'b'\], got 'c'"),
        ("a,b\n", {"columns": []}, rs.InvalidArgument, "at least one"),
        ("a,b\n", {"columns": ["a", "a"]}, rs.InvalidArgument, "columns must be different"),
        ("a,b\n", {"columns": "ab"}, rs.InvalidType, "columns must be a list of names"),
        ("a,b\n", {"columns": [1]}, rs.InvalidType, "columns must be a list of names"),
        ("a,b\n", {"header": False}, rs.InvalidArgument, "columns must be given"),
        ("a,b\n", {"header": 1}, rs.InvalidType, "header must be"),
        ("a,b\n", {"delimiter": "\n"}, rs.InvalidArgument, "delimiter must be one ASCII character"),
        ("a,b\n", {"delimiter": "\u00fc"}, rs.InvalidArgument, "delimiter must be one ASCII character"),
        ("a,b\n", {"delimiter": None}, rs.InvalidType, "delimiter must be a string"),
        ("a,b\n", {"quotechar": ","}, rs.InvalidArgument, "quotechar must differ"),
        ("a,b\n", {"escapechar": '"'}, rs.InvalidArgument, "escapechar must differ from quotechar"),
        ("a,b\n", {"escapechar": "ab"}, rs.InvalidArgument, "escapechar must be one ASCII character"),
        ("a,b\n", {"escapechar": "\\", "encoding": "gbk"}, rs.InvalidArgument, "escapechar must not be part of a letter"),
        ("a,b\n", {"comment": ","}, rs.InvalidArgument, "comment must differ from delimiter"),
        ("a,b\n", {"comment": 1}, rs.InvalidType, "comment must be a string"),
        ("a,b\n", {"skipinitialspace": 1}, rs.InvalidType, "skipinitialspace must be"),
        ("a,b\n", {"skipinitialspace": True, "delimiter": " "}, rs.InvalidArgument, "delimiter must not be a space"),
        ("a,b\r1,2\r", {}, rs.MalformedItem, r"record 0: new-line .* convert a file whose lines end with \\r alone"),
        ("a,b\n", {"encoding": "utf-16"}, rs.InvalidArgument, "keep newlines and quotes"),
        ("a,b\n", {"encoding": "iso2022_jp"}, rs.InvalidArgument, "keep newlines and quotes"),
        ("a,b\n", {"encoding": "nonsense"}, rs.InvalidArgument, "known to Python"),
        ("a,b\n", {"encoding": None}, rs.InvalidType, "encoding must be a string"),
        ("a,b\n", {"on_error": "ignore"}, rs.InvalidArgument, "on_error must be one of"),
    ],
)  # fmt: skip
def test_what_is_no_csv_file_or_no_argument_is_refused_at_once(
    tmp_path: Path, content: str | bytes, options: Any, error: type[Exception], message: str
) -> None:
    (path,) = written(tmp_path, data=content)
    with pytest.raises(error, match=message):
        rs.csv(path, **options)


def test_only_the_start_of_a_file_is_read_for_its_header(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = written(tmp_path, data="a,b\n" + "1,2\n" * 100_000)
    rs.csv(paths)
    read: list[int] = []
    real = csv_scan.CsvScan.__call__

    def counting(scan: csv_scan.CsvScan, reader: Any, offset: int) -> Any:
        read.append(reader.size)
        return real(scan, reader, offset)

    monkeypatch.setattr(csv_scan.CsvScan, "__call__", counting)
    rs.csv(paths)
    assert read == [4096]


def test_encodings_of_one_byte_or_more(tmp_path: Path) -> None:
    for encoding, text in [
        ("shift_jis", "\u8868,\u30bd"),
        ("gbk", "\u4e2d,\u6587"),
        ("utf-8-sig", "a,b"),
    ]:
        (path,) = written(tmp_path, data=(f"x,y\n{text}\n" * 2).encode(encoding))
        rows = rs.csv(path, encoding=encoding)
        assert list(rows[0].values()) == text.split(",")
    assert checked_dialect(",", '"', "cp1252", True).format.name == "csv"
