"""Rows of Parquet and Arrow files: values, damage, what is read, and what stays open."""

from __future__ import annotations

import base64
import datetime
import decimal
import os
import pickle
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from formats.table_files import numbers, rows, write_arrow, write_parquet, write_tables
from support.tiers import is_deep

import resumable as rs
from resumable.formats.tables import parquet_file
from resumable.formats.tables import source as tables
from resumable.formats.tables.arrow_messages import BATCH, NotArrow, messages
from resumable.testing.comparing import assert_same, same

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")


class OfAHandler(ValueError):
    """What a signal handler may raise."""


Write = Callable[..., Path]
FORMATS: dict[str, tuple[Write, Callable[..., rs.Pipeline[Any]]]] = {
    "parquet": (write_parquet, rs.parquet),
    "parquet in parts": (
        lambda path, table, *sizes: write_parquet(path, table, 1000),
        lambda paths, *columns: rs.parquet(paths, *columns, batch_rows=5),
    ),
    "file": (write_arrow, rs.arrow),
    "stream": (partial(write_arrow, stream=True), rs.arrow),
    "compressed": (partial(write_arrow, compression="zstd"), rs.arrow),
}
each_format = pytest.mark.parametrize("format", FORMATS)


@pytest.fixture(autouse=True)
def nothing_decoded() -> None:
    tables.decoded.clear()
    parquet_file.keep_readers(0)


def test_values_are_those_of_their_type_beside_nulls_and_without(tmp_path: Path) -> None:
    day = datetime.date(2020, 2, 29)
    columns: dict[str, tuple[Any, list[Any], list[Any]]] = {
        "int64": (pa.int64(), [2**60 + 1], [2**60 + 1]),
        "int8": (pa.int8(), [-3], [np.int8(-3)]),
        "uint64": (pa.uint64(), [2**64 - 1], [np.uint64(2**64 - 1)]),
        "float": (pa.float32(), [0.5], [np.float32(0.5)]),
        "double": (pa.float64(), [0.1], [0.1]),
        "bool": (pa.bool_(), [True], [True]),
        "string": (pa.string(), ["\u00fc\U0001f600"], ["\u00fc\U0001f600"]),
        "binary": (pa.large_binary(), [b"\xff"], [b"\xff"]),
        "date": (pa.date32(), [day], [np.datetime64(day)]),
        "timestamp": (pa.timestamp("ns", "Europe/Berlin"), [7], [np.datetime64(7, "ns")]),
        "duration": (pa.duration("ms"), [7], [np.timedelta64(7, "ms")]),
        "time": (pa.time64("ns"), [7], [np.timedelta64(7, "ns")]),
        "decimal": (pa.decimal128(5, 2), [decimal.Decimal("1.20")], [decimal.Decimal("1.20")]),
        "list": (pa.list_(pa.int16()), [[1, 2]], [np.array([1, 2], np.int16)]),
        "list of null": (pa.list_(pa.int16()), [[1, None]], [[np.int16(1), None]]),
        "list of lists": (
            pa.list_(pa.list_(pa.int64())),
            [[[1], []]],
            [[np.array([1]), np.array([], int)]],
        ),
        "fixed": (pa.list_(pa.int64(), 2), [[1, 2]], [np.array([1, 2])]),
        "struct": (pa.struct({"a": pa.float32()}), [{"a": None}], [{"a": None}]),
        "map": (pa.map_(pa.string(), pa.int64()), [[("k", 1)]], [[("k", 1)]]),
        "dictionary": (pa.dictionary(pa.int8(), pa.string()), ["x"], ["x"]),
    }
    for name, (kind, given, expected) in columns.items():
        for extra in ([], [None]):
            table = pa.table({"x": pa.array(given + extra, kind)})
            for format, (write, read) in FORMATS.items():
                path = write(tmp_path / f"{name} {len(extra)} {format}", table)
                pipeline = read(path)
                wanted = [{"x": value} for value in expected + extra]
                assert same(list(pipeline), wanted), (name, format)
                assert same(pipeline[0], wanted[0]), (name, format)


@each_format
def test_all_paths_to_a_row_give_the_same(format: str, tmp_path: Path) -> None:
    write, read = FORMATS[format]
    expected = rows(0, 23)
    pipeline = read(write(tmp_path / "a", pa.Table.from_pylist(expected)))
    assert [row["text"] for row in pipeline] == [row["text"] for row in expected]
    assert [list(row["tokens"]) for row in pipeline] == [row["tokens"] for row in expected]
    listed = list(pipeline)
    assert same(listed, [pipeline[index] for index in range(23)])
    assert same(listed[::-1], pipeline.gather(np.arange(22, -1, -1)))


def test_numbers_without_nulls_are_columns_and_no_views(tmp_path: Path) -> None:
    for write, read in FORMATS.values():
        pipeline = read(write(tmp_path / "a", numbers(0, 31), 7))
        block = pipeline.gather(np.array([30, 2]))
        assert block["id"].tolist() == [30, 2]
        assert block["pair"].tolist() == [[30, -30], [2, -2]]
        assert (block["half"].dtype, block["day"].dtype) == (np.float32, np.dtype("M8[D]"))
        batch = next(iter(pipeline.batch(6)))
        for column in (*batch.values(), pipeline[0]["pair"]):
            column[:] = 0
        assert pipeline[1]["id"] == 1
        assert next(iter(pipeline.batch(6)))["id"].tolist() == [*range(6)]
        assert pipeline[1]["pair"].tolist() == [1, -1]


def test_views_of_text_are_read_as_text(tmp_path: Path) -> None:
    kinds: dict[str, tuple[Any, list[Any]]] = {
        "text": (pa.string_view(), ["a", None, "\u00fc" * 20]),
        "data": (pa.binary_view(), [b"a", None, b"\xff" * 20]),
        "list": (pa.list_(pa.string_view()), [["a", None], None, []]),
        "pair": (pa.list_(pa.binary_view(), 2), [[b"a", b"b" * 20], None, [b"", None]]),
        "both": (pa.struct({"s": pa.string_view()}), [{"s": "a"}, None, {"s": None}]),
    }
    table = pa.table({name: pa.array(values, kind) for name, (kind, values) in kinds.items()})
    pipeline = rs.arrow(write_arrow(tmp_path / "a", table, 3))
    expected = [{name: values[row] for name, (_, values) in kinds.items()} for row in range(3)]
    assert list(pipeline) == expected
    assert rs.arrow(tmp_path / "a").gather(np.array([2, 0])) == [expected[2], expected[0]]
    texts = rs.arrow(tmp_path / "a", ["text", "data"])
    batch = next(iter(texts.batch(3)))
    assert list(batch["text"]) == kinds["text"][1]
    assert list(batch["data"]) == kinds["data"][1]


def test_values_in_maps_list_views_and_unions_are_those_of_their_type(tmp_path: Path) -> None:
    time, codes = pa.timestamp("ns"), pa.array([5, 9, 5], pa.int8())
    short, times = pa.array([1, 2, None], pa.int16()), pa.array([7, 8, 9], time)
    moments = [np.datetime64(number, "ns") for number in (7, 8, 9)]
    far = pa.array([[("a", 2**60)], [], []], pa.map_(pa.string(), pa.int64()))
    views = pa.ListViewArray.from_arrays([1, 0, 0], pa.array([2, 1, 0], pa.int32()), times)
    dense = pa.UnionArray.from_dense(codes, pa.array([0, 1, 2], pa.int32()), [short, times], None, [5, 9])  # fmt: skip
    kinds: dict[str, tuple[Any, list[Any]]] = {
        "map": (
            pa.array([[("a", 7), ("b", None)], None, []], pa.map_(pa.string(), time)),
            [[("a", moments[0]), ("b", None)], None, []],
        ),
        "far": (
            far.cast(pa.map_(pa.string(), pa.timestamp("s"))),
            [[("a", np.datetime64(2**60, "s"))], [], []],
        ),
        "view": (views, [np.array(moments[1:]), np.array(moments[:1]), np.array([], "M8[ns]")]),
        "dense": (dense, [np.int16(1), moments[1], None]),
        "sparse": (
            pa.UnionArray.from_sparse(codes, [short, times], None, [5, 9]),
            [np.int16(1), moments[1], None],
        ),
    }
    for name, (array, expected) in kinds.items():
        for size in (2, 3):
            pipeline = rs.arrow(write_arrow(tmp_path / name, pa.table({"x": array}), size))
            wanted = [{"x": value} for value in expected]
            assert same(list(pipeline), wanted), name
            assert same([pipeline[row] for row in range(3)], wanted), name


SPANS: dict[str, Callable[[Any], Any]] = {
    "top": lambda spans: spans,
    "list": lambda spans: pa.ListArray.from_arrays([0, 1], spans),
    "struct": lambda spans: pa.StructArray.from_arrays([spans], ["x"]),
    "map": lambda spans: pa.MapArray.from_arrays([0, 1], pa.array(["a"]), spans),
    "dictionary": lambda spans: pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), spans),
}


@pytest.mark.parametrize("kind", SPANS)
def test_a_column_that_pyarrow_cannot_read_is_named(tmp_path: Path, kind: str) -> None:
    spans = SPANS[kind](pa.array([(1, 2, 3)], pa.month_day_nano_interval()))
    path = write_arrow(tmp_path / "a", pa.table({"id": [1], "span": spans}), stream=True)
    # pyarrow writes only the third unit of intervals, so its number is replaced.
    data = path.read_bytes()
    for place in (place for place, byte in enumerate(data) if byte == 2):
        path.write_bytes(data[:place] + b"\0" + data[place + 1 :])
        with suppress(pa.ArrowException):
            if "month_interval" in str(pa.ipc.open_stream(path.read_bytes()).schema):
                break
    assert list(rs.arrow(path, ["id"])) == [{"id": 1}]
    with pytest.raises(rs.MalformedItem, match=r"column .span.: .* type month_interval; choose"):
        list(rs.arrow(path))


# The rows {"a": n, "n": {"y": 7, "e": {}}} for n = 1, 2, 3; pyarrow writes no struct without fields.
EMPTY_STRUCT = (
    "UEFSMRUAFTwVPCwVBhUAFQYVBhwAAAACAAAABgEBAAAAAAAAAAIAAAAAAAAAAwAAAAAAAAAVABU8FTwsFQYVABUGFQYcAAAAAgAAAAYCBwAAAAAA"
    "AAAHAAAAAAAAAAcAAAAAAAAAFQAVPBU8LBUGFQAVBhUGHAAAAAIAAAAGAwEAAAAAAAAAAQAAAAAAAAABAAAAAAAAABUEGVw1ABgGc2NoZW1hFQQA"
    "FQQlAhgBYQA1AhgBbhUEABUEJQIYAXkANQIYAWUVAAAWBhkcGSwmABwVBBklBgAZGAFhFQAWBhZiFmImCEkcFQAVABUCADwpBhkmAAYAAAAmABwV"
    "BBklBgAZKAFuAXkVABYGFmIWYiZqSRwVABUAFQIAPCkGGTYAAAYAAAAWpgIWBiYIFqYCACggcGFycXVldC1jcHAtYXJyb3cgdmVyc2lvbiAyNi4w"
    "LjEZLBwAABwAAADEAAAAUEFSMQ=="
)


def test_other_columns_are_read_beside_a_struct_without_fields(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(base64.b64decode(EMPTY_STRUCT))
    for size in (None, 2):
        assert list(rs.parquet(path, ["a"], batch_rows=size)) == [{"a": 1}, {"a": 2}, {"a": 3}]
        with pytest.raises(rs.MalformedItem, match=r"column 'n': .* the type struct<>; choose"):
            rs.parquet(path, batch_rows=size)
    structs = pa.array([{}, None], pa.struct([]))
    assert list(rs.arrow(write_arrow(tmp_path / "a", pa.table({"x": structs})))) == [
        {"x": {}}, {"x": None},
    ]  # fmt: skip


@pytest.mark.parametrize("stream", [True, False])
def test_a_table_without_columns_is_refused(tmp_path: Path, stream: bool) -> None:
    batch = pa.RecordBatch.from_struct_array(pa.array([{}, {}], pa.struct([])))
    path = write_arrow(tmp_path / "a", pa.Table.from_batches([batch]), stream=stream)
    with pytest.raises(rs.MalformedItem, match="a table must have at least one column"):
        rs.arrow(path)


STAGES: dict[str, Callable[[rs.Pipeline[Any]], rs.Pipeline[Any]]] = {
    "batch": lambda p: p.batch(4),
    "shuffle": lambda p: p.shuffle(1).batch(4).unbatch(),
    "blocks": lambda p: p.shuffle(1, block=5).batch(4).rebatch(3),
    "window": lambda p: p.shuffle(1, window=6, carry=True).batch(4),
    "cache": lambda p: p.cache().shuffle(1).batch(4).repeat(2),
    "zip": lambda p: rs.zip(p, p.shuffle(1)).batch(4),
    "mix": lambda p: rs.mix(p, p.shuffle(1), stop="all").batch(4),
    "concatenate": lambda p: rs.concatenate(p, p.shuffle(2)).batch(4),
    "interleave": lambda p: rs.interleave(p, p, block_length=3).batch(4),
    "windows": lambda p: p.window(4, shift=3).shuffle(1),
    "prefetch": lambda p: p.batch(4).prefetch(2),
    "filter": lambda p: p.filter(lambda row: row["id"] % 2).batch(4),
    "enumerate": lambda p: p.enumerate().batch(4),
}


@pytest.mark.parametrize("stages", STAGES)
def test_columns_of_text_are_as_a_list_of_the_same_rows(stages: str, tmp_path: Path) -> None:
    kept = [{"id": n, "text": None if n % 5 == 2 else f"{n}", "data": bytes(n)} for n in range(23)]
    path = write_parquet(tmp_path / "a", pa.Table.from_pylist(kept))
    add = STAGES[stages]
    assert same(list(add(rs.parquet(path))), list(add(rs.from_sequence(kept))))


@each_format
def test_items_that_are_changed_are_not_handed_out_again(format: str, tmp_path: Path) -> None:
    write, read = FORMATS[format]
    pipeline = read(write(tmp_path / "a", pa.Table.from_pylist(rows(0, 23)))).shuffle(1)
    expected = list(pipeline)
    with iter(pipeline) as iterator:
        state = iterator.get_state()
        for row in iterator:
            row.clear()
        iterator.set_state(state)
        assert same(list(iterator), expected)


@each_format
def test_a_file_replaced_while_running_is_noticed(
    format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So that no row of the next batch is made yet.
    monkeypatch.setattr(tables.TableFiles, "most_ahead", 5)
    write, read = FORMATS[format]
    path = write(tmp_path / "a", pa.Table.from_pylist(rows(0, 40)))
    pipeline = read(path)
    with iter(pipeline.batch(5, collate=list)) as batches:
        next(batches)
        write(path, pa.Table.from_pylist(rows(100, 141)))
        with pytest.raises(rs.MalformedItem, match="a changed since the pipeline was built"):
            next(batches)
        with pytest.raises(rs.MalformedItem, match="changed"):
            pipeline[0]


@each_format
def test_a_file_cut_short_while_running_is_noticed(format: str, tmp_path: Path) -> None:
    write, read = FORMATS[format]
    path = write(tmp_path / "a", pa.table({"id": range(100_000)}), 10_000)
    pipeline = read(path)
    assert pipeline[17]["id"] == 17
    os.truncate(path, 1000)
    for index in (17, 99_999):
        with pytest.raises(rs.MalformedItem, match="changed since"):
            pipeline[index]


@each_format
def test_a_file_cut_short_is_told_and_never_gives_other_rows(format: str, tmp_path: Path) -> None:
    write, read = FORMATS[format]
    path = write(tmp_path / "a", pa.Table.from_pylist(rows(0, 23)))
    data = path.read_bytes()
    for size in range(0, len(data), max(1, len(data) // 60)):
        path.write_bytes(data[:size])
        got = rows_unless_damaged(read, path)
        if got is not None:  # a stream may end after any of its messages
            assert format == "stream"
            assert [row["id"] for row in got] == [*range(len(got))]
            assert len(got) % 5 == 0 or len(got) == 23


def rows_unless_damaged(read: Callable[[Path], rs.Pipeline[Any]], path: Path) -> list[Any] | None:
    """The rows of the file; None if the only error that there may be names it."""
    try:
        return list(read(path))
    except rs.MalformedItem as error:
        if str(path) not in str(error):
            raise
    return None


def with_each_replaced(data: bytes, old: bytes, new: bytes) -> list[bytes]:
    """``data`` with ``new`` in the place of ``old``, wherever that stands."""
    parts = data.split(old)
    return [
        old.join(parts[:place]) + new + old.join(parts[place:]) for place in range(1, len(parts))
    ]


def varint(number: int) -> bytes:
    """A positive number as the headers of Parquet have it: zigzag, seven bits in a byte."""
    number, found = 2 * number, []
    while number:
        found.append(number % 128 | (128 if number >= 128 else 0))
        number //= 128
    return bytes(found)


def test_a_wrong_number_of_rows_in_a_header_is_noticed_before_anything_is_made_of_it(
    tmp_path: Path,
) -> None:
    table = pa.table({"x": np.zeros(12_345, np.int16)})
    for stream in (False, True):
        path = write_arrow(tmp_path / "a.arrow", table, 20_000, stream=stream)
        claims = with_each_replaced(
            path.read_bytes(), (12_345).to_bytes(8, "little"), (1 << 40).to_bytes(8, "little")
        )
        assert len(claims) == 2  # of the batch, and of its column
        for claim in claims:
            path.write_bytes(claim)
            with pytest.raises(rs.MalformedItem, match=r"message 1 .* rows, but .* in the first"):
                rs.arrow(path)
    path = write_parquet(tmp_path / "a.parquet", table, 20_000, store_schema=False)
    data = path.read_bytes()
    refused = 0
    for claim in with_each_replaced(data, varint(12_345), varint(1_000_000)):
        path.write_bytes(claim)
        try:
            assert len(rs.parquet(path)) == 12_345
        except rs.MalformedItem as error:
            refused += "footer: " in str(error) and "in its row groups" in str(error)
    assert refused == 2  # of the file, and of its row group


def test_the_checksum_of_a_page_is_verified_where_there_is_one(tmp_path: Path) -> None:
    for checksum in (False, True):
        path = write_parquet(
            tmp_path / "a", pa.table({"x": [2**60 + 1]}), 5,
            use_dictionary=False, compression="none", write_page_checksum=checksum,
            write_statistics=False,
        )  # fmt: skip
        (damaged,) = with_each_replaced(
            path.read_bytes(), (2**60 + 1).to_bytes(8, "little"), (2**60).to_bytes(8, "little")
        )
        path.write_bytes(damaged)
        assert rows_unless_damaged(rs.parquet, path) == (None if checksum else [{"x": 2**60}])


def test_the_row_group_of_damage_is_named(tmp_path: Path) -> None:
    path = write_parquet(
        tmp_path / "a", pa.table({"text": [f"{n} row" for n in range(20)]}), compression="zstd"
    )
    import pyarrow.parquet as pq

    column = pq.read_metadata(path).row_group(2).column(0)
    data = bytearray(path.read_bytes())
    begin = column.dictionary_page_offset or column.data_page_offset
    data[begin : begin + 30] = bytes(30)
    path.write_bytes(data)
    pipeline = rs.parquet(path)
    assert pipeline[9] == {"text": "9 row"}
    with pytest.raises(rs.MalformedItem, match=r"a, row group 2: "):
        pipeline[10]
    with iter(pipeline) as items:
        assert len([next(items) for _ in range(10)]) == 10
        with pytest.raises(rs.MalformedItem):
            next(items)


def test_a_dictionary_of_a_stream_counts_until_the_next_one(tmp_path: Path) -> None:
    write_tables(tmp_path)
    words = [row["word"] for row in rs.arrow(tmp_path / "growing.arrow")]
    assert words == ["a", "b", "a", "c", "b", None, "c", "d"]


def test_text_that_is_no_utf_8_is_told_with_its_column(tmp_path: Path) -> None:
    broken = pa.array([b"a", b"\xff"]).view(pa.string())
    for format, (write, read) in FORMATS.items():
        pipeline = read(write(tmp_path / format, pa.table({"t": broken})))
        with pytest.raises(rs.MalformedItem, match=r"column 't'.*utf-8"):
            pipeline[1]


def test_parts_are_whole_however_pyarrow_cuts_the_batches() -> None:
    class Batches:
        def iter_batches(self, size: int, **options: Any) -> Any:
            return iter(pa.table({"x": range(23)}).to_batches(max_chunksize=7))

    reader = parquet_file._PartReader(None, Batches(), 0, 5, ["x"])
    parts = [reader.take(count).column("x").to_pylist() for count in (5, 5, 5, 5, 3)]
    assert parts == [[*range(begin, min(begin + 5, 23))] for begin in range(0, 23, 5)]
    with pytest.raises(pa.ArrowInvalid, match="ends after 23 rows"):
        reader.take(5)


def count_decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The row groups that are decoded from now on."""
    read, decoded = parquet_file.ParquetFile.read, list[int]()

    def counting(file: Any, group: int, columns: Any) -> Any:
        decoded.append(group)
        return read(file, group, columns)

    monkeypatch.setattr(parquet_file.ParquetFile, "read", counting)
    return decoded


@pytest.mark.parametrize("stages", [lambda p: p.batch(7), lambda p: p.map(dict)])
def test_a_shuffle_in_blocks_decodes_each_row_group_once_with_eight_kept(
    stages: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tables.TableFiles, "most_ahead", 64)
    table = pa.table({"id": np.arange(40 * 130)})
    pipeline = rs.parquet(write_parquet(tmp_path / "a", table, 130))
    weight = pipeline.stage._files[0].read(0, ("id",)).weight  # type: ignore[attr-defined]
    monkeypatch.setattr(tables.decoded, "most", 8 * weight)
    decoded = count_decoded(monkeypatch)
    assert len(list(stages(pipeline.shuffle(0, block=130)))) > 0
    assert sorted(decoded) == [*range(40)]
    decoded.clear()
    list(stages(pipeline.shuffle(0)))
    assert len(decoded) > 400


def test_only_the_columns_asked_for_are_read(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
    table = pa.table({"id": np.arange(5000), "much": [os.urandom(200) for _ in range(5000)]})
    memory = fsspec.filesystem("memory")
    read_range = memory.cat_file
    for name, write in (("a.parquet", write_parquet), ("a.arrow", write_arrow)):
        path = write(tmp_path / name, table, 5000)
        memory.pipe(f"/tables/{name}", path.read_bytes())
        taken: list[int] = []

        def counting(path: str, start: int, end: int, taken: list[int] = taken) -> Any:
            taken.append(end - start)
            return read_range(path, start, end)

        memory.cat_file = counting
        try:
            read: Any = rs.parquet if name.endswith("parquet") else rs.arrow
            pipeline = read(f"memory://tables/{name}", ["id"])
            assert [row["id"] for row in pipeline] == [*range(5000)]
        finally:
            memory.cat_file = read_range
        assert 0 < sum(taken) < 250_000 < path.stat().st_size
        memory.rm(f"/tables/{name}")


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow", "stream.arrow"])
def test_files_behind_a_url_are_as_local_ones(name: str, tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
    memory = fsspec.filesystem("memory")
    write: Any = write_parquet if name == "a.parquet" else write_arrow
    options = {"stream": True} if name == "stream.arrow" else {}
    read: Any = rs.parquet if name == "a.parquet" else rs.arrow
    for part in (1, 0):
        path = write(tmp_path / f"{part}-{name}", pa.Table.from_pylist(rows(part, 23)), **options)
        memory.pipe(f"/many/{part}-{name}", path.read_bytes())
    local = read(tmp_path / f"*-{name}")
    remote = read(f"memory://many/*-{name}", storage_options={})
    assert same(list(remote.shuffle(1, block=5)), list(local.shuffle(1, block=5)))
    assert remote.fingerprint == local.fingerprint
    assert same(list(pickle.loads(pickle.dumps(remote))), list(local))
    tables.decoded.clear()
    memory.pipe(f"/many/0-{name}", (tmp_path / f"1-{name}").read_bytes())
    with pytest.raises(rs.MalformedItem, match=r"memory://.*changed since"):
        list(remote)
    memory.rm("/many", recursive=True)


def test_a_thousand_files_take_no_more_descriptors(tmp_path: Path) -> None:
    count = 1000 if is_deep() else 200
    for part in range(count):
        write_parquet(tmp_path / f"{part:04}.parquet", numbers(part, part + 2))
    before = len(os.listdir("/proc/self/fd"))
    pipeline = rs.parquet(tmp_path / "*.parquet", ["id"])
    assert len(pipeline.gather(np.arange(2 * count))["id"]) == 2 * count
    assert len(list(rs.parquet(tmp_path / "*.parquet", ["id"], batch_rows=1))) == 2 * count
    assert len(os.listdir("/proc/self/fd")) <= before + parquet_file.MOST_READERS


def test_files_that_are_read_in_parts_are_closed_with_their_pipelines(tmp_path: Path) -> None:
    for part in range(9):
        write_parquet(tmp_path / f"{part}.parquet", numbers(30 * part, 30 * part + 30), 10)

    def opened() -> int:
        return len(os.listdir("/proc/self/fd"))

    def in_the_middle() -> rs.Pipeline[Any]:
        pipeline = rs.parquet(tmp_path / "*.parquet", ["id"], batch_rows=4)
        assert [pipeline[place]["id"] for place in range(5, 270, 10)] == [*range(5, 270, 10)]
        return pipeline

    before = opened()
    one, other = in_the_middle(), in_the_middle()
    assert opened() == before + parquet_file.MOST_READERS
    del other
    assert opened() == before, "the other one's readers have taken the places of the first"
    assert len(list(one.map(dict))) == 270
    assert opened() == before, "all row groups were read to their ends"
    copy = pickle.loads(pickle.dumps(one))
    tables.decoded.clear()
    assert copy[0]["id"] == one[0]["id"] == 0
    assert opened() == before + 2
    del one, copy
    assert opened() == before


def test_rows_in_order_are_decoded_once_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = list[int]()
    take = parquet_file._PartReader.take

    def counting(reader: Any, count: int) -> Any:
        taken.append(count)
        return take(reader, count)

    monkeypatch.setattr(parquet_file._PartReader, "take", counting)
    path = write_parquet(tmp_path / "a.parquet", numbers(0, 60), 20)
    assert len(list(rs.parquet(path, ["id"], batch_rows=3))) == 60
    assert taken == [3, 3, 3, 3, 3, 3, 2] * 3


@pytest.mark.parametrize("format", FORMATS if is_deep() else ["parquet", "stream"])
def test_processes_and_forks_read_rows_too(format: str, tmp_path: Path) -> None:
    pytest.importorskip("loky", reason="loky is not installed")
    write, read = FORMATS[format]
    pipeline = read(write(tmp_path / "a", numbers(0, 31), 7))
    expected = [row["id"] for row in pipeline]
    with iter(pipeline.map(lambda row: row["id"], workers=2, executor="process")) as items:
        assert list(items) == expected
    lookup = pipeline.stage.indexed().item  # type: ignore[union-attr]
    ahead = rs.range(31).map(lambda index: lookup(index)["id"], workers=2, executor="process")
    with iter(ahead) as items:
        assert list(items) == expected
    child = os.fork()
    if not child:
        tables.decoded.clear()
        os._exit(0 if [row["id"] for row in pipeline] == expected else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_folder_of_hugging_face_is_read(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    kept = rows(0, 23)
    datasets.Dataset.from_list(kept).save_to_disk(str(tmp_path / "saved"), num_shards=3)
    pipeline = rs.arrow(tmp_path / "saved" / "data-*.arrow")
    got = [{**row, "tokens": list(row["tokens"])} for row in pipeline]
    assert got == kept
    assert len({row["id"] for row in pipeline.shuffle(1, block=4)}) == 23


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda path: rs.parquet(path, ["no"]), ValueError, "got 'no', which .*a lacks: it has"),
        (lambda path: rs.parquet(path, []), ValueError, "columns must name at least one"),
        (lambda path: rs.parquet(path, ["id", "id"]), ValueError, "columns must be different"),
        (lambda path: rs.parquet(path, "id"), TypeError, "columns must be a list of names"),
        (lambda path: rs.parquet(path, batch_rows=0), ValueError, "batch_rows must be at least 1"),
        (lambda path: rs.parquet([]), ValueError, "paths must name at least one file"),
        (lambda path: rs.parquet(cast(Any, 3)), TypeError, "paths must"),
        (lambda path: rs.parquet(path.parent), ValueError, "paths must name regular files"),
        (lambda path: rs.arrow(path), ValueError, "a, headers: "),
        (
            lambda path: rs.parquet(path, storage_options=cast(Any, 3)),
            TypeError,
            "storage_options must be",
        ),
        (
            lambda path: rs.parquet("nothing://a"),
            ValueError,
            "paths must be URLs that fsspec knows",
        ),
    ],
)
def test_bad_arguments_are_refused(
    call: Callable[[Path], Any], kind: type[Exception], message: str, tmp_path: Path
) -> None:
    path = write_parquet(tmp_path / "a", numbers(0, 3))
    with pytest.raises(kind, match=message) as caught:
        call(path)
    assert isinstance(caught.value, rs.ResumableError)


def test_a_state_of_other_columns_or_files_is_refused(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "a", numbers(0, 31))
    state = rs.parquet(path, ["id"]).start().get_state()
    with pytest.raises(rs.StateMismatch, match="columns"):
        rs.parquet(path, ["half"]).resume(state)
    write_parquet(path, numbers(0, 30))
    with pytest.raises(rs.StateMismatch, match="files"):
        rs.parquet(path, ["id"]).resume(state)


def test_headers_alone_are_read_of_an_arrow_file(tmp_path: Path) -> None:
    for stream in (False, True):
        path = write_arrow(tmp_path / "a", pa.table({"id": range(100_000)}), 20_000, stream=stream)
        data, taken = path.read_bytes(), []

        def read(start: int, size: int) -> bytes:
            taken.append(size)  # noqa: B023
            return data[start : start + size]  # noqa: B023

        found = messages(read, len(data))
        assert [message.rows for message in found[1:]] == [20_000] * 5
        assert sum(taken) < 4000


@pytest.mark.parametrize("stream", [False, True])
def test_no_wrong_byte_in_an_arrow_file_hides_rows(stream: bool, tmp_path: Path) -> None:
    words = pa.array(list("aabbccdda")).dictionary_encode()
    for columns in ({"id": range(9)}, {"word": words, "text": list("123456789")}):
        path = write_arrow(tmp_path / "a", pa.table(columns), 3, stream=stream)
        whole, refused = path.read_bytes(), 0
        for place, byte in enumerate(whole):
            for wrong in range(256) if is_deep() else {0, 1, 255, byte ^ 128, (byte + 64) % 256}:
                data = whole[:place] + bytes([wrong]) + whole[place + 1 :]
                try:
                    found = messages(lambda start, size: data[start : start + size], len(data))  # noqa: B023
                except NotArrow:
                    refused += 1
                else:
                    rows = [message.rows for message in found if message.kind == BATCH]
                    assert rows == [3, 3, 3], f"byte {place} is {wrong} instead of {byte}"
        assert refused > len(whole)


def test_metadata_of_users_may_look_like_the_mark_of_a_message(tmp_path: Path) -> None:
    marks = (b"\xff" * 4 + (8).to_bytes(4, "little")) * 9
    field = pa.field("id", pa.int64(), metadata={"key": marks})
    table = pa.table({"id": range(5)}, pa.schema([field], metadata={"key": marks}))
    for shift in range(8):
        shifted = table.replace_schema_metadata({"key": b"x" * shift + marks})
        path = write_arrow(tmp_path / "a", shifted, 2, stream=True)
        assert [row["id"] for row in rs.arrow(path)] == list(range(5))


def test_a_parquet_file_whose_footer_does_not_count_its_rows_is_read(tmp_path: Path) -> None:
    table = pa.table({"x": np.zeros(12_345, np.int16)})
    path = write_parquet(tmp_path / "a", table, 20_000, store_schema=False)
    zero = b"\x80\x80\0"  # as long as the number
    outcomes = list[int | str]()
    for claim in with_each_replaced(path.read_bytes(), varint(12_345), zero):
        path.write_bytes(claim)
        try:
            outcomes.append(len(list(rs.parquet(path))))
        except rs.MalformedItem as error:
            outcomes.append(str(error).partition(", ")[2])
    assert 12_345 in outcomes
    assert "footer: 12345 rows, but 0 in its row groups" in outcomes
    assert 0 not in outcomes


def test_what_follows_the_end_of_a_stream_is_told(tmp_path: Path) -> None:
    path = write_arrow(tmp_path / "a", pa.table({"id": range(5)}), stream=True)
    size = path.stat().st_size
    path.write_bytes(2 * path.read_bytes())
    with pytest.raises(rs.MalformedItem, match=f"a, headers: bytes {size} to {2 * size} follow"):
        rs.arrow(path)


def test_a_footer_that_lists_less_than_there_is_is_told(tmp_path: Path) -> None:
    path = write_arrow(tmp_path / "a", pa.table({"id": range(9)}), 3)
    data = path.read_bytes()
    with pa.ipc.open_file(path) as file:
        assert file.num_record_batches == 3
    footer = data.index((3).to_bytes(4, "little"), len(data) - 200)
    for count in (2, 4):
        path.write_bytes(data[:footer] + count.to_bytes(4, "little") + data[footer + 4 :])
        with pytest.raises(rs.MalformedItem, match="a, headers: its footer"):
            rs.arrow(path)


def test_a_footer_with_another_schema_is_told(tmp_path: Path) -> None:
    path = write_arrow(tmp_path / "a", pa.table({"name": range(9)}), 3)
    data = path.read_bytes()
    for place in (data.index(b"name"), data.rindex(b"name")):
        path.write_bytes(data[:place] + b"mane" + data[place + 4 :])
        with pytest.raises(rs.MalformedItem, match="a, headers: its footer has another schema"):
            rs.arrow(path)


@pytest.mark.parametrize("stream", [True, False])
def test_a_damaged_batch_without_rows_is_told(tmp_path: Path, stream: bool) -> None:
    words = pa.table({"word": pa.array(["a", None]).dictionary_encode()})
    path = write_arrow(tmp_path / "a", words, stream=stream)
    data = path.read_bytes()
    found = messages(lambda start, size: data[start : start + size], len(data), with_buffers=True)
    batch = next(message for message in found if message.kind == BATCH)
    assert rs.arrow(path)[1] == {"word": None}
    none = write_arrow(tmp_path / "none", words.slice(0, 0), stream=stream)
    assert not len(rs.arrow(none))
    head = np.frombuffer(data[batch.start : batch.body], "<i8").copy()
    head[head == 2] = 0  # each count of rows
    head[head == 1] = 1 << 40  # the count of nulls, and the size of their buffer
    path.write_bytes(data[: batch.start] + head.tobytes() + data[batch.body :])
    with pytest.raises(rs.MalformedItem, match="a, record batch 0: "):
        rs.arrow(path)


def test_streams_from_before_version_0_15_are_read(tmp_path: Path) -> None:
    table = pa.table({"id": range(9), "word": pa.array(list("aabbccdda")).dictionary_encode()})
    for stream in (False, True):
        path = write_arrow(tmp_path / "a", table, 4, stream=stream, use_legacy_format=True)
        assert list(rs.arrow(path).shuffle(1)) == list(
            rs.from_sequence(table.to_pylist()).shuffle(1)
        )
    assert path.read_bytes()[-4:] == bytes(4) != path.read_bytes()[:4]


def test_a_pipeline_over_a_replaced_file_reads_nothing_of_the_old_one(tmp_path: Path) -> None:
    """Also where a reader of the old one waits in the middle of a row group."""
    path = tmp_path / "rows.parquet"

    def write(first: int) -> None:
        table = pa.table({"a": range(first, first + 2000)})
        pq.write_table(table, tmp_path / "new")
        (tmp_path / "new").replace(path)

    write(0)
    with iter(rs.parquet(path, batch_rows=100)) as rows:
        next(rows)
    write(10**6)
    again = rs.parquet(path, batch_rows=100)
    assert again[550] == {"a": 10**6 + 550}
    assert list(again.skip(1990)) == [{"a": 10**6 + number} for number in range(1990, 2000)]


@pytest.mark.parametrize("error", [TimeoutError("late"), OfAHandler("late")])
def test_the_exception_of_a_signal_handler_is_no_damage(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pq.write_table(pa.table({"a": [[1], [2]]}), tmp_path / "rows.parquet")
    rows = rs.parquet(tmp_path / "rows.parquet")

    def interrupted(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", interrupted)
    with iter(rows) as iterator:
        with pytest.raises(type(error), match="late"):
            next(iterator)
        monkeypatch.undo()
        assert next(iterator)["a"].tolist() == [1]


def test_functions_get_columns_of_numbers_and_text_and_else_a_list(tmp_path: Path) -> None:
    flat = pa.table(
        {
            "whole": pa.array([1, 2, None, 4, 5], pa.int32()),
            "text": pa.array(["a", None, "b", "c", "d"]).dictionary_encode(),
            "pair": pa.array([[1, 2], None, [3, None], [4, 5], [6, 7]], pa.list_(pa.int8(), 2)),
            "day": pa.array([1, 2, 3, 4, 5], pa.date32()),
        }
    )
    ragged = flat.append_column("list", pa.array([[1], [2, 3], [], None, [4]]))
    for write, read in FORMATS.values():
        whole, cut = read(write(tmp_path / "a", flat, 5)), read(write(tmp_path / "b", flat, 2))
        expected = list(whole.map_batches(lambda block: [block], 2))
        assert [type(block) for block in expected] == [dict] * 3
        assert expected[1]["whole"] == [None, 4]
        assert expected[2]["whole"].dtype == np.int32
        for pipeline in (whole.prefetch(2), cut, cut.prefetch(1), whole.cache()):
            assert_same(list(pipeline.map_batches(lambda block: [block], 2)), expected, "blocks")
        lists = read(write(tmp_path / "c", ragged, 2))
        assert all(type(block) is list for block in lists.map_batches(lambda block: [block], 2))
        assert type(lists.gather(np.array([3, 1]))) is list
        chosen = read(write(tmp_path / "c", ragged, 2), ["day"])
        assert type(chosen.gather(np.array([3, 1]))) is dict
