"""Records of files that are left out by their file and their number there."""

from __future__ import annotations

import gzip
import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import resumable as rs


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three files of four records; the second has blank lines as its records 0 and 3."""
    for name in ("a/one.jsonl", "a/two.jsonl", "b/two.jsonl"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        lines = [json.dumps(f"{name} {number}") for number in range(4)]
        if name == "a/two.jsonl":
            lines.insert(0, "")
            lines.insert(3, "")
        path.write_text("\n".join(lines))
    return tmp_path


def items_of(folder: Path, **options: Any) -> rs.Pipeline[Any]:
    return rs.jsonl([str(path) for path in sorted(folder.rglob("*.jsonl"))], **options)


def test_records_are_named_by_file_and_number(folder: Path) -> None:
    items = items_of(folder).shuffle(3)
    left_out: dict[str, list[int]] = {"one.jsonl": [0, 3], "a/two.jsonl": [1, 0, 3]}
    # Blank lines are records, as errors count them, and no items: so they were hardly meant.
    match = r"two.jsonl that are no items, .*, got \[0, 3\]; records"
    with pytest.warns(RuntimeWarning, match=match) as told:
        excluded = items.exclude(left_out)
    assert len(told) == 1
    gone = {"a/one.jsonl 0", "a/one.jsonl 3", "a/two.jsonl 0"}
    assert list(excluded) == [item for item in items if item not in gone]
    # All of a file is meant, whatever stands in it.
    rest = [item for item in items if not item.startswith("a/two")]
    assert list(items.exclude({"a/two.jsonl": range(6)})) == rest
    whole_path = items.exclude({str(folder / "b" / "two.jsonl"): range(4)})
    assert list(whole_path) == [item for item in items if not item.startswith("b/")]
    numbers = items.exclude([0, 3, 4])
    assert list(numbers) == list(excluded)


def test_a_whole_path_counts_before_the_ends_of_others(folder: Path) -> None:
    path = folder / "a" / "one.jsonl"
    copy = folder / "backup" / str(path).lstrip("/")
    copy.parent.mkdir(parents=True)
    copy.write_text("1\n2\n3\n4\n")
    items = rs.jsonl([copy, path])
    assert list(items.exclude({str(path): range(4)})) == [1, 2, 3, 4]
    assert list(items.exclude({str(copy): range(1, 4)})) == [1, *rs.jsonl(path)]
    with pytest.raises(rs.InvalidArgument, match="but 2 files are called"):
        items.exclude({"a/one.jsonl": [0]})


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_file_may_have_two_names(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.txt{suffix}"
    path.write_bytes(gzip.compress(b"0\n1\n2\n3\n") if suffix else b"0\n1\n2\n3\n")
    named = {path.name: [1], str(path): [1, 2]}
    assert list(rs.lines(path).exclude(named)) == ["0", "3"]
    assert list(rs.lines(path).exclude({0: {}, 1: named})) == ["0", "3"]


def test_files_of_several_inputs_are_named_within_them(folder: Path) -> None:
    mixed = rs.mix(
        {
            "web": items_of(folder / "a").repeat(),
            "code": items_of(folder / "b").shuffle(1).repeat(),
        },
        weights=(2, 1),
    )
    expected = list(islice(mixed, 40))
    changed = mixed.exclude({0: [], 20: {"web": {"one.jsonl": [1]}, "code": [2]}})
    with iter(mixed) as iterator:
        passed = list(islice(iterator, 17))
        state = iterator.get_state()
    gone = {"a/one.jsonl 1", "b/two.jsonl 2"}
    rest = [item for item in expected[20:] if item not in gone]
    assert passed + list(islice(changed.resume(state), 3 + len(rest))) == expected[:20] + rest
    with pytest.raises(
        rs.StateMismatch, match=r"write records=\{0: \[\], 17: \{'web': \{'one.jsonl': \[1\]\}\}\}"
    ):
        mixed.exclude({"web": {"one.jsonl": [1]}}).resume(state)


@pytest.mark.parametrize(
    ("records", "message"),
    [
        (
            {"two.jsonl": [1]},
            r"an ending that matches exactly one file, but 2 files are called 'two\.jsonl' among \['\w+/two\.jsonl', '\w+/two\.jsonl'\]",
        ),
        ({"wo.jsonl": [1]}, r"but no file is called 'wo\.jsonl' among \["),
        (
            {"one.jsonl": [4]},
            r"records must be less than the number of those of \S*one\.jsonl, 4, got 4",
        ),
        ([12], "records must be less than the number of those of the source, 12, got 12"),
        (
            {"one.jsonl": {"a": [1]}},
            "must be numbers where a source has no files that can be named",
        ),
    ],
)
def test_records_that_are_in_no_file_are_refused(folder: Path, records: Any, message: str) -> None:
    with pytest.raises(rs.InvalidArgument, match=message):
        items_of(folder).exclude(records)


def test_rows_of_tables_are_named_by_file_and_number(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    for name, start in (("one", 0), ("two", 10)):
        table = pa.table({"id": list(range(start, start + 6))})
        parquet.write_table(table, tmp_path / f"{name}.parquet", row_group_size=4)
    rows = rs.parquet(str(tmp_path / "*.parquet")).map(lambda row: row["id"])
    excluded = rows.exclude({"two.parquet": [0, 5], "one.parquet": [4]})
    assert list(excluded) == [0, 1, 2, 3, 5, 11, 12, 13, 14]
    with pytest.raises(
        rs.InvalidArgument, match=r"less than the number of those of \S*one\.parquet, 6"
    ):
        rows.exclude({"one.parquet": [6]})
