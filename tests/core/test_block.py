"""Blocks: cut, joined and stacked without a change of value or dtype."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graphs import Point, columns
from hypothesis import given
from hypothesis import strategies as st

import resumable as rs
from resumable.core.block import (
    block_items,
    block_length,
    concatenate,
    slice_block,
    stack,
    take_rows,
    ungroup,
)
from resumable.testing.comparing import assert_same, same

BLOCKS: list[Any] = [
    list("abcdefg"),
    np.arange(7),
    np.arange(14, dtype=np.float16).reshape(7, 2),
    (np.arange(7), np.eye(7, dtype=np.float32)),
    Point(np.arange(7), np.arange(7) > 3),
    columns(7),
    {"nested": columns(7), "pair": (np.arange(7), np.arange(7.0))},
]


@pytest.mark.parametrize("block", BLOCKS, ids=str)
@given(st.data())
def test_cutting_and_joining_keeps_the_items(block: Any, data: st.DataObject) -> None:
    items = block_items(block)
    assert block_length(block) == len(items) == 7
    cut = data.draw(st.integers(0, 7))
    parts = [slice_block(block, 0, cut), slice_block(block, cut, 7)]
    assert_same(block_items(parts[0]), items[:cut], "slice")
    assert_same(block_items(concatenate(parts)), items, "concatenate")
    indices = data.draw(st.lists(st.integers(0, 6), min_size=1))
    taken = take_rows(block, np.array(indices))
    assert_same(block_items(taken), [items[index] for index in indices], "take")


@pytest.mark.parametrize("block", BLOCKS[1:], ids=str)
def test_stacking_the_items_of_columns_gives_the_columns(block: Any) -> None:
    assert same(stack(block_items(block)), block)


def test_taking_rows_copies() -> None:
    array = np.arange(6)
    take_rows(array, [0, 1]).fill(9)
    assert array.tolist() == [0, 1, 2, 3, 4, 5]


def test_blocks_of_different_kinds_join_as_a_list() -> None:
    joined = concatenate([np.arange(2), ["a"], np.arange(2.0)])
    assert_same(joined, [0, 1, "a", 0.0, 1.0], "mixed")
    assert concatenate([]) == []


def test_masked_blocks_join_and_come_apart_with_their_masks() -> None:
    blocks = [np.ma.array([1, 2], mask=[False, True]), np.ma.array([3], mask=[True])]
    items = concatenate(blocks)
    assert items[0] == 1
    assert [item is np.ma.masked for item in items] == [False, True, True]


def test_ungroup_brings_items_back_into_order() -> None:
    groups = np.array([2, 0, 2, 1, 0])
    items = np.array([20, 0, 21, 10, 1])
    blocks = [items[groups == number] for number in range(3)]
    assert ungroup(blocks, groups).tolist() == items.tolist()


@pytest.mark.parametrize(
    ("items", "stacked"),
    [
        ([1, 2], np.array([1, 2])),
        ([True, False], np.array([True, False])),
        ([1, 2.5], np.array([1.0, 2.5])),
        ([np.float32(1), np.float32(2)], np.array([1, 2], np.float32)),
        (["a", "b"], ["a", "b"]),
        ([None, 1], [None, 1]),
        ([1, None], [1, None]),
        ([1, "a"], [1, "a"]),
        ([2**70, 1], [2**70, 1]),
        ([[1], [2, 3]], [[1], [2, 3]]),
        ([b"x"], [b"x"]),
        ([{"a": 1}, {"a": 2}], {"a": np.array([1, 2])}),
        ([(1, "x"), (2, "y")], (np.array([1, 2]), ["x", "y"])),
        ([(), ()], [(), ()]),
    ],
)
def test_stack(items: list[Any], stacked: Any) -> None:
    assert same(stack(items), stacked)


@pytest.mark.parametrize(
    "items",
    [
        [np.zeros(2), np.zeros(3)],
        [{"a": 1}, {"b": 1}],
        [{"a": 1}, 3],
        [(1, 2), (1,)],
        [(1, 2), [1, 2]],
    ],
)
def test_what_cannot_be_stacked_is_refused_with_a_hint(items: list[Any]) -> None:
    with pytest.raises(rs.MalformedItem, match=r"cannot stack .*collate"):
        stack(items)
