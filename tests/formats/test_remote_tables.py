"""Parquet and Arrow files behind URLs: exact whatever fails for the moment, or an error that says what failed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from formats.http_files import AT_ONCE, CAUSES, FileServer, twice
from formats.table_files import rows, write_arrow, write_parquet
from support.s3_server import s3_server
from support.tiers import is_deep

import resumable as rs
from resumable.formats.tables import file_access, parquet_file
from resumable.formats.tables import source as tables
from resumable.testing.comparing import same

for package in ("fsspec", "aiohttp"):
    pytest.importorskip(package, reason=f"{package} is not installed")

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

FORMATS: dict[str, Callable[[Path, Any], Path]] = {
    "parquet": write_parquet,
    "file.arrow": write_arrow,
    "stream.arrow": lambda path, table: write_arrow(path, table, stream=True),
}
each_format = pytest.mark.parametrize("format", FORMATS)


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    tables.decoded.clear()
    parquet_file.footers.clear()
    monkeypatch.setattr(file_access, "READ_AHEAD_BYTES", 256)


def served(server: FileServer, format: str, folder: Path) -> tuple[Path, str]:
    """A file of 23 rows in groups of 5, on the disk and behind a URL."""
    path = FORMATS[format](folder / f"a.{format}", pa.Table.from_pylist(rows(0, 23)))
    server.files[f"/{path.name}"] = path.read_bytes()
    return path, f"{server.address}/{path.name}"


def read(place: Path | str, columns: list[str] | None = None, **retry: Any) -> rs.Pipeline[Any]:
    options = {"retry": AT_ONCE | retry} if isinstance(place, str) else None
    make: Any = rs.parquet if str(place).endswith("parquet") else rs.arrow
    pipeline: rs.Pipeline[Any] = make(place, columns, storage_options=options)
    return pipeline


@each_format
def test_what_fails_for_the_moment_is_tried_again(
    format: str, tmp_path: Path, http_server: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, url = served(http_server, format, tmp_path)
    expected = list(read(path).shuffle(2, block=5))
    monkeypatch.setattr(tables.TableFiles, "most_ahead", 1)
    for seed in range(5 if is_deep() else 1):
        http_server.dice.seed(seed)
        http_server.often = 0.25
        tables.decoded.clear()
        pipeline = read(url).shuffle(2, block=5)
        iterator, got = iter(pipeline), list[Any]()
        for count in (1, 6, 9):
            got += [next(iterator) for _ in range(count)]
            iterator.close()
            tables.decoded.clear()
            iterator = pipeline.resume(rs.loads(rs.dumps(iterator.get_state())))
        assert same(got + list(iterator), expected)
        http_server.often = 0.0


@each_format
@pytest.mark.parametrize(("fault", "cause"), CAUSES.items())
def test_an_error_that_stays_names_url_attempt_and_cause(
    format: str, fault: str, cause: str, tmp_path: Path, http_server: FileServer
) -> None:
    path, url = served(http_server, format, tmp_path)
    pipeline = read(url, ["id", "tokens"], **twice(fault))
    message = rf"{url} could not be read: attempt 2 of 2 ended with .*({cause})"
    with iter(pipeline) as iterator:
        http_server.faults, http_server.often = (fault,), 1.0
        with pytest.raises(rs.ReadError, match=message):
            next(iterator)
        assert iterator.get_state()["step"] == 0
        http_server.often = 0.0
        assert same(list(iterator), list(read(path, ["id", "tokens"])))


@each_format
def test_an_error_while_opening_names_the_url_too(
    format: str, tmp_path: Path, http_server: FileServer
) -> None:
    _, url = served(http_server, format, tmp_path)
    http_server.faults, http_server.often = ("503",), 1.0
    with pytest.raises(rs.ReadError, match=rf"{url} could not be read: attempt 2 of 2"):
        read(url, attempts=2)


@each_format
@pytest.mark.parametrize("change", ["tag", "size"])
def test_a_file_that_was_replaced_is_refused(
    format: str, change: str, tmp_path: Path, http_server: FileServer
) -> None:
    path, url = served(http_server, format, tmp_path)
    http_server.tags[f"/{path.name}"] = '"1"'
    pipeline = read(url)
    http_server.tags[f"/{path.name}"] = '"2"' if change == "tag" else '"1"'
    http_server.files[f"/{path.name}"] += b"more" * (change == "size")
    with pytest.raises(rs.MalformedItem, match=rf"{url} changed since the pipeline was built"):
        list(pipeline)


def test_large_row_groups_are_read_in_few_requests(
    tmp_path: Path, http_server: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_access, "READ_AHEAD_BYTES", 1 << 16)
    table = pa.table({"id": range(40_000), "other": [number * 7 for number in range(40_000)]})
    path = write_parquet(tmp_path / "a.parquet", table, 20_000)
    http_server.files["/a.parquet"] = path.read_bytes()
    pipeline = read(f"{http_server.address}/a.parquet")
    opened = len([method for method, _, _ in http_server.requests if method == "GET"])
    assert opened <= 2
    http_server.requests.clear()
    assert sum(batch["id"].sum() for batch in pipeline.batch(5000)) == 40_000 * 39_999 // 2
    assert len([method for method, _, _ in http_server.requests if method == "GET"]) <= 4


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Options for a server that speaks S3, with a bucket called `bucket`."""
    folder = tmp_path_factory.mktemp("tables")
    files = {}
    for part in range(2):
        table = pa.Table.from_pylist(rows(10 * part, 10 * part + 10))
        path = write_parquet(folder / f"{part}.parquet", table)
        files[f"data/{path.name}"] = path.read_bytes()
    with s3_server(files) as address:
        yield {"endpoint_url": address, "skip_instance_cache": False}


def test_objects_of_s3_are_shuffled_and_resumed(s3: dict[str, Any]) -> None:
    pipeline = rs.parquet("s3://bucket/data/*.parquet", ["id"], storage_options=s3).shuffle(3)
    expected = [{"id": number} for number in rs.range(20).shuffle(3)]
    with iter(pipeline) as iterator:
        first = [next(iterator) for _ in range(7)]
        state = rs.dumps(iterator.get_state())
    tables.decoded.clear()
    assert first + list(pipeline.resume(rs.loads(state))) == expected
