"""States as bytes: exact, and refused where they cannot be."""

from __future__ import annotations

import math
from collections import OrderedDict, namedtuple
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws import same

import resumable as rs
from resumable.state import MAGIC, compare_fingerprints

DTYPES = ["?", "<i1", "<u2", ">i4", "<i8", "<u8", "<f2", "<f4", ">f8", "<c8", "<c16"]
PLAIN = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.complex_numbers()
    | st.text(st.characters(exclude_categories=[]))
    | st.binary()
    | st.sampled_from(DTYPES).map(lambda code: np.arange(6).astype(code).reshape(3, 2))
    | st.sampled_from(DTYPES).map(lambda code: np.arange(2).astype(code)[1])
    | st.sampled_from(DTYPES).map(lambda code: np.zeros((2, 0, 3), code))
)
VALUES = st.recursive(
    PLAIN,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.text(max_size=8), VALUES, max_size=5))
def test_a_state_survives_its_bytes(state: dict[str, Any]) -> None:
    data = rs.dumps(state)
    assert same(rs.loads(data), state)
    assert rs.dumps(rs.loads(data)) == data


REFUSED = {
    "set": {1, 2},
    "object": object(),
    "named tuple": namedtuple("Pair", "a b")(1, 2),  # noqa: PYI024
    "ordered dict": OrderedDict(a=1),
    "object array": np.array([object()]),
    "text array": np.array(["a"]),
    "dates": np.array(["2020-01-01"], "M8[D]"),
    "records": np.zeros(2, "i4,f4"),
    "function": len,
    "int key": {1: 2},
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_exact_form_is_refused_with_its_place(name: str) -> None:
    with pytest.raises(rs.UnencodableState, match=r"state\['outer'\]\[1\]"):
        rs.dumps({"outer": [0, REFUSED[name]]})


def test_a_cycle_is_refused() -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    with pytest.raises(rs.UnencodableState, match="nested deeper"):
        rs.dumps({"cycle": cycle})


@given(st.binary(max_size=200))
def test_any_bytes_give_a_state_or_one_error(data: bytes) -> None:
    for candidate in (data, MAGIC + data):
        try:
            state = rs.loads(candidate)
        except rs.CorruptCheckpoint:
            continue
        assert isinstance(state, dict)


def test_every_cut_and_every_appended_byte_is_refused() -> None:
    with iter(rs.range(9).shuffle(0).batch(2)) as iterator:
        data = rs.dumps(iterator.get_state())
    for size in range(len(data)):
        with pytest.raises(rs.CorruptCheckpoint):
            rs.loads(data[:size])
    with pytest.raises(rs.CorruptCheckpoint):
        rs.loads(data + b"\x00")


@pytest.mark.parametrize(
    "data",
    [
        MAGIC + b"\x82\xa1a\x01\xa1a\x02",  # one key twice
        MAGIC + b"\x91" * 5000,  # nested deeply
        MAGIC + b"\xdf\xff\xff\xff\xff",  # a dict said to have 2**32 - 1 entries
        MAGIC + b"\x81\x01\x02",  # a key that is no string
        MAGIC + b"\x81\xa1a\xd4\x63\x00",  # an unknown extension
        MAGIC + b"\x81\xa1a\xc7\x09\x03\x93\xa2|O\x91\x01\xc4\x01a",  # an array of objects
        "text",
        None,
    ],
)
def test_hostile_bytes_are_refused(data: Any) -> None:
    with pytest.raises(rs.CorruptCheckpoint):
        rs.loads(data)


def test_a_fingerprint_that_cannot_be_read_is_a_mismatch() -> None:
    current = rs.range(3).fingerprint
    assert compare_fingerprints(current, current) is None
    for saved in (None, 3, "", "[", "[" * 5000, "{}", "[1]", '["Range",3]', '["Other",{}]'):
        reason = compare_fingerprints(saved, current)
        assert reason


def test_a_field_added_later_with_a_default_keeps_old_states_readable() -> None:
    assert rs.range(5).fingerprint == '["Range",{"stop":5}]'
    assert rs.range(5).shuffle(3).fingerprint == '["Shuffle",{"seed":3},["Range",{"stop":5}]]'
    assert rs.range(5).map(abs).fingerprint == '["Map",["Range",{"stop":5}]]'


def test_prefetch_and_workers_are_no_part_of_a_fingerprint() -> None:
    plain = rs.range(5).map(abs).batch(2)
    tuned = rs.range(5).prefetch(1).map(abs, workers=3).batch(4).prefetch(9)
    assert plain.fingerprint == tuned.fingerprint


def test_nan_is_kept() -> None:
    assert math.isnan(rs.loads(rs.dumps({"value": math.nan}))["value"])
