"""MDS shards of MosaicML Streaming: every sample as it was written, or an error that says what is wrong."""

from __future__ import annotations

import bz2
import gzip
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from formats.of_mosaicml import SAMPLES, images
from formats.shard_files import Files, change_index, mds_files, write_files
from formats.zipped import unzip
from hypothesis import given
from hypothesis import strategies as st

import resumable as rs
from resumable.testing.comparing import same

some_samples = st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.text(max_size=5)), min_size=1, max_size=9)  # fmt: skip


def as_dicts(samples: list[tuple[int, str]]) -> list[dict[str, Any]]:
    return [{"n": number, "s": text} for number, text in samples]


@given(some_samples, st.integers(1, 5), st.sampled_from(["", "gz", "bz2"]))
def test_samples_are_those_that_were_written(
    tmp_path_factory: pytest.TempPathFactory,
    samples: list[tuple[int, str]],
    per_shard: int,
    compression: str,
) -> None:
    pack = {"": None, "gz": gzip.compress, "bz2": bz2.compress}[compression]
    folder = tmp_path_factory.mktemp("mds", numbered=True)
    read = rs.mds(write_files(folder, mds_files(samples, per_shard, compression, pack)))
    assert list(read) == as_dicts(samples)
    assert read.gather(np.arange(len(read))[::-1]) == as_dicts(samples)[::-1]
    assert read[len(samples) // 2] == as_dicts(samples)[len(samples) // 2]


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Datasets that mosaicml-streaming has written."""
    return unzip("of_mosaicml.zip", tmp_path_factory.mktemp("mosaicml"))


@pytest.mark.parametrize("name", ["plain", "gz", "bz2", "zstd"])
def test_every_encoding_is_decoded_as_streaming_encoded_it(theirs: Path, name: str) -> None:
    if name == "zstd":
        pytest.importorskip("backports.zstd", reason="backports.zstd is not installed")
    found = list(rs.mds(theirs / name))
    assert len(found) == len(SAMPLES)
    for item, expected in zip(found, SAMPLES, strict=True):
        assert item.keys() == expected.keys()
        assert same(list(item.values()), [expected[key] for key in item]), item


def test_a_compression_whose_package_is_missing_is_refused_when_the_dataset_is_opened(
    theirs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "backports.zstd", None)
    with pytest.raises(rs.MissingDependency, match=r"zstd needs backports\.zstd: pip install"):
        rs.mds(theirs / "zstd")


def test_images_are_those_of_pillow(theirs: Path) -> None:
    pytest.importorskip("PIL", reason="pillow is not installed")
    for number, item in enumerate(rs.mds(theirs / "images")):
        expected = images(number)
        assert item["n"] == number
        for name in ("pil", "png"):
            assert item[name].mode == expected[name].mode
            assert np.array_equal(item[name], expected[name])
        assert [np.asarray(each).shape for each in item["jpegs"]] == [(6, 5, 3)] * (number + 1)
        assert len(item["jpeg_array"]) == len(item["pngs"]) == number + 1
        assert all(map(np.array_equal, item["pils"], expected["pils"]))
        assert item["jpeg"].format == "JPEG"
        assert np.abs(np.asarray(item["jpeg"], int) - expected["jpeg"]).mean() < 60


def test_nothing_is_unpickled_unless_that_is_allowed(theirs: Path) -> None:
    with pytest.raises(
        rs.InvalidArgument, match=r"index.json: column 'p' is pickled.*allow_pickle=True"
    ):
        rs.mds(theirs / "pickled")
    assert list(rs.mds(theirs / "pickled", allow_pickle=True)) == [{"p": {1, 2}}, {"p": 3}]


SOME = [(number, f"text {number}") for number in range(7)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_files(tmp_path / "data", mds_files(SOME, 3))


def test_arrays_may_be_written_to(theirs: Path) -> None:
    item = rs.mds(theirs / "plain")[0]
    for name in ("nd", "nd_i2", "nd_f4_23"):
        item[name] += 1


def test_the_path_may_be_that_of_the_index(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    for path in (folder / "index.json", str(folder), f"{folder}/", ".", "index.json"):
        assert list(rs.mds(path)) == as_dicts(SOME)


def test_a_decompressed_shard_is_read_in_place_of_the_compressed_one(tmp_path: Path) -> None:
    plain, packed = mds_files(SOME, 4), mds_files(SOME, 4, "bz2", bz2.compress)
    folder = write_files(tmp_path, packed)
    before = rs.mds(folder)
    for name in sorted(packed):
        if name.endswith(".bz2"):
            (folder / name).unlink()
            (folder / name.removesuffix(".bz2")).write_bytes(plain[name.removesuffix(".bz2")])
            after = rs.mds(folder)
            assert list(after) == as_dicts(SOME)
            assert repr(after) == repr(before)


def test_a_state_goes_on_with_shards_that_were_decompressed_since_and_not_with_others(
    tmp_path: Path,
) -> None:
    plain, packed = mds_files(SOME, 4), mds_files(SOME, 4, "bz2", bz2.compress)
    folder, states = write_files(tmp_path, packed), list[Any]()

    def save_and_resume_all() -> None:
        with iter(rs.mds(folder).shuffle(0)) as iterator:
            next(iterator)
            states.append(iterator.get_state())
        for state in states:
            with rs.mds(folder).shuffle(0).resume(state) as iterator:
                assert list(iterator) == list(rs.mds(folder).shuffle(0))[1:]

    save_and_resume_all()
    shards = sorted(name for name in plain if name.endswith(".mds"))
    assert len(shards) > 1
    for name in shards:  # beside the compressed ones
        (folder / name).write_bytes(plain[name])
        save_and_resume_all()
    for name in shards:
        (folder / name).unlink()
        save_and_resume_all()
    for name in shards:
        (folder / name).write_bytes(plain[name])
    first = folder / shards[0]
    first.write_bytes(first.read_bytes()[:-1] + b"?")
    with pytest.raises(rs.StateMismatch, match=f"{shards[0]} has other content .*by its ends"):
        rs.mds(folder).shuffle(0).resume(states[len(shards)])


@pytest.mark.parametrize("compression", ["br", "snappy", "lz4"])
def test_a_compression_that_is_not_read_is_named(tmp_path: Path, compression: str) -> None:
    folder = write_files(tmp_path, mds_files(SOME, 9, compression, bytes))
    message = rf"shard.00000.mds.{compression} is compressed by '{compression}', which is not read.*bz2, gz, zstd"
    with pytest.raises(rs.InvalidArgument, match=message):
        rs.mds(folder)


Change = Callable[[Any], object]
REFUSED: list[tuple[Change, type[Exception], str]] = [
    (lambda index: index.pop("shards"), rs.MalformedItem, r"it must have 'shards', got \['version'\]"),
    (lambda index: index.update(shards=[]), rs.MalformedItem, "at least one shard"),
    (lambda index: index.update(shards={}), rs.MalformedItem, "shards must be a list, got {}"),
    (lambda index: index.update(shards=[3]), rs.MalformedItem, r"shards\[0\] must be an object, got 3"),
    (lambda index: index.update(version=3), rs.InvalidArgument, "version must be 2, got 3"),
    (lambda index: index.update(chunks=[]), rs.InvalidArgument, "got one of LitData, .*; use rs.litdata"),
    (lambda index: index["shards"][0].update(format="xsv"), rs.InvalidArgument, "must be 'mds', got 'xsv'"),
    (lambda index: index["shards"][1].update(samples=True), rs.MalformedItem, r"shards\[1\].samples must be an integer"),
    (lambda index: index["shards"][1].update(samples=2**31), rs.MalformedItem, "too few for 2147483648 samples"),
    (lambda index: index["shards"][1].update(samples=-1), rs.MalformedItem, "from 0 to 4294967295, got -1"),
    (lambda index: index["shards"][1]["raw_data"].update(bytes=4000), rs.MalformedItem, r"shard.00001.mds: it has 165 bytes, and 4000 by shards\[1\]"),
    (lambda index: index["shards"][1]["raw_data"].update(bytes=150), rs.MalformedItem, "it has 165 bytes, and 150 by"),
    (lambda index: index["shards"][0]["raw_data"].update(basename="../a"), rs.MalformedItem, "path below the folder"),
    (lambda index: index["shards"][0]["raw_data"].update(basename="/a"), rs.MalformedItem, "path below the folder"),
    (lambda index: index["shards"][0]["raw_data"].update(basename="a*"), rs.MalformedItem, "path below the folder"),
    (lambda index: index["shards"][0]["raw_data"].update(basename="none"), FileNotFoundError, "none"),
    (lambda index: index["shards"][0].update(column_names=["n"]), rs.MalformedItem, "for each column, got 1, 2 and 2"),
    (lambda index: index["shards"][0].update(column_names=["n", 3]), rs.MalformedItem, "must be a list of strings"),
    (lambda index: index["shards"][0].update(column_encodings=["int", "x"]), rs.InvalidArgument, "column 's' has the encoding 'x'"),
    (lambda index: index["shards"][0].update(column_encodings=["ndarray:int9", "str"]), rs.InvalidArgument, "not known"),
    (lambda index: index["shards"][0].update(column_encodings=["ndarray:int8:99999999999", "str"]), rs.InvalidArgument, "not known"),
    (lambda index: index["shards"][0].update(column_sizes=[4, None]), rs.MalformedItem, "size of column 'n' must be 8 .* got 4"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "error", "message"), REFUSED)
def test_a_wrong_index_is_refused(
    folder: Path, change: Change, error: type[Exception], message: str
) -> None:
    change_index(folder, change)
    with pytest.raises(error, match=message) as caught:
        rs.mds(folder)
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "a damaged index: not JSON: line 1"),
        (b"[]", r"it must be an object, got \[\]"),
        (b"\xff", "not UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"version": ' + b"9" * 9999 + b"}", "a damaged index"),
    ],
)
def test_what_is_no_index_is_refused(folder: Path, content: bytes, message: str) -> None:
    (folder / "index.json").write_bytes(content)
    with pytest.raises(rs.MalformedItem, match=f"index.json: .*{message}"):
        rs.mds(folder)


def test_a_folder_without_an_index_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"index\.json"):
        rs.mds(tmp_path)


def with_bytes(files: Files, place: int, new: bytes) -> Files:
    """The files with other bytes in the first shard."""
    data = files["shard.00000.mds"]
    return files | {"shard.00000.mds": data[:place] + new + data[place + len(new) :]}


@pytest.mark.parametrize(
    ("place", "new", "message"),
    [
        (0, b"\4", "a damaged shard: it has 4 samples, and 3 by the index"),
        (4, b"\0", r"a damaged shard: its records begin at byte 0, within its head of 20 bytes"),
        (8, b"\0\0\0\1", "a damaged shard: record 1 ends before it begins"),
        (16, b"\xff", "a damaged shard: its records end at byte"),
    ],
)
def test_a_damaged_head_makes_every_sample_of_the_shard_malformed(
    folder: Path, place: int, new: bytes, message: str
) -> None:
    read = rs.mds(write_files(folder, with_bytes(mds_files(SOME, 3), place, new)))
    for number in (0, 2):
        with pytest.raises(rs.MalformedItem, match=f"shard.00000.mds: {message}"):
            read[number]
    assert read[3] == as_dicts(SOME)[3]


def test_bytes_that_belong_to_no_sample_are_damage(folder: Path) -> None:
    """Such as those of a shard that was written over a longer one."""
    files = mds_files(SOME, 3)
    index = json.loads(files["index.json"])
    index["shards"][0]["raw_data"]["bytes"] += 2
    files["shard.00000.mds"] += b"no"
    read = rs.mds(write_files(folder, files | {"index.json": json.dumps(index).encode()}))
    with pytest.raises(rs.MalformedItem, match=r"its records end at byte \d+, and must at \d+"):
        read[0]


@pytest.mark.parametrize(
    ("new", "message"),
    [
        (b"\7", r"sample 0: its columns have 19 bytes of 18"),
        (b"\5", "sample 0: its columns have 17 bytes of 18"),
        (b"\xff\xff\xff\xff", "sample 0: column 's' ends at byte"),
    ],
)
def test_a_damaged_sample_is_malformed_and_the_others_are_read(
    folder: Path, new: bytes, message: str
) -> None:
    files = mds_files(SOME, 3)
    place = int.from_bytes(files["shard.00000.mds"][4:8], "little")
    read = rs.mds(write_files(folder, with_bytes(files, place, new)))
    message = message.replace("its columns have 19 bytes of 18", "column 's' ends at byte 19 of 18")
    with pytest.raises(rs.MalformedItem, match=f"shard.00000.mds, {message}"):
        read[0]
    assert read[1] == as_dicts(SOME)[1]


def test_a_shard_that_has_changed_is_refused(folder: Path) -> None:
    read = rs.mds(folder)
    (folder / "shard.00001.mds").write_bytes(b"other")
    assert read[0] == as_dicts(SOME)[0]
    with pytest.raises(rs.MalformedItem, match=r"shard\.00001\.mds changed since"):
        read[3]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data[:-4], "cut short|end-of-stream|EOF"),
        (lambda data: b"x" + data[1:], "damaged shard"),
        (lambda data: bz2.compress(bytes(10_000)), "more than the .* bytes in the index"),
        (lambda data: bz2.compress(b"few"), "its content has 3 bytes instead of"),
    ],
)
def test_a_damaged_compressed_shard_is_malformed(
    tmp_path: Path, damage: Callable[[bytes], bytes], message: str
) -> None:
    def pack(content: bytes) -> bytes:
        return damage(bz2.compress(content))

    folder = write_files(tmp_path, mds_files(SOME, 9, "bz2", pack))
    with pytest.raises(
        rs.MalformedItem, match=f"mds.bz2: a damaged shard: .*({message})|{message}"
    ):
        rs.mds(folder)[0]


def test_the_state_fits_a_copy_elsewhere_and_refuses_other_data(
    folder: Path, tmp_path: Path
) -> None:
    pipeline = rs.mds(folder).shuffle(0)
    iterator = iter(pipeline)
    first = [next(iterator) for _ in range(3)]
    state = rs.loads(rs.dumps(iterator.get_state()))
    copy = shutil.copytree(folder, tmp_path / "copy")
    rest = list(rs.mds(copy).shuffle(0).resume(state))
    assert sorted(item["n"] for item in first + rest) == list(range(7))
    other = write_files(tmp_path / "other", mds_files(SOME[::-1], 3))
    with pytest.raises(rs.StateMismatch, match=r"shard\.00000\.mds has other content"):
        rs.mds(other).shuffle(0).resume(state)
