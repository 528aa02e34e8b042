"""Files of rows that pyarrow writes, for the tests of Parquet and Arrow files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from formats.records_of_formats import files_in

import resumable as rs

__all__ = [
    "content_of",
    "numbers",
    "numbers_of",
    "rows",
    "sources",
    "write_arrow",
    "write_each",
    "write_more_parquet",
    "write_parquet",
    "write_tables",
]


def rows(begin: int, end: int) -> list[dict[str, Any]]:
    """Rows of many types, as `pyarrow.Table.from_pylist` takes them."""
    return [
        {
            "id": number,
            "text": None if number % 7 == 3 else f"\u00fc\U0001f600 {number}" * (number % 4),
            "tokens": list(range(number, number + number % 5)),
            "maybe": None if number % 3 else number,
            "nested": {"a": number % 2 == 0, "b": [str(number)] * (number % 3)},
            "nothing": None,
        }
        for number in range(begin, end)
    ]


def numbers(begin: int, end: int) -> Any:
    """A table of numbers without nulls: also booleans, times and rows of two."""
    import pyarrow as pa

    wide = range(begin, end)
    return pa.table(
        {
            "id": pa.array(wide, pa.int64()),
            "half": pa.array([number / 2 for number in wide], pa.float32()),
            "odd": pa.array([number % 2 == 1 for number in wide], pa.bool_()),
            "day": pa.array(wide, pa.int32()).cast(pa.date32()),
            "pair": pa.array([[number, -number] for number in wide], pa.list_(pa.int16(), 2)),
        }
    )


def write_parquet(path: Path, table: Any, group: int = 5, **options: Any) -> Path:
    """Write row groups of ``group`` rows."""
    import pyarrow.parquet as pq

    pq.write_table(table, path, row_group_size=group, **options)
    return path


def write_arrow(
    path: Path, table: Any, batch: int = 5, stream: bool = False, **options: Any
) -> Path:
    """Write record batches of ``batch`` rows."""
    import pyarrow as pa

    make = pa.ipc.new_stream if stream else pa.ipc.new_file
    with make(str(path), table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table, max_chunksize=batch)
    return path


def content_of(write: Callable[[Path, Any], object], table: Any) -> bytes:
    """What a function writes of a table."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "a")
        write(path, table)
        return path.read_bytes()


def numbers_of(number: int) -> Any:
    """A table whose size does not depend on the number."""
    import pyarrow as pa

    return pa.table({"x": pa.array([number] * 50, "int64")})


def write_each(
    folder: Path, data: bytes, suffix: str, write: Callable[[Path, Any], object]
) -> None:
    """Files of four rows with ``data``."""
    import pyarrow as pa

    for number, path in enumerate(files_in(folder, suffix)):
        ids = range(4 * number, 4 * number + 4)
        write(path, pa.table({"id": list(ids), "data": [data + bytes([each]) for each in ids]}))


def write_tables(folder: Path) -> None:
    """The files that the `sources` read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    mixed = pa.Table.from_pylist(rows(0, 23))
    write_parquet(folder / "mixed-0.parquet", mixed)
    write_parquet(folder / "mixed-1.parquet", mixed.schema.empty_table())
    write_parquet(folder / "mixed-2.parquet", pa.Table.from_pylist(rows(23, 24), mixed.schema))
    write_parquet(folder / "numbers.parquet", numbers(0, 31), 7)
    with pq.ParquetWriter(folder / "gaps.parquet", mixed.schema) as writer:
        for begin, end in ((0, 0), (0, 3), (3, 3), (3, 3), (3, 9), (9, 9)):
            writer.write_table(mixed.slice(begin, end - begin))
    write_parquet(folder / "large.parquet", mixed, 1000)
    write_arrow(folder / "mixed-0.arrow", mixed)
    write_arrow(folder / "mixed-1.arrow", mixed.schema.empty_table())
    write_arrow(folder / "mixed-2.arrow", mixed.slice(3, 1), stream=True)
    write_arrow(folder / "stream.arrow", mixed, stream=True)
    write_arrow(folder / "compressed.arrow", mixed, compression="zstd")
    write_arrow(folder / "numbers.arrow", numbers(0, 31), 7, stream=True, compression="lz4")
    words = pa.table({"id": range(20), "word": [f"w{number // 3}" for number in range(20)]})
    words = words.set_column(1, "word", words.column(1).dictionary_encode())
    write_arrow(folder / "words.arrow", words, 4)
    _write_growing_dictionaries(folder / "growing.arrow")


def write_more_parquet(folder: Path) -> None:
    """Files in the other ways that Parquet has to store values."""
    import pyarrow as pa

    mixed, plain = pa.Table.from_pylist(rows(0, 12)), numbers(0, 12)
    for codec in ("none", "gzip", "zstd", "lz4", "brotli"):
        write_parquet(
            folder / f"{codec}.parquet", mixed, compression=codec, write_page_checksum=True
        )
    write_parquet(folder / "pages.parquet", mixed, data_page_version="2.0", data_page_size=40)
    write_parquet(
        folder / "split.parquet", plain, use_byte_stream_split=["half"], use_dictionary=False
    )
    encoded = {"id": "DELTA_BINARY_PACKED", "text": "DELTA_BYTE_ARRAY"}
    chosen = mixed.select(["id", "text"])
    write_parquet(folder / "delta.parquet", chosen, use_dictionary=False, column_encoding=encoded)


def _write_growing_dictionaries(path: Path) -> None:
    """A stream whose batches bring other dictionaries."""
    import pyarrow as pa

    kind = pa.dictionary(pa.int8(), pa.string())
    schema = pa.schema({"word": kind})
    with pa.ipc.new_stream(str(path), schema) as writer:
        for words in (["a", "b", "a"], ["c"], ["b", None, "c", "d"]):
            writer.write_batch(
                pa.record_batch([pa.array(words).dictionary_encode().cast(kind)], schema)
            )


def sources(folder: Path) -> dict[str, Callable[[], rs.Pipeline[Any]]]:
    """Pipelines over the files of `write_tables`, by name."""
    mixed = [folder / f"mixed-{part}.parquet" for part in range(3)]
    return {
        "parquet": lambda: rs.parquet(mixed),
        "parquet columns": lambda: rs.parquet(folder / "mixed-*.parquet", ["text", "id"]).batch(4),
        "parquet shuffled": lambda: rs.parquet(mixed).shuffle(2).repeat(2),
        "parquet in blocks": lambda: (
            rs.parquet(mixed, ["id", "tokens"]).shuffle(3, block=5).shard(1, 2).repeat(2)
        ),
        "parquet numbers": lambda: rs.parquet(folder / "numbers.parquet").repeat(2),
        "parquet numbers in blocks": lambda: (
            rs.parquet(folder / "numbers.parquet").shuffle(1, block=7).batch(4)
        ),
        "parquet with empty groups": lambda: rs.parquet(folder / "gaps.parquet"),
        "parquet empty": lambda: rs.parquet(mixed[1]),
        "parquet one row": lambda: rs.parquet(mixed[2]).repeat(2),
        "parquet in parts": lambda: rs.parquet(folder / "large.parquet", batch_rows=4),
        "parquet in parts shuffled": lambda: rs.parquet(
            [*mixed, folder / "large.parquet"], ["id"], batch_rows=3
        ).shuffle(1),
        "arrow": lambda: rs.arrow(folder / "mixed-*.arrow").repeat(2),
        "arrow shuffled": lambda: rs.arrow(folder / "mixed-*.arrow", ["nested", "id"]).shuffle(1),
        "arrow stream": lambda: rs.arrow(folder / "stream.arrow"),
        "arrow compressed": lambda: rs.arrow(folder / "compressed.arrow").shuffle(1, block=5),
        "arrow numbers": lambda: rs.arrow(folder / "numbers.arrow").batch(3),
        "arrow dictionaries": lambda: rs.arrow(folder / "words.arrow").shuffle(1),
        "arrow growing dictionaries": lambda: rs.arrow(folder / "growing.arrow"),
    }


NAMES = list(sources(Path()))
