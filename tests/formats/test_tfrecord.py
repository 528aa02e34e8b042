"""TFRecord files: items, damage, and the laws."""

from __future__ import annotations

import pickle
import random
import struct
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from formats.of_tensorflow import EXAMPLES
from formats.tfrecords import framed, framed_head, write_records
from support.tiers import examples, is_deep

import resumable as rs
from resumable.formats import tfrecord
from resumable.testing import check_resumes_everywhere, check_stage

google_crc32c = pytest.importorskip("google_crc32c", reason="google-crc32c is not installed")

HERE = Path(__file__).parent
CONTENTS = [b"", b"one", b"\x00" * 20, "f\u00fcnf".encode(), b"x" * 70_000, b"last"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_records(tmp_path / "data.tfrecord", CONTENTS)


def test_checksums_are_computed_by_compiled_code() -> None:
    assert google_crc32c.implementation == "c"


def test_items_are_the_contents_in_order(path: Path, tmp_path: Path) -> None:
    assert list(rs.tfrecord(path)) == CONTENTS
    empty = write_records(tmp_path / "empty.tfrecord", [])
    single = write_records(tmp_path / "single.tfrecord", [b"alone"])
    assert list(rs.tfrecord(empty)) == []
    assert list(rs.tfrecord(single)) == [b"alone"]
    assert list(rs.tfrecord([single, empty, path])) == [b"alone", *CONTENTS]
    assert len(rs.tfrecord(tmp_path / "*.tfrecord")) == 7
    assert list(rs.tfrecord(path, decode=len)) == list(map(len, CONTENTS))


def test_the_laws_hold(path: Path, tmp_path: Path) -> None:
    empty = write_records(tmp_path / "empty", [])
    many = write_records(tmp_path / "many", [b"%d" % number for number in range(25)])
    check_stage(rs.tfrecord([path, empty, many], decode=len))
    damaged = tmp_path / "damaged"
    damaged.write_bytes(framed(b"good") + framed(b"bad")[:-1] + b"?" + framed(b"good too"))
    check_stage(rs.tfrecord([empty, damaged, many], on_error="skip"))


def test_a_fresh_process_goes_on(path: Path) -> None:
    check_resumes_everywhere(
        rs.tfrecord(path, decode=bytes.hex).shuffle(0), positions=[0, 3, 6], fresh_process=True
    )


def test_two_ranks_are_resumed_by_three(tmp_path: Path) -> None:
    contents = [b"%d" % number for number in range(50)]
    path = write_records(tmp_path / "data", contents)
    whole = rs.tfrecord(path).shuffle(1)
    iterators = [iter(whole.shard(rank, 2, uneven="keep")) for rank in range(2)]
    items = [item for each in iterators for item in islice(each, 7)]
    states = [rs.dumps(each.get_state()) for each in iterators]
    assert states[0] == states[1]
    for rank in range(3):
        items += whole.shard(rank, 3, uneven="keep").resume(rs.loads(states[0]))
    assert sorted(items) == sorted(contents)


def test_a_large_file_is_read_through_its_index(tmp_path: Path) -> None:
    count = 100_000 if is_deep() else 6_000
    path = write_records(tmp_path / "data.tfrecord", [b"%07d" % n * 2 for n in range(count)])
    for _ in range(2):  # the second time by the cache
        records = rs.tfrecord(path)
        assert len(records) == count
        assert records[count - 1] == b"%07d" % (count - 1) * 2
    assert [file.name for file in tmp_path.iterdir() if file != path] == [
        "data.tfrecord.tfrecord.idx"
    ]
    assert list(rs.tfrecord(tmp_path / "*")) == list(records)
    iterator = iter(records.shuffle(3))
    first = list(islice(iterator, count // 2))
    rest = list(records.shuffle(3).resume(iterator.get_state()))
    assert sorted(first + rest) == [b"%07d" % n * 2 for n in range(count)]


def damaged(path: Path, begin: int, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[begin + place] ^= 0x10
    path.write_bytes(data)


BEGINS = [0, 16, 16 + 19]


@pytest.mark.parametrize("place", [12, 14, 15, 18])
def test_content_with_a_wrong_checksum_is_an_error_or_skipped(path: Path, place: int) -> None:
    damaged(path, BEGINS[1], place)
    iterator = iter(rs.tfrecord(path))
    assert next(iterator) == b""
    with pytest.raises(
        rs.MalformedItem, match=r"data\.tfrecord, record 1: its content has a wrong checksum"
    ):
        next(iterator)
    skipped = []
    records = rs.tfrecord(
        path, on_error="skip", on_skip=lambda number, error: skipped.append((number, str(error)))
    )
    assert list(records) == [CONTENTS[0], *CONTENTS[2:]]
    assert skipped == [(1, f"{path}, record 1: its content has a wrong checksum")]


@pytest.mark.parametrize("place", range(12))
def test_a_wrong_length_ends_the_file_in_one_damaged_record(path: Path, place: int) -> None:
    damaged(path, BEGINS[2], place)
    iterator = iter(rs.tfrecord(path))
    assert [next(iterator), next(iterator)] == CONTENTS[:2]
    with pytest.raises(rs.MalformedItem, match="record 2: its length has a wrong checksum"):
        next(iterator)
    assert list(rs.tfrecord([path, path], on_error="skip")) == CONTENTS[:2] * 2


def test_a_checksum_of_the_length_that_is_wrong_in_the_last_record_is_noticed(
    tmp_path: Path,
) -> None:
    path = write_records(tmp_path / "data", [b"first", b"last"])
    damaged(path, len(framed(b"first")), 9)
    with pytest.raises(rs.MalformedItem, match="record 1: its length has a wrong checksum"):
        list(rs.tfrecord(path))


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        (framed(b"x" * 50)[:5], "record 1: cut off within its length"),
        (framed_head(50), "record 1: cut off, of 50 bytes of content"),
        (framed(b"x" * 50)[:-1], "record 1: cut off, of 50 bytes of content"),
        (framed(b"x" * 9000)[:-1], "record 1: cut off, of 9000 bytes of content"),
        (framed_head(2**64 - 1) + b"x" * 70_000, "record 1: cut off, of 18446744073709551615"),
        (b"text that is no record at all\n", "record 1: its length has a wrong checksum"),
    ],
)
def test_a_file_that_is_cut_off_is_an_error(tmp_path: Path, rest: bytes, message: str) -> None:
    path = tmp_path / "data"
    path.write_bytes(framed(b"whole") + rest)
    with pytest.raises(rs.MalformedItem, match=f"data, {message}"):
        list(rs.tfrecord(path))
    assert list(rs.tfrecord(path, on_error="skip")) == [b"whole"]


def test_fuzzed_files_give_right_records_or_the_documented_error(tmp_path: Path) -> None:
    rng = random.Random(0)
    contents = [rng.randbytes(size) for size in (0, 5, 40, 300, 6_000, 17)]
    sound = b"".join(map(framed, contents))
    errors = []
    for number in range(8 * examples()):
        data = mutated(sound, rng)
        path = tmp_path / str(number)
        path.write_bytes(data)
        items = list(rs.tfrecord(path, on_error="skip"))
        assert set(items) <= set(contents), data.hex()
        try:
            assert list(rs.tfrecord(path)) == items, data.hex()
        except rs.MalformedItem as error:
            errors.append(str(error).removeprefix(str(path)))
        path.unlink()
    assert len(errors) > examples()
    assert all(error.startswith(", record ") for error in errors)


def mutated(data: bytes, rng: random.Random) -> bytes:
    """``data`` with a few bytes changed, cut out, put in or cut off."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        place = rng.choice([rng.randrange(len(changed)), rng.randrange(min(100, len(changed)))])
        kind = rng.randrange(4)
        if kind == 0:
            changed[place] ^= 1 << rng.randrange(8)
        elif kind == 1:
            changed[place : place + 8] = struct.pack("<Q", rng.getrandbits(rng.randrange(65)))
        elif kind == 2:
            del changed[place : place + rng.randint(1, 30)]
        else:
            del changed[rng.randrange(len(changed)) :]
        if not changed:
            break
    return bytes(changed)


@pytest.mark.parametrize("size", [0x8B1F, 0x088B1F])
def test_a_record_whose_length_looks_like_the_start_of_gzip_is_read(
    tmp_path: Path, size: int
) -> None:
    content = bytes(size)
    path = tmp_path / "data"
    path.write_bytes(framed_head(size) + content)
    with path.open("ab") as file:
        masked = tfrecord._masked(google_crc32c.value(content))
        file.write(struct.pack("<I", masked))
    assert list(rs.tfrecord(path)) == [content]
    for more in (0, 5, 9, 100):  # a head has 12 bytes
        path.write_bytes(b"\x1f\x8b\x08" + bytes(more))
        with pytest.raises(rs.InvalidArgument, match="compressed by gzip"):
            rs.tfrecord(path)


def test_an_error_of_decode_has_file_and_record(path: Path) -> None:
    def decode(data: bytes) -> int:
        if data == b"one":
            raise rs.MalformedItem("not a number")
        return len(data)

    with pytest.raises(rs.MalformedItem, match=r"data\.tfrecord, record 1: not a number"):
        list(rs.tfrecord(path, decode=decode))
    assert list(rs.tfrecord(path, decode=decode, on_error="skip"))[:2] == [0, 20]
    with pytest.raises(ZeroDivisionError):
        list(rs.tfrecord(path, decode=lambda data: 1 // len(data)))


def test_a_file_that_changes_while_it_is_read_is_an_error(path: Path) -> None:
    iterator = iter(rs.tfrecord(path))
    next(iterator)
    write_records(path, [*CONTENTS, b"more"])
    with pytest.raises(rs.MalformedItem, match="changed since the pipeline was built"):
        list(iterator)


def test_a_pipeline_of_records_can_be_pickled(path: Path) -> None:
    copy: rs.Pipeline[Any] = pickle.loads(pickle.dumps(rs.tfrecord(path, decode=len)))
    assert list(copy) == list(map(len, CONTENTS))


def test_without_the_package_the_error_names_the_extra(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "google_crc32c", None)
    tfrecord._checksum_of.cache_clear()
    with pytest.raises(rs.MissingDependency, match=r"google-crc32c.*resumable-loader\[tfrecord\]"):
        rs.tfrecord(path)


def test_bad_arguments_are_refused(path: Path) -> None:
    with pytest.raises(rs.InvalidType, match="decode must be callable, got 5"):
        rs.tfrecord(path, decode=5)  # type: ignore[arg-type]
    with pytest.raises(rs.InvalidArgument, match="on_error must be one of"):
        rs.tfrecord(path, on_error="ignore")


def test_a_file_of_tensorflow_is_read() -> None:
    records = list(rs.tfrecord(HERE / "of_tensorflow.tfrecord"))
    assert len(records) == len(EXAMPLES)
    assert b"\x89PNG" in records[0]
