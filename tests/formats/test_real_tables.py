"""Files of rows from other projects: each is equal to what pyarrow reads, row by row, cut and resumed.

pyarrow brings a few. With the environment variable ``RESUMABLE_REAL_TABLES`` all files below a folder
are read: clone https://github.com/apache/parquet-testing and arrow-testing into it. Those in folders
named ``fuzzing`` or ``bad_data``, and those without a suffix, are damaged: they give the rows that
pyarrow gives, or an error.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import resumable as rs
from resumable.testing.comparing import assert_same

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")

Open = Callable[..., rs.Pipeline[Any]]
SUFFIXES: Final = {".parquet": rs.parquet, ".feather": rs.arrow, ".arrow_file": rs.arrow, ".stream": rs.arrow}  # fmt: skip
FOLDERS: Final = {"fuzzing": rs.parquet, "encoding-fuzzing": rs.parquet, "arrow-ipc-file": rs.arrow, "arrow-ipc-stream": rs.arrow}  # fmt: skip
MOST_ROWS: Final = 400
"""Of a file that are compared, at its start and at its end."""
STRICTER: Final = {
    "6051391008473088",
    "6088759971217408",
    "6295340960776192",
    "5697144926502912.fuzz",
}
"""Ends of the names of damaged files that pyarrow reads: two schemas, or rows that are not there."""


def shipped() -> Path:
    spec = find_spec("pyarrow.tests")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "data"


def files() -> Iterator[tuple[Path, Open]]:
    """The files, and how they are opened."""
    more = os.environ.get("RESUMABLE_REAL_TABLES")
    for root in (shipped(), *([Path(more)] if more else [])):
        for path in sorted(root.rglob("*")):
            open = SUFFIXES.get(path.suffix) or FOLDERS.get(path.parent.name)
            if open is not None and path.is_file():
                yield path, open


FILES: Final = list(files())
each_file = pytest.mark.parametrize(("path", "open"), FILES, ids=["-".join(path.parts[-3:]) for path, _ in FILES])  # fmt: skip


def read_by_pyarrow(path: Path) -> Any:
    """The table in a file."""
    with path.open("rb") as file:
        start = file.read(6)
        file.seek(0)
        if start[:4] == b"PAR1":
            return pq.ParquetFile(file, page_checksum_verification=True).read()
        if start == b"ARROW1":
            return pa.ipc.open_file(file).read_all()
        return pa.ipc.open_stream(file).read_all()


@each_file
def test_a_file_has_the_rows_of_pyarrow_and_resumes_in_its_middle(path: Path, open: Open) -> None:
    try:
        table = read_by_pyarrow(path)
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError):
        with pytest.raises((rs.MalformedItem, rs.InvalidArgument), match=re.escape(path.name)):
            list(open(str(path)))
        return
    columns = None
    if not all(map(is_readable, table.schema.types)):
        with pytest.raises(rs.MalformedItem, match="pyarrow gives no values of the type"):
            open(str(path))
        fields = table.schema
        columns = [field.name for field in fields if is_readable(field.type)]
        table = table.select(columns)
    if columns == []:
        return
    if is_refused(path, table):
        with pytest.raises((rs.MalformedItem, rs.InvalidArgument), match=re.escape(path.name)):
            list(open(str(path), columns))
        return
    pipeline = open(str(path), columns)
    items = list(pipeline)
    assert len(items) == len(pipeline) == len(table)
    check_rows(table.slice(0, MOST_ROWS), items[:MOST_ROWS])
    check_rows(table.slice(max(len(table) - MOST_ROWS, 0)), items[-MOST_ROWS:])
    for cut in {0, 1, len(items) // 2, len(items) - 1} & set(range(len(items) + 1)):
        with iter(pipeline) as iterator:
            assert_same(list(islice(iterator, cut)), items[:cut], f"before {cut}")
            state = iterator.get_state()
        with open(str(path), columns).resume(rs.loads(rs.dumps(state))) as iterator:
            assert_same(list(iterator), items[cut:], f"from {cut}")


def is_readable(kind: Any) -> bool:
    """Whether pyarrow turns values of a type into those of Python."""
    return str(kind) not in ("month_interval", "day_time_interval")


def is_refused(path: Path, table: Any) -> bool:
    """Whether a file is refused although pyarrow reads it: it has no table of named columns, or is damaged."""
    names = table.column_names
    if not names or len(set(names)) < len(names):
        return True
    return path.name.rpartition("-")[2] in STRICTER


def check_rows(table: Any, items: list[Any]) -> None:
    """Check that ``items`` are the rows of ``table``, as the scalars of pyarrow have them."""
    for column in table.column_names:
        for scalar, item in zip(table[column], items, strict=True):
            assert is_value(scalar, item[column]), f"{column}: {item[column]!r} and not {scalar!r}"


def is_value(scalar: Any, value: Any) -> bool:
    """Whether ``value`` is what ``scalar`` holds."""
    kind, types = scalar.type, pa.types
    if not scalar.is_valid:
        return value is None
    if types.is_run_end_encoded(kind):
        return bool(scalar.as_py() == value)
    if isinstance(kind, pa.BaseExtensionType) or types.is_dictionary(kind) or types.is_union(kind):
        return is_value(scalar.value, value)
    if types.is_map(kind):
        keys, values = (scalar.values.field(place) for place in range(2))
        return len(keys) == len(value) and all(
            is_value(key, one) and is_value(held, other)
            for key, held, (one, other) in zip(keys, values, value, strict=True)
        )
    if types.is_struct(kind):
        names = [field.name for field in kind]
        return [*value] == names and all(
            is_value(scalar[place], value[name]) for place, name in enumerate(names)
        )
    if types.is_nested(kind):  # a list of some kind
        inner = scalar.values
        return len(inner) == len(value) and all(map(is_value, inner, value))
    if types.is_temporal(kind) and isinstance(value, (np.datetime64, np.timedelta64)):
        return int(value.view("i8")) == in_unit_of(value, scalar)
    if types.is_floating(kind):
        return bool(np.array_equal(scalar.as_py(), value, equal_nan=True))
    return bool(scalar.as_py() == value)


def in_unit_of(value: Any, scalar: Any) -> int:
    """The number of a time of pyarrow, as NumPy counts in the unit of ``value``."""
    number: int = scalar.value
    if pa.types.is_date64(scalar.type):
        return int(np.datetime64(number, "ms").astype(value.dtype).view("i8"))
    return number
