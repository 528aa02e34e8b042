"""Decoders give what other libraries wrote, and refuse anything else with one kind of error."""

from __future__ import annotations

import contextlib
import io
import json
import struct
import sys
import tracemalloc
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import resumable as rs

DTYPES = st.one_of(
    hnp.scalar_dtypes(),
    hnp.unicode_string_dtypes(min_len=1),
    st.dictionaries(st.sampled_from("abcé"), hnp.scalar_dtypes(), min_size=1).map(
        lambda fields: np.dtype(list(fields.items()))
    ),
)


def saved(array: Any, **options: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


def npy_file(header: str, data: bytes = b"", version: bytes = b"\1\0") -> bytes:
    text = header.encode() + b"\n"
    size = struct.pack("<H" if version == b"\1\0" else "<I", len(text))
    return b"\x93NUMPY" + version + size + text + data


@given(st.text())
def test_text_comes_back(text: str) -> None:
    try:
        assert rs.decoders.text(text.encode()) == text
    except UnicodeEncodeError:
        with pytest.raises(rs.MalformedItem, match=r"not UTF-8: .* at byte"):
            rs.decoders.text(text.encode("utf-8", "surrogatepass"))


@given(st.recursive(st.none() | st.integers() | st.text("aж"), st.lists, max_leaves=5))
def test_json_comes_back(value: Any) -> None:
    assert rs.decoders.json(json.dumps(value, ensure_ascii=False).encode()) == value


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "line 1, column 1: Expecting value"),
        (b"{\n1", "line 2, column 1: Expecting property name"),
        (b"\xff", "not UTF-8: invalid start byte at byte 1"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_not_json_is_malformed(data: bytes, reason: str) -> None:
    with pytest.raises(rs.MalformedItem, match=reason):
        rs.decoders.json(data)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="such integers are read")
def test_an_integer_that_is_too_long_is_malformed() -> None:
    with pytest.raises(rs.MalformedItem, match=r"not JSON: .*digits"):
        rs.decoders.json(b"1" * 10_000)


@given(hnp.arrays(DTYPES, hnp.array_shapes(min_dims=0, min_side=0)), st.booleans())
def test_arrays_come_back(array: npt.NDArray[Any], by_column: bool) -> None:
    array = np.asfortranarray(array) if by_column else array
    found = rs.decoders.npy(saved(array))
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    assert found.tobytes() == array.tobytes()
    assert found.flags.writeable
    assert found.flags.f_contiguous == array.flags.f_contiguous


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x93NUMPY",
        saved(np.arange(9))[:-1],
        saved(np.arange(9)) + b"\0",
        saved(np.array([None]), allow_pickle=True),
        npy_file("{'descr': '<f8', 'fortran_order': False, 'shape': (100000000000,)}"),
        npy_file("{'descr': '<f8', 'fortran_order': False, 'shape': (-1, -1)}", b"12345678"),
        npy_file("{'descr': '|V0', 'fortran_order': False, 'shape': (1000000000000000,)}"),
        npy_file("{'descr': '<f8', 'fortran_order': False, 'shape': (10000000000, 0)}", b"1"),
        npy_file("{'descr': '<f8', 'fortran_order': False, 'shape': (0,) * 3}"),
        npy_file("(" * 5000),
        npy_file("-" * 9000 + "1"),
        npy_file("{'descr': '<f8', 'fortran_order': False, 'shape': (1,)}", b"12345678", b"\3\0"),
        npy_file("__import__('os').abort()"),
    ],
)
def test_what_is_no_array_is_malformed_and_takes_no_memory(data: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(rs.MalformedItem, match="not an array"):
            rs.decoders.npy(data)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


@given(st.data())
def test_damaged_arrays_are_malformed_or_arrays(data: st.DataObject) -> None:
    damaged = bytearray(saved(np.arange(6.0).reshape(2, 3)))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(rs.MalformedItem):
        assert rs.decoders.npy(bytes(damaged)).nbytes == 48


def test_without_pillow_an_image_is_refused_with_the_name_of_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(rs.MissingDependency, match=r"resumable-loader\[images\]"):
        rs.decoders.image(b"")
