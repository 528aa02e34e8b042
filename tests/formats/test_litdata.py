"""Datasets that LitData has optimised: every item as it was written, or an error that says what is wrong."""

from __future__ import annotations

import json
import pickle
import struct
import sys
from collections import OrderedDict
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from formats.of_litdata import COUNT, numbers, rows, tokens
from formats.shard_files import change_index, litdata_files, numbered, token_files, write_files
from formats.zipped import unzip
from hypothesis import given
from hypothesis import strategies as st

import resumable as rs
from resumable.formats.shards import framed_chunk, shard, table_chunk, unpacking
from resumable.formats.shards.index_json import IndexPart
from resumable.formats.shards.litdata_json import nested_value
from resumable.formats.shards.litdata_leaves import leaves_of
from resumable.testing.comparing import same


@given(
    st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.text(max_size=5)), min_size=1, max_size=9),
    st.integers(1, 5),
)  # fmt: skip
def test_items_are_those_that_were_written(
    tmp_path_factory: pytest.TempPathFactory, items: list[tuple[int, str]], per_chunk: int
) -> None:
    stored = [(struct.pack("<q", number), text.encode()) for number, text in items]
    folder = tmp_path_factory.mktemp("litdata", numbered=True)
    read = rs.litdata(write_files(folder, litdata_files(stored, per_chunk=per_chunk)))
    assert list(read) == items
    assert read.gather(np.arange(len(read))[::-1]) == items[::-1]


@given(st.lists(st.integers(0, 20), min_size=1, max_size=5), st.integers(1, 7))
def test_blocks_of_tokens_are_cut_as_tokens_loader_cuts_them(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], block_size: int
) -> None:
    chunks = [list(range(number, number + length)) for number, length in enumerate(lengths)]
    folder = tmp_path_factory.mktemp("tokens", numbered=True)
    read = rs.litdata(write_files(folder, token_files(chunks)), block_size=block_size)
    expected = [
        chunk[start : start + block_size]
        for chunk in chunks
        for start in range(0, len(chunk) // block_size * block_size, block_size)
    ]
    assert [item.tolist() for item in read] == expected
    assert {item.dtype for item in read} <= {np.dtype("uint16")}


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Datasets that litdata has written."""
    return unzip("of_litdata.zip", tmp_path_factory.mktemp("litdata"))


NEEDS = dict.fromkeys(["batch", "chunk", "sample", "tokens zstd"], "backports.zstd")
NEEDS |= {"table": "pyarrow", "table zstd": "pyarrow", "images": "PIL"}


@pytest.mark.parametrize("name", ["batch", "chunk", "sample", "tokens zstd", "table"])
def test_a_package_that_is_missing_is_named_when_the_dataset_is_opened(
    theirs: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    package = NEEDS[name]
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        rs.MissingDependency, match=f"needs? {package}: pip install 'resumable-loader"
    ):
        rs.litdata(theirs / name, block_size=4 if name.startswith("tokens") else None)


def skip_without_package(name: str) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name], reason=f"{NEEDS[name]} is not installed")


@pytest.mark.parametrize("name", ["plain", "batch", "chunk", "sample", "table", "table zstd"])
def test_what_litdata_has_written_is_read(theirs: Path, name: str) -> None:
    skip_without_package(name)
    made = rows if name.startswith("table") else numbers
    expected = [made(number) for number in range(COUNT)]
    read = rs.litdata(theirs / name)
    assert all(map(same, read, expected))
    for indices in (np.arange(COUNT)[::-1], np.array([7, 0, 3, 3]), np.arange(4)):
        assert all(map(same, read.gather(indices), [expected[each] for each in indices.tolist()]))
    assert same(read[5], expected[5])


def test_two_items_of_one_row_share_nothing(theirs: Path) -> None:
    skip_without_package("table")
    items: Any = rs.litdata(theirs / "table").gather(np.ones(table_chunk.FEW_ROWS + 1, np.int64))
    items[0]["deep"]["list"].clear()
    items[0]["records"][0]["a"] = "written to"
    assert all(same(item, rows(1)) for item in items[1:])


@pytest.mark.parametrize("name", ["tokens", "tokens of torch", "tokens zstd"])
def test_tokens_that_litdata_has_written_are_read(theirs: Path, name: str) -> None:
    skip_without_package(name)
    read = list(rs.litdata(theirs / name, block_size=4))
    assert {item.dtype for item in read} == {np.dtype("int32" if "torch" in name else "uint16")}
    # Documents follow each other within a chunk, and what is left of it is in no item.
    joined = np.concatenate([tokens(number) for number in range(9)]).tolist()
    found = [item.tolist() for item in read]
    assert found[0] == joined[:4]
    assert all(len(item) == 4 for item in found)
    assert len(found) in range(len(joined) // 4 - 4, len(joined) // 4 + 1)


def test_tensors_are_arrays_unless_tensors_are_asked_for(theirs: Path) -> None:
    one, two, three, four = rs.litdata(theirs / "tensors")[3]
    assert same(one, np.arange(4))
    assert same(two, np.arange(6, dtype="float16").reshape(2, 3) * 3)
    assert same(three, np.array(False))
    assert same(four, {"k": np.zeros((2, 0), "float32")})
    two += 1  # it may be written to
    if find_spec("torch"):
        import torch

        found = rs.litdata(theirs / "tensors", tensors="torch")[3]
        assert torch.equal(found[0], torch.arange(4))
        assert found[1].dtype == torch.float16
    else:
        with pytest.raises(
            rs.MissingDependency, match=r"tensors='torch' needs PyTorch.*'numpy' gives arrays"
        ):
            rs.litdata(theirs / "tensors", tensors="torch")


def test_images_are_arrays_as_litdata_turns_them(theirs: Path) -> None:
    skip_without_package("images")
    for number, item in enumerate(rs.litdata(theirs / "images")):
        assert item["label"] == number
        assert item["pil"].mode == ("RGB" if number % 2 else "L")
        assert item["jpeg"].dtype == np.uint8
        # From the fifth orientation on, width and height are exchanged.
        assert item["jpeg"].shape == ((3, 7, 9) if number % 8 + 1 >= 5 else (3, 9, 7))
        assert [each.tolist() for each in item["several"]] == [item["jpeg"].tolist()] * (
            number % 3 + 1
        )


def test_nothing_is_unpickled_unless_that_is_allowed(theirs: Path) -> None:
    with pytest.raises(
        rs.InvalidArgument, match=r"index.json: items hold what was pickled.*allow_pickle=True"
    ):
        rs.litdata(theirs / "pickled")
    assert list(rs.litdata(theirs / "pickled", allow_pickle=True)) == [{1, 2}, {3}]


def test_no_leaf_unpickles_whatever_was_seen_when_the_dataset_was_opened() -> None:
    config = IndexPart("index.json", {"data_format": ["pickle"]})
    (leaf,) = leaves_of(config, as_torch=False, allow_pickle=False)
    with pytest.raises(rs.InvalidArgument, match="allow_pickle=True"):
        leaf.decode(pickle.dumps(1))
    (leaf,) = leaves_of(config, as_torch=False, allow_pickle=True)
    assert leaf.decode(pickle.dumps(1)) == 1


def test_what_stands_in_no_table_is_not_unpickled_either(theirs: Path, tmp_path: Path) -> None:
    """The first chunk has a table, the rows of which need no pickle; the second was exchanged."""
    skip_without_package("table")
    files = {path.name: path.read_bytes() for path in (theirs / "table").iterdir()}
    index = json.loads(files["index.json"])
    kinds = index["config"]["data_format"]
    assert "pickle" in kinds
    leaves = [{"int": bytes(8), "json": b"[]", "bool": b"\1"}.get(kind, b"\x80") for kind in kinds]
    leaves[kinds.index("str")] = b"text"
    other = litdata_files([leaves] * 4, kinds)["chunk-0-0.bin"]
    index["chunks"][1]["chunk_bytes"] = len(other)
    files |= {"chunk-0-1.bin": other, "index.json": json.dumps(index).encode()}
    read = rs.litdata(write_files(tmp_path, files))
    assert same(read[0], rows(0))
    with pytest.raises(rs.InvalidArgument, match="allow_pickle=True"):
        read[4]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_files(tmp_path / "data", litdata_files(numbered(7), per_chunk=3))


def test_a_decompressed_chunk_is_read_in_place_of_the_compressed_one(
    theirs: Path, tmp_path: Path
) -> None:
    files = {path.name: path.read_bytes() for path in (theirs / "plain").iterdir()}
    files["index.json"] = (theirs / "chunk" / "index.json").read_bytes()
    read = rs.litdata(write_files(tmp_path, files))
    assert all(map(same, read, map(numbers, range(COUNT))))
    skip_without_package("chunk")
    assert repr(read) == repr(rs.litdata(theirs / "chunk"))


def test_batches_are_decompressed_once_while_there_is_room(
    theirs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skip_without_package("batch")
    done = []

    def counted(data: bytes, compression: str, most: int) -> bytes:
        done.append(most)
        return unpacking.unpacked(data, compression, most)

    monkeypatch.setattr(framed_chunk, "unpacked", counted)
    read = rs.litdata(theirs / "batch")
    list(read), list(read)
    assert len(done) == 5  # chunks of 4, 4 and 2 items, in batches of 3
    shard.contents.clear()
    assert same(read[0], numbers(0))
    assert len(done) == 6


Change = Callable[[Any], object]


def with_config(**members: Any) -> Change:
    return lambda index: index["config"].update(members)


def with_tree(kind: str | None, context: Any, children: int = 2) -> Change:
    leaf: dict[str, Any] = {"type": None, "context": None, "children_spec": []}
    tree = {"type": kind, "context": context, "children_spec": [leaf] * children}
    return with_config(data_spec=json.dumps([1, tree]))


REFUSED: list[tuple[Change, type[Exception], str]] = [
    (lambda index: index.pop("config"), rs.MalformedItem, r"must have 'config', got \['chunks'\]"),
    (lambda index: index.update(chunks=[]), rs.MalformedItem, "at least one chunk"),
    (lambda index: index.update(chunks=None, shards=[]), rs.InvalidArgument, "got one of MDS, .*; use rs.mds"),
    (lambda index: index["chunks"][0].update(chunk_size=0.5), rs.MalformedItem, r"chunks\[0\].chunk_size must be an integer"),
    (lambda index: index["chunks"][0].update(chunk_size=2**30), rs.MalformedItem, "too few for 1073741824 items"),
    (lambda index: index["chunks"][0].update(chunk_bytes=999), rs.MalformedItem, r"bytes, and 999 by chunks\[0\]"),
    (lambda index: index["chunks"][0].update(filename="../x"), rs.MalformedItem, "below the folder"),
    (with_config(encryption={"algorithm": "fernet"}), rs.InvalidArgument, "the chunks are encrypted"),
    (with_config(item_loader="ParquetLoader"), rs.InvalidArgument, "read them by rs.parquet"),
    (with_config(item_loader="TemporalArrayLoader"), rs.InvalidArgument, "got 'TemporalArrayLoader'"),
    (with_config(item_loader="TokensLoader"), rs.InvalidArgument, "block_size must say how many tokens"),
    (with_config(compression="lz4"), rs.InvalidArgument, "compressed by 'lz4', which is not read; zstd is"),
    (with_config(compression="zstd", compression_level="x"), rs.MalformedItem, "must be chunk, batch or sample, got 'x'"),
    (with_config(data_format=[]), rs.MalformedItem, "at least one serializer"),
    (with_config(data_format=["int", "video:mp4"]), rs.InvalidArgument, "serializer 'video:mp4', which are not read"),
    (with_config(data_format=["int", "no_header_numpy:14"]), rs.MalformedItem, "number of a dtype, got 'no_header_numpy:14'"),
    (with_config(data_format=["int", "no_header_tensor:10"]), rs.MalformedItem, "number of a dtype"),
    (with_config(data_format=["int", "str", "str"]), rs.MalformedItem, "must have 3 leaves, as data_format, got 2"),
    (with_config(data_spec="[2, null]"), rs.MalformedItem, r"data_spec must be \[1, structure\]"),
    (with_config(data_spec="["), rs.MalformedItem, "data_spec: not JSON"),
    (with_tree("builtins.dict", '["a"]'), rs.MalformedItem, "a dict of 2 values must have as many keys"),
    (with_tree("builtins.dict", '["a", "a"]'), rs.MalformedItem, "a dict of 2 values must have as many keys"),
    (with_tree("builtins.dict", '[[], {}]'), rs.MalformedItem, "a dict of 2 values must have as many keys"),
    (with_tree("collections.namedtuple", '"a.B"'), rs.InvalidArgument, "type 'collections.namedtuple', which are not read"),
    (with_tree("collections.deque", "1"), rs.MalformedItem, "a deque of 2 values must hold as many"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "error", "message"), REFUSED)
def test_a_wrong_index_is_refused(
    folder: Path, change: Change, error: type[Exception], message: str
) -> None:
    change_index(folder, change)
    with pytest.raises(error, match=message) as caught:
        rs.litdata(folder)
    assert str(folder) in str(caught.value)


def test_structures_are_read_at_any_depth_that_anyone_writes(folder: Path) -> None:
    index = json.loads((folder / "index.json").read_text())
    leaf: dict[str, Any] = {"type": None, "context": None, "children_spec": []}
    deep: Any = leaf
    for _ in range(90):
        deep = {"type": "builtins.list", "context": "null", "children_spec": [deep]}
    several = [
        ({"type": "collections.OrderedDict", "context": '["a", 1]', "children_spec": [leaf, leaf]}, repr(OrderedDict([("a", 0), (1, "")]))),
        ({"type": "collections.deque", "context": "null", "children_spec": [leaf, leaf]}, "deque([0, ''])"),
        ({"type": "builtins.tuple", "context": "null", "children_spec": [deep, leaf]}, f"({'[' * 90}0{']' * 90}, '')"),
    ]  # fmt: skip
    for tree, shown in several:
        index["config"]["data_spec"] = json.dumps([1, tree])
        (folder / "index.json").write_text(json.dumps(index))
        assert repr(rs.litdata(folder)[0]) == shown


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"block_size": 4}, "block_size must be None, since .* describes items, not tokens"),
        ({"block_size": 0}, "block_size must be at least 1, got 0"),
        ({"tensors": "jax"}, "tensors must be one of 'numpy', 'torch', got 'jax'"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(
    folder: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(rs.InvalidArgument, match=message):
        rs.litdata(folder, **options)


def test_a_number_of_tokens_that_does_not_fit_the_chunk_is_refused(tmp_path: Path) -> None:
    files = token_files([range(9)])
    index = json.loads(files["index.json"])
    index["chunks"][0]["dim"] = 8
    folder = write_files(tmp_path, files | {"index.json": json.dumps(index).encode()})
    with pytest.raises(rs.MalformedItem, match=r"chunks\[0\] has 30 bytes, and 8 tokens of uint16"):
        rs.litdata(folder, block_size=4)


DAMAGED: list[tuple[str, bytes, str]] = [
    ("int", b"1234567", "struct.error|error: unpack"),
    ("bool", b"ab", "a bool must have one byte, got 2"),
    ("str", b"\xff", "not UTF-8"),
    ("json", b"", "not JSON"),
    ("json", b"\1\xff\xff\xff\xff", "too few for 4294967295 values"),
    ("json", b"\6\xff\xff\xff\xff\0\0\0\0", "too few for 4294967295 dicts"),
    ("json", b"\x0f", "no value begins with byte 15"),
    ("json", b"\x0b\0", "the value ends at byte 1 of 2"),
    ("json", (b"\5\1\0\0\0" + bytes(4)) * 300, "nested deeper than 200"),
    ("numpy", struct.pack("<II", 14, 0), "dtype number 14 is none that is read"),
    ("numpy", struct.pack("<II", 0, 2**32 - 1), "and the shape ends at byte"),
    ("numpy", struct.pack("<IIII", 3, 2, 2**31, 2**31), "an array of shape .* has not 0 bytes"),
    ("tensor", struct.pack(">II", 10, 0), "dtype number 10 is none"),
    ("no_header_numpy:3", b"123", "buffer size must be a multiple"),
]


@pytest.mark.parametrize(("kind", "data", "message"), DAMAGED)
def test_a_damaged_leaf_is_malformed_and_named(
    tmp_path: Path, kind: str, data: bytes, message: str
) -> None:
    items = [[b"good", data], [b"good", data]]
    read = rs.litdata(write_files(tmp_path, litdata_files(items, ["bytes", kind])))
    with pytest.raises(
        rs.MalformedItem, match=f"chunk-0-0.bin, item 1: leaf 1, {kind}: .*({message})"
    ):
        read[1]


@pytest.mark.parametrize(
    "value",
    [None, True, "ü", -5, 0.5, {"a": {"b": [1, 2]}}, ["x", "y"], [1.5, 2.5], [True], [], [{"a": 1, "b": None}]],
)  # fmt: skip
def test_nested_values_are_read_in_their_binary_form_too(value: Any) -> None:
    assert same(nested_value(stored(value)), value)


def text(each: str) -> bytes:
    return struct.pack("<I", len(each.encode())) + each.encode()


def stored(value: Any) -> bytes:
    """A value as LitData stores it in a leaf of JSON."""
    if isinstance(value, dict):
        parts = [text(key) + stored(item) for key, item in value.items()]
        return b"\5" + struct.pack("<I", len(value)) + b"".join(parts)
    if isinstance(value, list):
        count = struct.pack("<I", len(value))
        kinds = {type(item) for item in value}
        if kinds <= {str}:
            return b"\1" + count + b"".join(map(text, value))
        if kinds == {bool}:
            return b"\4" + count + bytes(value)
        if kinds == {dict}:
            (row,) = value
            keys = struct.pack("<I", len(row)) + b"".join(map(text, row))
            return b"\6" + count + keys + b"\x12" + struct.pack("<q", row["a"]) + b"\x10"
        code, letter = (b"\2", "q") if kinds == {int} else (b"\3", "d")
        return code + count + struct.pack(f"<{len(value)}{letter}", *value)
    if isinstance(value, bool):
        return b"\x0a" + bytes([value])
    packed: dict[type, Callable[[Any], bytes]] = {
        type(None): lambda each: b"\x0b",
        str: lambda each: b"\7" + text(each),
        int: lambda each: b"\x08" + struct.pack("<q", each),
        float: lambda each: b"\x09" + struct.pack("<d", each),
    }
    return packed[type(value)](value)
