"""Origins of the records of files lead to the bytes of these records."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import resumable as rs
from resumable.core.origin import Origin
from resumable.shadows.record_item import item_of_record

LINES = ['{"n": 0}', "", '{"n": 1}', '{"n": 22}', "", "", '{"n": 333}']


def records(origins: rs.Pipeline[Any]) -> list[Origin]:
    found = [one for origin in origins for one in origin.records()]
    assert all(isinstance(one, Origin) for one in found)
    return found


@pytest.mark.parametrize("compressed", [False, True])
def test_offset_and_number_of_a_line_skip_what_is_blank(tmp_path: Path, compressed: bool) -> None:
    content = "\n".join(LINES).encode()
    for name in "ab":
        path = tmp_path / f"{name}.jsonl{'.gz' * compressed}"
        path.write_bytes(gzip.compress(content) if compressed else content)
    pipeline = rs.jsonl(tmp_path / "*.jsonl*")
    for item, origin in zip(pipeline, records(rs.origins(pipeline)), strict=True):
        assert origin.offset is not None
        assert origin.file is not None
        assert json.loads(content[origin.offset :].split(b"\n")[0]) == item
        assert json.loads(LINES[origin.record]) == item
    assert [Path(str(one.file)).name[0] for one in records(rs.origins(pipeline))] == list(
        "aaaabbbb"
    )


def test_whole_files_are_named(tmp_path: Path) -> None:
    for name in ("one.txt", "two.txt"):
        (tmp_path / name).write_text(name)
    pipeline = rs.files(tmp_path / "*.txt").shuffle(seed=0).batch(2)
    (paths,), (origin,) = list(pipeline), list(rs.origins(pipeline))
    assert [one.file for one in origin.records()] == paths
    assert [item_of_record(pipeline.stage, one) for one in origin.records()] == paths
    left = rs.files(tmp_path / "*.txt").exclude({0: {"one.txt": [0]}})
    assert [Path(path).name for path in left] == ["two.txt"]
    with pytest.raises(rs.InvalidArgument, match=r"one\.txt"):
        rs.files(tmp_path / "*.txt").exclude({0: {"one.txt": [1]}})


def test_a_resume_in_a_compressed_file_goes_on_with_the_next_record(tmp_path: Path) -> None:
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"".join(b"%d\n" % n for n in range(100))))
    pipeline = rs.lines(tmp_path / "a.txt.gz").map(int).filter(lambda number: number % 3)
    expected = [one.record for one in records(rs.origins(pipeline))]
    assert expected == list(pipeline)
    for cut in (0, 1, 30, len(expected)):
        with iter(pipeline) as iterator:
            iterator.skip(cut)
            state = iterator.get_state()
        with iter(rs.origins(pipeline)) as shadow:
            shadow.set_state(state)
            assert [one.record for origin in shadow for one in origin.records()] == expected[cut:]


@pytest.mark.parametrize(
    "bad", [{}, {0: {"a.txt.gz": [0, 3, 99]}}, {0: [], 5: {"a.txt.gz": [3, 7]}}]
)
def test_records_that_are_left_out_of_a_stream_leave_the_others_their_origins(
    tmp_path: Path, bad: dict[int, Any]
) -> None:
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"".join(b"%d\n" % n for n in range(100))))
    pipeline = rs.lines(tmp_path / "a.txt.gz").exclude(bad).map(int).shuffle(seed=0, window=4)
    items = list(pipeline)
    assert [one.record for one in records(rs.origins(pipeline))] == items
    with iter(pipeline) as iterator:
        iterator.skip(40)
        state = iterator.get_state()
    with iter(rs.origins(pipeline)) as shadow:
        shadow.set_state(state)
        assert [one.record for origin in shadow for one in origin.records()] == items[40:]
