"""WARC files: the records that warcio finds, one member of gzip each or not."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from formats.warcs import record, records_of, zipped
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import resumable as rs
from resumable.formats import warc
from resumable.formats.io import pieces
from resumable.formats.record import MemoryReader
from resumable.testing import check_resumes_everywhere


def contents(pipeline: rs.Pipeline[Any]) -> list[bytes]:
    return [each["content"] for each in pipeline]


def test_a_record_has_its_parts(tmp_path: Path) -> None:
    more = [("WARC-Target-URI", "http://a.org/ü"), ("Warc-Date", "2020-02-29T00:00:00Z")]
    more += [("WARC-Record-ID", "<urn:uuid:1>"), ("X", "a\r\n\t b"), ("X", "")]
    path = tmp_path / "a.warc"
    path.write_bytes(record(b"a\r\n\r\nWARC/1.0\r\n", "response", *more) + record(b""))
    first, second = rs.warc(path)
    assert first == {
        "type": "response",
        "url": "http://a.org/ü",
        "date": "2020-02-29T00:00:00Z",
        "id": "<urn:uuid:1>",
        "headers": (("WARC-Type", "response"), *more[:3], ("X", "a b"), ("X", ""), ("Content-Length", "15")),
        "content": b"a\r\n\r\nWARC/1.0\r\n",
    }  # fmt: skip
    assert (second["type"], second["url"], second["content"]) == ("resource", None, b"")
    assert rs.warc(path)[1] == second


@pytest.mark.parametrize("at_once", [1, 7, 1 << 16])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.binary(max_size=30) | st.sampled_from([b"\r\n\r\n", record(b"x"), b"\r\n"]), max_size=6
    )
)
def test_all_records_are_found_however_much_is_read_at_once(
    monkeypatch: pytest.MonkeyPatch, at_once: int, found: list[bytes]
) -> None:
    monkeypatch.setattr(warc, "READ_AT_ONCE", at_once)
    records = list(map(record, found))
    data = b"".join(records)
    parts = list(warc.scan_warc(MemoryReader(data), 0))
    ends = [end for part in parts for end in part.ends.tolist()]
    assert ends == [len(b"".join(records[: number + 1])) for number in range(len(records))]


# The writer of warcio leaves its temporary files open.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("kind", ["plain", "members", "one member"])
def test_records_are_those_of_warcio_and_resume_everywhere(tmp_path: Path, kind: str) -> None:
    pytest.importorskip("warcio", reason="warcio is not installed")
    from warcio.archiveiterator import ArchiveIterator
    from warcio.statusandheaders import StatusAndHeaders
    from warcio.warcwriter import WARCWriter

    file = io.BytesIO()
    writer = WARCWriter(file, gzip=kind == "members")
    writer.write_record(writer.create_warcinfo_record("a.warc", {"software": "tests"}))
    for number in range(12):
        http = StatusAndHeaders("200 OK", [("Content-Type", "text/html")], protocol="HTTP/1.1")
        payload = io.BytesIO(b"%d\r\n\r\n" % number * (number * number * 40))
        url = f"http://a.org/{number}"
        writer.write_record(
            writer.create_warc_record(url, "response", payload=payload, http_headers=http)
        )
    data = file.getvalue()
    path = tmp_path / ("a.warc" if kind == "plain" else "a.warc.gz")
    path.write_bytes(gzip.compress(data) if kind == "one member" else data)
    found = ArchiveIterator(io.BytesIO(data), no_record_parse=True)
    expected = [
        (each.rec_type, tuple(each.rec_headers.headers), each.raw_stream.read()) for each in found
    ]
    pipeline = rs.warc(path)
    assert [(each["type"], each["headers"], each["content"]) for each in pipeline] == expected
    assert len(expected) == 13
    check_resumes_everywhere(pipeline.map(str))


def test_a_resume_decompresses_one_record_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [record(b"%d" % number * 20_000) for number in range(100)]
    (tmp_path / "a.warc.gz").write_bytes(zipped(records))
    pipeline = rs.warc(tmp_path / "a.warc.gz")
    with iter(pipeline) as iterator:
        for _ in range(60):
            next(iterator)
        state = iterator.get_state()
    stored, inside = state["pipeline"]["upstream"]["from"]
    assert inside == len(records[59])
    assert stored == len(zipped(records[:59]))
    begun = list[int]()
    real = pieces.Decompressed.__init__

    def noting(self: Any, file: Any, compression: Any, start: pieces.Start) -> None:
        begun.append(start.stored)
        real(self, file, compression, start)

    monkeypatch.setattr(pieces.Decompressed, "__init__", noting)
    assert next(pipeline.resume(state))["content"] == b"60" * 20_000
    assert begun == [stored]


@pytest.mark.parametrize("suffix", [".warc", ".warc.gz"])
def test_ranks_share_the_records_of_files(tmp_path: Path, suffix: str) -> None:
    paths = []
    for number in range(3):
        records = [record(b"%d-%d" % (number, place)) for place in range(5)]
        paths.append(tmp_path / f"{number}{suffix}")
        paths[-1].write_bytes(zipped(records) if suffix.endswith("gz") else b"".join(records))
    expected = [f"{number}-{place}".encode() for number in range(3) for place in range(5)]
    shards = [contents(rs.warc(paths).shard(rank, 2, uneven="keep")) for rank in range(2)]
    assert sorted(shards[0] + shards[1]) == expected
    parts = rs.files(paths).partition(2, lambda part: part.flat_map(rs.warc))
    assert sorted(contents(parts)) == expected


DAMAGED: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "cut in content": (lambda data: data[:-20], "no empty line follows its 200 bytes of content"),
    "cut at its end": (lambda data: data[:-1], "no empty line follows its 200 bytes of content"),
    "cut after lines": (lambda data: data[:-8] + warc.END, "no empty line follows its 200 bytes"),
    "cut in header": (lambda data: data[:-230], "its header does not end"),
    "too long": (lambda data: data.replace(b": 200", b": 201"), "no empty line follows its 201 bytes"),
    "too short": (lambda data: data.replace(b": 200", b": 20"), "no empty line follows its 20 bytes"),
    "no length": (lambda data: data.replace(b"Content-L", b"C-L"), "one Content-Length, got 0"),
    "huge": (lambda data: data.replace(b": 200", b": " + b"9" * 18), "no empty line follows its 9999"),
    "negative": (lambda data: data.replace(b": 200", b": -5"), "one Content-Length, got 0"),
    "two": (lambda data: data.replace(b": 200", b": 1\r\nContent-length: 2"), "one Content-Length, got 2"),
    "zeros": (lambda data: b"WARC/1.0" + bytes(600) + data[8:], "its header has a NUL"),
    "other": (lambda data: data.replace(b"WARC/", b"ARC/"), "does not begin with WARC/, so no record after"),
}  # fmt: skip


@pytest.mark.parametrize("suffix", [".warc", ".warc.gz"])
@pytest.mark.parametrize("kind", DAMAGED)
def test_a_damaged_record_ends_its_file_and_is_never_lost(
    tmp_path: Path, kind: str, suffix: str
) -> None:
    damage, message = DAMAGED[kind]
    records = records_of(3)
    last = b"" if kind.startswith("cut") else record(b"after" * 2000)
    data = b"".join(records) + damage(record(b"y" * 200)) + last
    (tmp_path / f"a{suffix}").write_bytes(data if suffix == ".warc" else gzip.compress(data))
    (tmp_path / f"b{suffix}").write_bytes(records[1] if suffix == ".warc" else zipped(records[1:2]))
    assert all(part.ends[-1] <= len(data) for part in warc.scan_warc(MemoryReader(data), 0))
    pipeline = rs.warc(tmp_path / f"*{suffix}")
    with iter(pipeline) as iterator:
        assert [next(iterator)["url"] for _ in range(3)] == ["a:0", "a:1", "a:2"]
        for _ in range(2):
            with pytest.raises(rs.MalformedItem, match=f"a{suffix}, record 3: .*{message}"):
                next(iterator)
    skipped = list[int]()
    pipeline = rs.warc(
        tmp_path / f"*{suffix}",
        on_error="skip",
        on_skip=lambda number, error: skipped.append(number),
    )
    assert [each["url"] for each in pipeline] == ["a:0", "a:1", "a:2", "a:1"]
    assert skipped == [3]
    check_resumes_everywhere(pipeline.map(str))


def test_a_damaged_member_is_an_error_at_the_record_before_it(tmp_path: Path) -> None:
    data = bytearray(zipped(records_of(9)))
    data[len(zipped(records_of(4))) + 30] ^= 255
    (tmp_path / "a.warc.gz").write_bytes(data)
    with iter(rs.warc(tmp_path / "a.warc.gz")) as iterator:
        assert [next(iterator)["url"] for _ in range(3)] == ["a:0", "a:1", "a:2"]
        with pytest.raises(rs.MalformedItem, match=r"a\.warc\.gz, record 3: not gzip, or damaged"):
            next(iterator)


def test_a_header_without_end_costs_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warc, "LONGEST_HEADER", 10_000)
    monkeypatch.setattr(warc, "READ_AT_ONCE", 1000)
    reader = MemoryReader(record(b"") + b"WARC/1.0\r\nX: " + b"y" * 100_000)
    first, second = warc.scan_warc(reader, 0)
    assert second.ends.tolist() == [first.ends[-1] + 4096]
