"""JSON lines: values, and the place of what is malformed."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import resumable as rs
from resumable.formats import jsonl
from resumable.formats.record import LocatedRecord

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
        (b"1\n \t\n", r"line 2, column 3: spaces alone, and only empty lines are left out"),
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


def parsed(data: bytes) -> str:
    """The value of a line, to its types and bits, or the error."""
    try:
        return repr(jsonl.parse_json_line(LocatedRecord(data, "x.jsonl", 2)))
    except rs.MalformedItem as error:
        return f"MalformedItem: {error}"


def parsed_by_the_standard_library(data: bytes) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jsonl, "_quick", None)
        return parsed(data)


@pytest.fixture(scope="module")
def orjson() -> Any:
    return pytest.importorskip("orjson")


NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.sampled_from([-(2**63), 2**63, 2**64, 10**19, 10**18]).flatmap(
        lambda edge: st.integers(edge - 2, edge + 2).map(str)
    ),
    st.floats().map(repr),
    st.from_regex(r"-?[0-9]{1,25}([.][0-9]{1,25})?([eE][+-]?[0-9]{1,3})?", fullmatch=True),
)
TOKENS = st.one_of(
    NUMBERS.map(str.encode),
    st.text().map(lambda text: json.dumps(text).encode()),
    st.text().map(
        lambda text: json.dumps(text, ensure_ascii=False).encode("utf-8", "surrogatepass")
    ),
    st.sampled_from([b"[", b"]", b"{", b"}", b",", b":", b'"a":', b" ", b"\t", b"\r", b"\x0c"]),
    st.sampled_from([b"null", b"true", b"NaN", b"Infinity", b"-Infinity", b"-0", b"-0.0", b"-"]),
    st.sampled_from([b"01", b"1.", rb'"\ud800"', rb'"\udc00\ud800"', rb'"\ud83d\ude00"']),
    st.sampled_from([rb'"\u0000"', b'"\x01"', b'"\xff"', b"\xef\xbb\xbf"]),
)
WRITTEN = st.recursive(
    TOKENS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda parts: b"[" + b", ".join(parts) + b"]"),
        st.lists(st.tuples(st.sampled_from([b'"a":', b'"b" : ', b'"":']), inner), max_size=4).map(
            lambda pairs: b"{" + b",".join(key + value for key, value in pairs) + b"}"
        ),
    ),
)


@example(b"18446744073709551616")
@example(b"[-9223372036854775809]")
@given(WRITTEN | st.lists(TOKENS, max_size=6).map(b"".join) | st.binary(max_size=20))
def test_any_bytes_are_the_same_to_orjson_and_to_the_standard_library(
    orjson: Any, data: bytes
) -> None:
    assert parsed(data) == parsed_by_the_standard_library(data)


@pytest.mark.parametrize("depth", [1, 499, 500, 800, 1024, 1025, 100_000])
@pytest.mark.parametrize(("opened", "closed"), [(b"[", b"]"), (b'{"a":[', b"]}")])
def test_any_depth_is_the_same_to_orjson_and_to_the_standard_library(
    orjson: Any, opened: bytes, closed: bytes, depth: int
) -> None:
    data = opened * depth + closed * depth
    assert parsed(data) == parsed_by_the_standard_library(data)


def test_orjson_reads_what_is_plain(orjson: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(text: str) -> None:
        raise AssertionError

    monkeypatch.setattr(json, "loads", refuse)
    for value in ([1, -0.25, 123456789012345678, "é", None, {"a": [True]}], "x" * 5000):
        assert parsed(orjson.dumps(value)) == repr(value)


def test_lines_are_read_without_orjson(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "_quick", None)
    (tmp_path / "x.jsonl").write_text('{"a": [1, 2.5]}\n')
    assert list(rs.jsonl(tmp_path / "x.jsonl")) == [{"a": [1, 2.5]}]
