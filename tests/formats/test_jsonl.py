"""JSON lines: values, and the place of what is malformed."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import resumable as rs

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(JSON, max_size=8), st.sampled_from(["\n", "\r\n", "\n\n"]), st.booleans())
def test_values_come_back(tmp_path: Path, values: list[object], end: str, closed: bool) -> None:
    text = end.join(json.dumps(value) for value in values) + (end if closed else "")
    (tmp_path / "x.jsonl").write_bytes(text.encode())
    pipeline = rs.jsonl(tmp_path / "x.jsonl")
    assert list(pipeline) == values
    assert len(pipeline) == len(values)


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b'{"a": 1}\n{"a" 2}\n', r"x.jsonl, line 2, column 6: Expecting ':'"),
        (b"1\n\n\n[1, 2\n", r"x.jsonl, line 4, column 6: Expecting"),
        (b'1\n"a\xff"\n', r"x.jsonl, line 2, column 3: not UTF-8"),
        (b"1 2\n", r"line 1, column 3: Extra data"),
        (b"   \n", r"line 1, column"),
    ],
)
def test_a_malformed_line_is_named_by_file_line_and_column(
    tmp_path: Path, data: bytes, place: str
) -> None:
    (tmp_path / "x.jsonl").write_bytes(data)
    with pytest.raises(rs.MalformedItem, match=place):
        list(rs.jsonl(tmp_path / "x.jsonl"))


def test_malformed_lines_are_skipped_and_counted_on_request(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('1\n{"\n2\nno\n\n3\n')
    pipeline = rs.jsonl(tmp_path / "x.jsonl", on_error="skip")
    with iter(pipeline) as iterator:
        assert list(itertools.islice(iterator, 2)) == [1, 2]
        assert iterator.get_state()["pipeline"]["dropped"] == 1
        state = iterator.get_state()
        assert list(iterator) == [3]
        assert iterator.get_state()["pipeline"]["dropped"] == 2
    assert list(pipeline.resume(state)) == [3]
    assert not pipeline.random_access


def test_a_byte_order_mark_is_no_part_of_the_first_value(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_bytes(b'\xef\xbb\xbf{"a": 1}\n2\n')
    assert list(rs.jsonl(tmp_path / "x.jsonl")) == [{"a": 1}, 2]


def test_deep_nesting_is_malformed_not_a_crash(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text("[" * 100_000 + "\n1\n")
    assert list(rs.jsonl(tmp_path / "x.jsonl", on_error="skip")) == [1]


def test_a_byte_order_mark_in_a_later_line_is_malformed(tmp_path: Path) -> None:
    path = tmp_path / "marked"
    path.write_bytes(b"1\n\xef\xbb\xbf2\n")
    with pytest.raises(rs.MalformedItem, match=r"marked, line 2"):
        list(rs.jsonl(path))
