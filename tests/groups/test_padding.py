"""Ragged arrays are padded, and nothing of them is lost or changed."""

from __future__ import annotations

import math
import pickle
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import resumable as rs


class Pair(NamedTuple):
    text: Any
    label: Any


@given(
    st.lists(st.lists(st.integers(-9, 9), max_size=6), min_size=1, max_size=6),
    st.sampled_from(["left", "right"]),
    st.none() | st.integers(1, 4),
)
def test_what_is_not_padding_is_what_came_in(
    items: list[list[int]], side: str, multiple_of: int | None
) -> None:
    padded = rs.padded(-1, multiple_of=multiple_of, side=side, mask="mask")
    filled, mask = padded(items)
    longest = max(map(len, items))
    assert filled.shape[1] == -(-longest // (multiple_of or 1)) * (multiple_of or 1)
    assert [row[kept].tolist() for row, kept in zip(filled, mask, strict=True)] == items
    assert (filled[~mask] == -1).all()
    for kept, item in zip(mask, items, strict=True):
        edge = kept[: len(item)] if side == "right" else kept[len(kept) - len(item) :]
        assert edge.all()


def test_further_axes_and_dtypes_are_kept() -> None:
    items = [np.ones((2, 3), np.float32), np.ones((0, 3), np.float32), np.ones((1, 3), np.float32)]
    filled = rs.padded(np.nan)(items)
    assert (filled.shape, filled.dtype) == ((3, 2, 3), np.float32)
    assert np.isnan(filled).sum() == 9
    assert rs.padded()([np.ones(2, np.uint8), np.ones(1, np.int16)]).dtype == np.int16
    assert rs.padded()([[], [1]]).dtype == np.int64
    assert rs.padded()([[2**53, -(2**53)], [0.5]])[0].tolist() == [2**53, -(2**53)]
    assert rs.padded()([[], [2**63 - 1]])[1, 0] == 2**63 - 1
    assert rs.padded(False)([[True], []]).dtype == np.bool_


def test_fields_of_dicts_and_tuples_are_padded_each_with_its_value() -> None:
    items = [{"a": [1, 2], "b": [1], "name": "x"}, {"a": [3], "b": [], "name": "y"}]
    batch = rs.padded({"a": 7})(items)
    assert batch["a"].tolist() == [[1, 2], [3, 7]]
    assert batch["b"].tolist() == [[1], [0]]
    assert batch["name"] == ["x", "y"]
    pair = rs.padded(9)([Pair([1], 2), Pair([1, 2], 3)])
    assert type(pair) is Pair
    assert pair.text.tolist() == [[1, 9], [1, 2]]
    assert pair.label.tolist() == [2, 3]
    text, label, mask = rs.padded(mask="mask")([([1], 2), ([1, 2], 3)])
    assert mask.tolist() == [[True, False], [True, True]]
    assert (text.shape, label.tolist()) == ((2, 2), [2, 3])


def test_a_fixed_length() -> None:
    assert rs.padded(length=4)([[1], [2, 3]]).shape == (2, 4)
    with pytest.raises(rs.MalformedItem, match=r"at most length=2, got 3 \(item 1 of the batch\)"):
        rs.padded(length=2)([[1], [2, 3, 4]])


def test_it_can_be_pickled_and_used_by_processes() -> None:
    padded = rs.padded({"a": 1}, multiple_of=4, mask="m")
    again = pickle.loads(pickle.dumps(padded))
    assert again == padded
    assert again([{"a": [2]}])["a"].tolist() == [[2, 1, 1, 1]]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"value": "x"}, "value must be a number, got 'x'"),
        ({"value": {"a": None}}, r"value\['a'\] must be a number, got None"),
        ({"length": 0}, "length must be at least 1"),
        ({"multiple_of": 0}, "multiple_of must be at least 1"),
        ({"length": 5, "multiple_of": 2}, "length must be a multiple of multiple_of=2, got 5"),
        ({"side": "both"}, "side must be one of 'right', 'left'"),
        ({"mask": 1}, "mask must be a string or None"),
    ],
)
def test_bad_arguments_are_refused(options: dict[str, Any], match: str) -> None:
    with pytest.raises((rs.InvalidArgument, rs.InvalidType), match=match):
        rs.padded(**options)


@pytest.mark.parametrize(
    ("options", "items", "match"),
    [
        (
            {"value": 300},
            [np.ones(1, np.uint8), np.ones(2, np.uint8)],
            "value must fit uint8, got 300",
        ),
        ({"value": 0.5}, [[1], [1, 2]], "value must fit int64, got 0.5"),
        (
            {"value": 10**30},
            [[1], [1, 2]],
            "value must fit int64, got 1000000000000000000000000000000",
        ),
        ({"value": math.nan}, [[1], [1, 2]], "value must fit int64, got nan"),
        ({"value": 1j}, [[1.0], [1.0, 2.0]], "value must fit float64, got 1j"),
        ({"value": complex(math.nan, 1)}, [[1.0], [1.0, 2.0]], "value must fit float64"),
        (
            {"value": 1e300},
            [np.ones(1, np.float32), np.ones(2, np.float32)],
            "value must fit float32",
        ),
        (
            {},
            [np.ones((1, 2)), np.ones((1, 3))],
            r"one shape behind the first axis, got \[\(2,\), \(3,\)\]",
        ),
        ({}, [{"a": [1]}, {"b": [1]}], r"must have the fields \['a'\]"),
        ({}, [np.ma.array([1, 9], mask=[False, True]), np.ones(1)], "cannot pad masked arrays"),
        ({}, [{"a": [1]}, {"a": np.ma.array([9], mask=[True])}], "cannot pad masked arrays"),
        ({}, [[2**53 + 1], [0.5, 1.5]], "one dtype holds exactly, got float64 and int64 with"),
        ({}, [[-(2**53) - 1], [0.5j]], "one dtype holds exactly, got complex128 and int64 with"),
        (
            {},
            [np.array([2**63 + 1], np.uint64), np.array([-1], np.int64)],
            "one dtype holds exactly, got int64 and uint64 with",
        ),
        ({}, [([1],), ([1], 2)], "must be tuples of 1 fields"),
        ({"mask": "a"}, [{"a": [1]}], "mask must be no field of the items, got 'a'"),
        ({"mask": "m"}, [{"a": 1}], "mask needs a field that is padded, got none"),
        ({"mask": "m"}, [{"a": [1], "b": [1, 2]}], "fields of one length in each item"),
    ],
)
def test_items_that_cannot_be_padded_are_refused(
    options: dict[str, Any], items: list[Any], match: str
) -> None:
    with pytest.raises(rs.MalformedItem, match=match):
        rs.padded(**options)(items)
