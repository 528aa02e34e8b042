"""Remote Parquet and Arrow files through a cache: what comes next is known, kept and fetched ahead."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from formats.http_files import FileServer
from formats.table_files import rows, write_arrow, write_parquet

import resumable as rs
from benchmarks.workloads.scripts.remote_cache import LastUse, noting
from resumable.bench.cached import needed_of_caches, notes_on_caches
from resumable.core.process_counts import process_counts
from resumable.core.stage import by_index
from resumable.file_cache.part_file import HEADER
from resumable.formats.data_files import found_data_files
from resumable.formats.tables import source as tables
from resumable.formats.tables.file_access import TableFileAccess
from resumable.testing.comparing import same
from resumable.testing.laws import resumes_at_every_position

for package in ("fsspec", "aiohttp"):
    pytest.importorskip(
        package, reason=f"{package} is not installed: pip install resumable-loader[remote]"
    )
pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

PART = 1 << 16
ROWS, GROUPS, FILES = 64, 4, 48
"""Rows of a group, which is about as large as a part; groups of a file; and files."""
TOTAL = FILES * GROUPS * PART

WRITERS: dict[str, Callable[[Path, Any], Path]] = {
    "parquet": lambda path, table: write_parquet(path, table, ROWS, use_dictionary=False),
    "arrow": lambda path, table: write_arrow(path, table, ROWS),
    "stream.arrow": lambda path, table: write_arrow(path, table, ROWS, stream=True),
}
each_format = pytest.mark.parametrize("format", WRITERS)


@pytest.fixture(autouse=True)
def few_groups_stay_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    tables.decoded.clear()
    monkeypatch.setattr(tables.decoded, "most", TOTAL // 6)


def urls(server: FileServer, folder: Path, format: str) -> list[str]:
    """Files of random bytes, behind URLs; eight of them are a sixth of all."""
    generator = np.random.default_rng(0)
    for number in range(FILES):
        data = [generator.bytes(PART // ROWS - 16) for _ in range(ROWS * GROUPS)]
        first = number * ROWS * GROUPS
        table = pa.table({"id": range(first, first + ROWS * GROUPS), "data": data})
        path = WRITERS[format](folder / f"{number:02}.{format}", table)
        server.files[f"/{path.name}"] = path.read_bytes()
        server.tags[f"/{path.name}"] = f'"{number}"'
    return [server.address + path for path in sorted(server.files)]


def cache_of(folder: Path, share: float, **options: Any) -> rs.FileCache:
    return rs.FileCache(folder / "parts", int(share * TOTAL * 1.01), PART, **options)


def read(
    urls: list[str], cache: rs.FileCache | None, columns: list[str] | None = None
) -> rs.Pipeline[Any]:
    make: Any = rs.parquet if urls[0].endswith("parquet") else rs.arrow
    found: rs.Pipeline[Any] = make(urls, columns, cache=cache)
    return found


def ids(batches: Any) -> list[int]:
    return [number for batch in batches for number in batch["id"].tolist()]


@pytest.mark.parametrize(
    ("format", "share"),
    [("parquet", 0.25), ("parquet", 0.5), ("arrow", 0.25), ("stream.arrow", 0.5)],
)
def test_epochs_of_blocks_fetch_less_than_by_last_use_and_ahead(
    format: str, share: float, tmp_path: Path, http_server: FileServer
) -> None:
    cache = cache_of(tmp_path, share)
    pipeline = read(urls(http_server, tmp_path, format), cache)
    model, before = LastUse(cache.max_bytes), process_counts.now()
    with noting(model):
        got = ids(pipeline.shuffle(0, block=ROWS * GROUPS).repeat(2).batch(ROWS))
    assert sorted(got) == sorted(2 * [*range(FILES * GROUPS * ROWS)])
    after = process_counts.now()
    fetched, hits, misses = (
        after[name] - before[name] for name in ("bytes_read", "cache_hits", "cache_misses")
    )
    assert fetched < min(0.97 * model.fetched, (2.1 - share) * TOTAL)
    assert misses <= 0.2 * hits  # a part that is there when it is asked for


@pytest.mark.parametrize("format", ["parquet", "arrow"])
def test_only_the_columns_that_are_read_are_fetched(
    format: str, tmp_path: Path, http_server: FileServer
) -> None:
    generator = np.random.default_rng(0)
    columns = {name: generator.integers(0, 1 << 40, 8 * PART // 8) for name in "abcd"}
    write: Any = write_parquet if format == "parquet" else write_arrow
    path = write(tmp_path / f"a.{format}", pa.table(columns), 4 * PART // 8)
    http_server.files = {f"/{path.name}": path.read_bytes()}
    http_server.tags = {f"/{path.name}": '"1"'}
    place = [http_server.address + f"/{path.name}"]
    pipeline = read(place, cache_of(tmp_path, 4), ["b", "d"])
    before = process_counts.now()["bytes_read"]
    found = list(pipeline.shuffle(0).batch(1024))
    assert sum(batch["b"].sum() for batch in found) == columns["b"].sum()
    # Half of the data, whose ends lie anywhere in parts.
    assert process_counts.now()["bytes_read"] - before <= 24 * PART


@each_format
@pytest.mark.parametrize("parts", [4, 100])
def test_the_items_are_those_without_a_cache(
    format: str, parts: int, tmp_path: Path, http_server: FileServer
) -> None:
    table = pa.Table.from_pylist(rows(0, 23))
    write: Any = write_parquet if format == "parquet" else write_arrow
    options = {"stream": True} if format == "stream.arrow" else {}
    path = write(tmp_path / f"a.{format}", table, 5, **options)
    http_server.files = {f"/{path.name}": path.read_bytes()}
    http_server.tags = {f"/{path.name}": '"1"'}
    place = [http_server.address + f"/{path.name}"]
    cache = rs.FileCache(tmp_path / "parts", parts * (PART + HEADER.size), PART)
    for columns in (None, ["tokens", "id"], ["nested"], ["nothing", "text"]):
        expected, found = read(place, None, columns), read(place, cache, columns)
        assert same(list(found.shuffle(3)), list(expected.shuffle(3)))
    resumes_at_every_position(read(place, cache).shuffle(3, block=5).batch(4, collate=list))


@pytest.mark.parametrize("batch_rows", [None, 64])
def test_parts_of_a_row_group_are_read_with_all_of_it(
    batch_rows: int | None, tmp_path: Path, http_server: FileServer
) -> None:
    places = urls(http_server, tmp_path, "parquet")
    pipeline = rs.parquet(places, batch_rows=batch_rows, cache=cache_of(tmp_path, 2))
    needs, numbers = by_index(pipeline.stage).needs, np.arange(FILES * GROUPS * ROWS)
    assert needs is not None
    (uses,) = needs(numbers, numbers)
    assert sorted(set(uses.at.tolist())) == list(range(0, FILES * GROUPS * ROWS, ROWS))


@pytest.mark.parametrize(("block", "share"), [(ROWS * GROUPS, 8 / FILES), (None, 1.0)])
def test_bench_says_how_much_of_the_tables_is_in_use_at_a_time(
    block: int | None, share: float, tmp_path: Path, http_server: FileServer
) -> None:
    pipeline = read(urls(http_server, tmp_path, "parquet"), cache_of(tmp_path, 0.25))
    (note,) = notes_on_caches(needed_of_caches(pipeline.shuffle(0, block=block).batch(8).stage))
    found = re.search(r"up to ([\d,]+) bytes", note)
    assert found is not None
    needed = int(found[1].replace(",", ""))
    assert share * 0.6 * TOTAL <= needed <= share * 1.1 * TOTAL
    assert ("set max_bytes to" in note) == (block is None)


def test_a_local_table_needs_nothing(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "a.parquet", pa.table({"id": range(9)}))
    assert by_index(rs.parquet(path).stage).needs is None


def test_a_range_that_was_read_is_let_go_and_read_again_if_it_is_asked_for(
    http_server: FileServer,
) -> None:
    http_server.files = {"/a": bytes(range(256))}
    access = TableFileAccess(found_data_files(f"{http_server.address}/a", None)[0])
    with access.open([(10, 20), (50, 90)]) as file:
        asked = len(http_server.requests)
        for start, stop in ((50, 60), (12, 20), (10, 12), (60, 90)):
            file.seek(start)
            assert list(file.read(stop - start)) == list(range(start, stop))
        assert len(http_server.requests) == asked
        assert file._ranges == [b"", b""]
        file.seek(15)
        assert list(file.read(40)) == list(range(15, 55))
