"""Tar archives: which samples are in them, whoever wrote them, and what is said of damaged ones."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import tarfile
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from formats.archives import (
    FORMATS,
    MemoryReader,
    archive,
    as_webdataset,
    header,
    numbered,
    records,
    samples,
    sealed,
)
from hypothesis import given
from hypothesis import strategies as st
from support.tiers import thinned

import resumable as rs
from resumable.formats.record import LocatedRecord
from resumable.formats.tar import DecodeSample, scan_tar, split_name
from resumable.formats.tar_members import BLOCK

ZEROS = bytes(2 * BLOCK)
LONG = "d/" * 120 + "n" * 90  # longer than a header of any format has room for


def expected(members: list[tuple[str, bytes]]) -> list[dict[str, Any]]:
    """The samples of members whose names all have a key and an extension."""
    named = [(*name.rsplit("/", 1)[-1].partition("."), name, data) for name, data in members]
    keyed = [(name[: -len(ext) - 1], ext.lower(), data) for _, _, ext, name, data in named]
    return [
        {"__key__": key, **{extension: data for _, extension, data in group}}
        for key, group in groupby(keyed, lambda member: member[0])
    ]


@pytest.mark.parametrize("kind", FORMATS.values(), ids=FORMATS)
@pytest.mark.parametrize("size", [0, 1, 511, 512, 513, 20_000, 70_000])
def test_samples_come_back_in_every_format_and_size(kind: int, size: int) -> None:
    members = list(numbered(5, size))
    assert samples(archive(members, kind)) == expected(members)


@pytest.mark.parametrize("kind", ["gnu", "pax"])
@pytest.mark.parametrize("stem", [LONG, "größe/ж漢字🙂", "\udcff\udc80", "x" * 1000, "a b\tc"])
def test_long_and_unicode_names_come_back(kind: str, stem: str) -> None:
    members = [(f"{stem}.txt", b"1"), (f"{stem}.Seg.PNG", b"2"), ("other.txt", b"3")]
    data = archive(members, FORMATS[kind], encoding="utf-8", errors="surrogateescape")
    assert samples(data) == [
        {"__key__": stem, "txt": b"1", "seg.png": b"2"},
        {"__key__": "other", "txt": b"3"},
    ]


def test_a_long_name_of_ustar_is_put_together() -> None:
    members = [("p/" * 60 + "n" * 80 + ".txt", b"1")]
    assert samples(archive(members, tarfile.USTAR_FORMAT)) == expected(members)


def test_the_times_of_an_old_gnu_header_are_not_taken_for_a_part_of_the_name() -> None:
    block = header(b"a.txt", 1, at_257=b"ustar  \0", at_345=b"14716347305\0")
    assert samples(bytes(block) + b"1".ljust(512, b"\0")) == [{"__key__": "a", "txt": b"1"}]


@given(st.text("a./_", min_size=1, max_size=12).map(str.encode))
def test_a_name_is_split_as_by_webdatasets_expression(name: bytes) -> None:
    match = re.match(rb"^((?:.*/|)[^.]+)[.]([^/]*)$", name)  # of webdataset/tariterators.py, 1.0.2
    skipped = re.match(rb"__[^/]*__($|/)", name)
    assert split_name(name) == (match.groups() if match and not skipped else None)


def test_names_are_split_in_linear_time() -> None:
    name = b"/a" * 400_000  # at which that expression would be busy for hours
    assert split_name(name) is None
    assert split_name(name + b".b") == (name, b"b")


def test_members_that_are_no_part_of_a_sample_are_passed_over() -> None:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, kind in [
            ("./", tarfile.DIRTYPE),
            ("a.jpg", tarfile.REGTYPE),
            ("a.dir", tarfile.DIRTYPE),
            ("a.link", tarfile.SYMTYPE),
            ("a.hard", tarfile.LNKTYPE),
            ("a.pipe", tarfile.FIFOTYPE),
            ("README", tarfile.REGTYPE),
            (".hidden", tarfile.REGTYPE),
            ("__meta__/b.txt", tarfile.REGTYPE),
            ("__info__", tarfile.REGTYPE),
            ("a.json", tarfile.REGTYPE),
            ("b.null", tarfile.CHRTYPE),
            ("__b__.txt", tarfile.CONTTYPE),
        ]:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "a.jpg"
            member.size = 3 if member.isreg() else 0
            tar.addfile(member, io.BytesIO(b"123"))
    assert samples(file.getvalue()) == [
        {"__key__": "a", "jpg": b"123", "json": b"123"},
        {"__key__": "__b__", "txt": b"123"},
    ]


def test_the_size_of_a_link_is_not_that_of_data_and_that_of_an_unknown_kind_is() -> None:
    link = header(b"a.hard", 5000, b"1")
    unknown = header(b"a.what", 600, b"Q") + b"x" * 1024
    data = bytes(link + unknown + header(b"a.txt") + ZEROS)
    assert samples(data) == [{"__key__": "a", "txt": b""}]


def test_a_name_that_points_elsewhere_is_data() -> None:
    members = [("../../etc/passwd.txt", b"1"), ("/etc/shadow.txt", b"2"), ("a/../../b.txt", b"3")]
    assert [sample["__key__"] for sample in samples(archive(members))] == [
        "../../etc/passwd",
        "/etc/shadow",
        "a/../../b",
    ]


def test_equal_keys_apart_are_two_samples() -> None:
    members = [("a.x", b"1"), ("b.x", b"2"), ("a.y", b"3")]
    assert samples(archive(members)) == expected(members)


@pytest.mark.parametrize("names", [["a.jpg", "a.JPG"], ["a.x", "a.y", "a.x"], ["a.__key__"]])
def test_two_members_of_one_name_in_a_sample_are_an_error(names: list[str]) -> None:
    data = archive([("0.txt", b"")] + [(name, b"") for name in names] + [("z.txt", b"")])
    first, second, last = records(data)
    assert DecodeSample()(first)["__key__"] == "0"
    assert DecodeSample()(last)["__key__"] == "z"
    with pytest.raises(rs.MalformedItem, match=r"^x.tar, sample 1: '.*' is a second '.*' in it$"):
        DecodeSample()(second)


def test_sizes_may_be_octal_or_binary_and_blank_ones_are_zero() -> None:
    binary = header(b"a.x", at_124=b"\x80" + (700).to_bytes(11, "big")) + b"b" * 1024
    spaced = header(b"a.y", at_124=b"  1274 \0 \0  ") + b"o" * 1024
    blank = header(b"a.z", at_124=b"\0" * 12)
    assert samples(bytes(binary + spaced + blank)) == [
        {"__key__": "a", "x": b"b" * 700, "y": b"o" * 700, "z": b""}
    ]


@pytest.mark.parametrize(
    "size", [b"\xff" * 12, b"\x80" + b"\xff" * 11, b"9", b"-1", b"\x90" + bytes(11), b"77777777777"]
)
def test_a_size_that_cannot_be_is_damage(size: bytes) -> None:
    data = bytes(header(b"a.x")) + bytes(header(b"b.x", at_124=size.ljust(12, b"\0"))) + ZEROS
    with pytest.raises(rs.MalformedItem, match=r"x.tar, sample 0: "):
        samples(data)


def test_checksums_of_signed_bytes_are_accepted() -> None:
    block = header("é.txt".encode("latin-1"))
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % (sum(block) - 256)
    (sample,) = samples(bytes(block))
    assert sample["__key__"] == "\udce9"


def test_a_header_of_large_bytes_is_summed_exactly() -> None:
    block = header(b"a.x", at_157=b"\xff" * 100, at_265=b"\xff" * 240)
    assert sum(block) > 65_521
    assert len(samples(bytes(block))) == 1
    block[200] -= 1
    with pytest.raises(rs.MalformedItem, match="checksum"):
        samples(bytes(block))


def pax(kind: bytes, **said: str) -> bytes:
    """An extended header."""
    text = b""
    for key, value in said.items():
        line = f" {key.replace('_', '.')}={value}\n".encode()
        size = len(line) + 1
        while len(str(size)) + len(line) != size:
            size += 1
        text += str(size).encode() + line
    return bytes(header(b"pax", len(text), kind)) + text.ljust(-len(text) % 512 + len(text), b"\0")


def test_pax_records_give_a_member_its_name_and_size() -> None:
    data = pax(b"x", path="q/long.tar.gz", size="600") + bytes(header(b"short", 1)) + b"z" * 1024
    assert samples(data) == [{"__key__": "q/long", "tar.gz": b"z" * 600}]


def test_a_global_header_is_passed_over_unless_it_decides_where_members_are() -> None:
    data = bytes(header(b"a.x")) + pax(b"g", comment="commit 7") + bytes(header(b"a.y")) + ZEROS
    assert samples(data) == [{"__key__": "a", "x": b"", "y": b""}]
    for said in ({"path": "b.x"}, {"size": "512"}, {"GNU_sparse_major": "1"}):
        data = bytes(header(b"a.x")) + pax(b"g", **said) + bytes(header(b"a.y")) + ZEROS
        with pytest.raises(rs.MalformedItem, match="global header"):
            samples(data)


@pytest.mark.parametrize("text", [b"30 path=a\n", b"path=a\n", b"9 path=ab", b"9 path:a\n", b"5 =a\n"])  # fmt: skip
def test_pax_records_that_cannot_be_read_are_damage(text: bytes) -> None:
    data = bytes(header(b"pax", len(text), b"x")) + text.ljust(512, b"\0") + bytes(header(b"a.x"))
    with pytest.raises(rs.MalformedItem, match=r"x.tar, sample 0: a PAX header has a record"):
        samples(data)


def test_a_sparse_member_spoils_its_sample_alone() -> None:
    old = header(b"b.bin", 512, b"S", at_482=b"\1", at_257=b"ustar  \0")
    more = bytes(504) + b"\1" + bytes(519)
    data = bytes(header(b"a.x") + old) + more + b"d" * 512
    data += bytes(header(b"c.x")) + pax(b"x", GNU_sparse_name="d.bin") + bytes(header(b"z/9"))
    data += bytes(header(b"e.x"))
    decode, found = DecodeSample(), records(data)
    for number, record in enumerate(found):
        if number in (1, 3):
            with pytest.raises(rs.MalformedItem, match=r"sample \d: '[bd].bin' is a sparse file"):
                decode(record)
        else:
            decode(record)
    assert len(found) == 5


@pytest.mark.parametrize("data", [b"", bytes(512), bytes(10_240), bytes(100), archive([])])
def test_an_empty_archive_has_no_samples(data: bytes) -> None:
    assert records(data) == []


def test_archives_one_after_another_are_all_read() -> None:
    one, two = archive([("a.x", b"1")]), archive([("a.y", b"2"), ("b.x", b"3")])
    assert samples(one + two + one) == [
        {"__key__": "a", "x": b"1"},
        {"__key__": "a", "y": b"2"},
        {"__key__": "b", "x": b"3"},
        {"__key__": "a", "x": b"1"},
    ]
    assert max(len(record.data) for record in records(one + two)) <= 2 * BLOCK


def test_what_is_no_archive_after_the_zeros_is_an_error_and_the_samples_before_are_good() -> None:
    decode, data = DecodeSample(), archive([("a.x", b"1")])
    first, rest = records(data + b"no header" * 1000)
    assert decode(first) == {"__key__": "a", "x": b"1"}
    with pytest.raises(rs.MalformedItem, match=r"x.tar, sample 1: "):
        decode(rest)


def test_an_archive_may_end_without_zeros() -> None:
    members = list(numbered(3))
    data = archive(members).rstrip(b"\0")
    assert samples(data.ljust(-len(data) % 512 + len(data), b"\0")) == expected(members)


CUT = archive([*numbered(3, 700), (f"{LONG}.txt", b"x" * 600), (f"{LONG}.y", b"")])
LENGTH = len(CUT.rstrip(b"\0"))
with tarfile.open(fileobj=io.BytesIO(CUT)) as opened:
    LISTED = list(opened)
BOUNDARIES = {
    boundary
    for member in LISTED
    for boundary in (member.offset, member.offset_data + -member.size % 512 + member.size)
}


@pytest.mark.parametrize("begin", range(0, LENGTH, BLOCK))
def test_an_archive_cut_anywhere_gives_whole_samples_and_then_an_error(begin: int) -> None:
    decode, whole = DecodeSample(), samples(CUT)
    for kept in thinned(range(begin, min(begin + BLOCK, LENGTH), 3), 3, begin):
        found = records(CUT[:kept])
        assert [decode(record) for record in found[:-1]] == whole[: max(len(found) - 1, 0)]
        if kept in BOUNDARIES:  # as tar, which takes the end of the file for that of the archive
            assert all(decode(record) for record in found)
            continue
        assert len(found[-1].data) <= 4096
        with pytest.raises(
            rs.MalformedItem, match=rf"^x.tar, sample {len(found) - 1}: .*cut short"
        ):
            decode(found[-1])


HEADERS = [member.offset_data - BLOCK for member in LISTED]


@pytest.mark.parametrize("number", range(len(HEADERS)))
@pytest.mark.parametrize("place", [0, 99, 124, 134, 148, 156, 511])
def test_a_wrong_checksum_ends_the_archive_with_an_error(number: int, place: int) -> None:
    damaged = bytearray(CUT)
    damaged[HEADERS[number] + place] ^= 1
    decode, whole = DecodeSample(), samples(CUT)
    found = records(bytes(damaged))
    # A sample right before the damage may have lost a member, so it is not delivered.
    assert len(found) == max(number - 1, 0) // 2 + 1
    assert [decode(record) for record in found[:-1]] == whole[: len(found) - 1]
    assert len(found[-1].data) <= 4096
    with pytest.raises(rs.MalformedItem, match=rf"^x.tar, sample {len(found) - 1}: "):
        decode(found[-1])


def test_a_sample_before_damage_far_away_is_not_delivered_in_part() -> None:
    # The record that tells of the damage is short, and must not end between two members.
    for size in range(0, 9000, 256):
        data = archive([("a.x", b"1" * size), ("a.y", b"2" * size)]).rstrip(b"\0")
        bad = bytearray(header(b"a.z", 5))
        bad[0] ^= 1
        (record,) = records(data.ljust(-len(data) % 512 + len(data), b"\0") + bad)
        with pytest.raises(rs.MalformedItem):
            DecodeSample()(record)


def test_an_extended_header_without_a_member_is_damage() -> None:
    start = bytes(header(b"a.x"))
    for data in (pax(b"x", path="b.x"), pax(b"x", path="b.x") + ZEROS, pax(b"x", path="b" * 999)[:700]):  # fmt: skip
        with pytest.raises(rs.MalformedItem, match=r"sample 0: .*extended header"):
            samples(start + data)


def test_a_long_name_beyond_all_measure_is_not_read() -> None:
    reader = MemoryReader(bytes(header(b"long", 1 << 33, b"L")) + bytes(1 << 16))
    (found,) = scan_tar(reader)
    assert found.ends.tolist() == [4095]
    assert reader.most <= 1 << 17


def test_records_of_another_file_are_refused() -> None:
    two = archive([("a.x", b""), ("b.x", b"")]).rstrip(b"\0").ljust(1024, b"\0")
    with pytest.raises(rs.MalformedItem, match="sample 4: it has changed"):
        DecodeSample()(LocatedRecord(two, "x.tar", 5))
    with pytest.raises(rs.MalformedItem, match="sample 4: "):
        DecodeSample()(LocatedRecord(b"", "x.tar", 5))


def test_the_scan_reads_little_and_hands_out_often() -> None:
    data = archive(numbered(100, 100_000))
    reader = MemoryReader(data)
    found = list(scan_tar(reader))
    assert len(found) >= 9  # once a MiB
    assert sum(len(ends) for ends, _ in found) == 100
    assert reader.calls < 1000
    many = list(scan_tar(MemoryReader(archive(numbered(3000)))))
    assert max(len(ends) for ends, _ in many) <= 1024


def test_a_scan_may_begin_at_any_record_and_without_knowing_the_size() -> None:
    data = archive(numbered(20, 900))
    (ends,) = (found.ends for found in scan_tar(MemoryReader(data, sized=False)))
    for number, end in enumerate(ends.tolist(), 1):
        later = [found.ends for found in scan_tar(MemoryReader(data[end:]), end)]
        assert np.array_equal(np.concatenate(later), ends[number:])


def test_members_are_decoded_by_the_longest_matching_extension() -> None:
    data = archive([("a.seg.png", b"1"), ("a.PNG", b"2"), ("a.x.seg.png", b"3"), ("a.txt", b"4")])
    decode = {"PNG": lambda data: ("png", data), "seg.png": lambda data: ("seg", data)}
    assert samples(data, decode) == [
        {
            "__key__": "a",
            "seg.png": ("seg", b"1"),
            "png": ("png", b"2"),
            "x.seg.png": ("seg", b"3"),
            "txt": b"4",
        }
    ]


def test_an_error_of_a_decoder_names_file_sample_and_extension() -> None:
    data = archive([("a.json", b"1"), ("b.json", b"{")])
    with pytest.raises(
        rs.MalformedItem, match=r"x.tar, sample 1: 'json' of 'b': not JSON"
    ) as raised:
        samples(data, {"json": rs.decoders.json})
    assert isinstance(raised.value.__cause__, rs.MalformedItem)
    with pytest.raises(rs.MalformedItem, match="sample 0: 'json' of 'a': KeyError: 'no'") as raised:
        samples(data, {"json": fails})
    assert isinstance(raised.value.__cause__, KeyError)


def fails(data: bytes) -> None:
    raise KeyError("no")


@pytest.mark.parametrize(
    ("decode", "message"),
    [
        ({".jpg": len}, "decode must have extensions without the first dot, got '.jpg'"),
        ({"jpg": 1}, "decode.*must be callable"),
        ({1: len}, "decode must have extensions as keys, got 1"),
        (len, "decode must be a dict of functions"),
    ],
)
def test_bad_decoders_are_refused_when_the_pipeline_is_built(decode: Any, message: str) -> None:
    with pytest.raises((rs.InvalidArgument, rs.InvalidType), match=message):
        DecodeSample(decode)


@pytest.mark.skipif(shutil.which("tar") is None, reason="tar is not installed")
@pytest.mark.parametrize("kind", ["v7", "oldgnu", "gnu", "ustar", "posix"])
def test_what_gnu_tar_writes_comes_back(tmp_path: Path, kind: str) -> None:
    names = ["a.txt", "a.Json", "sub/b.txt", "sub/c.tar.gz"]
    if kind in ("oldgnu", "gnu", "posix"):
        names += ["sub/" + "x" * 200 + ".txt", "sub/жß.txt"]
    (tmp_path / "sub").mkdir()
    for name in names:
        (tmp_path / name).write_text(name * 300)
    (tmp_path / "sub" / "link.txt").symlink_to("b.txt")
    listed = ["a.txt", "a.Json", "sub"]
    command = ["tar", f"--format={kind}", "--sort=name", "-cf", "x.tar", *listed]
    subprocess.run(command, cwd=tmp_path, check=True)
    found = samples((tmp_path / "x.tar").read_bytes())
    assert [sample["__key__"] for sample in found] == [
        "a",
        *sorted(name.partition(".")[0] for name in names[2:]),
    ]
    for sample in found:
        for extension, value in sample.items():
            if extension != "__key__":
                assert value.decode().lower() == f"{sample['__key__']}.{extension}" * 300


NAMES = st.one_of(
    st.text("ab./_", min_size=1, max_size=6),
    st.sampled_from(["a.x", "a.y", "a.X.y", "b.x", "__m__/a.x", "a", "d/", LONG + ".x", "ж.é"]),
)


@given(st.lists(NAMES, max_size=8), st.sampled_from(["gnu", "pax"]))
def test_webdataset_finds_the_same_samples(names: list[str], kind: str) -> None:
    pytest.importorskip("webdataset")
    data = archive([(name, bytes([n]) * n) for n, name in enumerate(names)], FORMATS[kind])
    try:
        there = as_webdataset(data)
    except ValueError:  # two members of one name
        with pytest.raises(rs.MalformedItem, match="is a second"):
            samples(data)
    else:
        assert samples(data) == there


def test_what_shard_writer_writes_comes_back(tmp_path: Path) -> None:
    webdataset = pytest.importorskip("webdataset")
    written = [
        {"__key__": f"{n:04d}", "txt": f"text {n}", "json": {"n": n}, "npy": np.arange(n), "cls": n}
        for n in range(30)
    ]
    with webdataset.ShardWriter(str(tmp_path / "%d.tar"), maxcount=20, verbose=0) as writer:
        for sample in written:
            writer.write(sample)
    decode = {
        "txt": rs.decoders.text,
        "json": rs.decoders.json,
        "npy": rs.decoders.npy,
        "cls": int,
    }
    found = [
        sample
        for shard in sorted(tmp_path.iterdir())
        for sample in samples(shard.read_bytes(), decode)
    ]
    assert [repr(sorted(sample.items())) for sample in found] == [
        repr(sorted(sample.items())) for sample in written
    ]


def test_a_block_is_sealed_for_the_tests_as_tarfile_does() -> None:
    block = bytearray(CUT[HEADERS[0] : HEADERS[0] + 512])
    assert bytes(sealed(bytearray(block))) == bytes(block)
