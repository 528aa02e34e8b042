"""Blocks: cut, joined and stacked without a change of value or dtype."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from core.stacking import stacked_one_by_one
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import Point, columns

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
    items = np.array([20, 0, 21, 10, 1])
    order = np.array([1, 4, 3, 0, 2])
    blocks = [items[order[:2]], items[order[2:3]], items[order[3:]]]
    assert ungroup(blocks, order).tolist() == items.tolist()


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


class Pair(tuple[Any, ...]):
    """A tuple of one's own."""

    __slots__ = ()


class Odd(Pair):
    """One that counts its fields otherwise."""

    __slots__ = ()

    def __len__(self) -> int:
        return 2


LEAVES: list[Any] = [
    *(0, 1, -7, True, 2**53, 2**53 + 1, 2**62, 2**63, 2**64 - 1, 2**64, -(2**63)),
    *(0.5, -0.0, 1e300, float("inf"), float("nan"), 2.0**53, 1j, complex("nan")),
    *(None, "a", b"b", [], [1], [1, 2], object, np.ma.masked, np.str_("c"), np.datetime64(1, "s")),
    *(
        np.float32(1.5),
        np.float64(0.5),
        np.int64(2**60 + 1),
        np.int8(3),
        np.uint64(2**63),
        np.bool_(1),
    ),
    *(np.arange(2), np.arange(3), np.arange(2) * 2**54 + 1, np.arange(2, dtype=np.uint64)),
    *(np.arange(2.0), np.arange(2, dtype=np.float32), np.zeros((0,)), np.zeros((1, 2), np.float16)),
    *(np.ma.array([1, 2]), np.array(["x", "y"]), np.array([None, 1], object), np.array(5)),
]
KEYS = ["id", "other", 3, (1, 2), None]
LEAF = st.sampled_from(LEAVES)
WRAPPED = st.recursive(
    LEAF,
    lambda inner: st.one_of(
        st.dictionaries(st.sampled_from(KEYS), inner, max_size=3),
        st.dictionaries(st.sampled_from(KEYS), inner, max_size=2).map(OrderedDict),
        st.dictionaries(st.sampled_from(KEYS), inner, max_size=2).map(
            lambda fields: defaultdict(int, fields)
        ),
        st.lists(inner, max_size=3).map(tuple),
        st.lists(inner, max_size=3).map(Pair),
        st.tuples(inner, inner).map(lambda fields: Point(*fields)),
    ),
    max_leaves=4,
)


def like(model: Any) -> st.SearchStrategy[Any]:
    """Items that mostly go together with ``model``: the same fields, other leaves."""
    if isinstance(model, dict):
        same_keys = st.fixed_dictionaries({key: like(value) for key, value in model.items()})
        return same_keys.flatmap(lambda fields: st.permutations(list(fields.items())).map(dict))
    if isinstance(model, tuple):
        fields = st.tuples(*map(like, model))
        return fields.map(lambda values: Point(*values)) if isinstance(model, Point) else fields
    return st.just(model) | st.sampled_from([leaf for leaf in LEAVES if type(leaf) is type(model)])


def outcome(stacking: Callable[[list[Any]], Any], items: list[Any]) -> Any:
    """What comes of ``items``: a batch, or an error and its words."""
    with np.errstate(all="ignore"):
        try:
            return stacking(items)
        except Exception as error:
            return type(error), str(error)


def alike(left: Any, right: Any) -> bool:
    """The same, and what is not stacked is the very object."""
    if isinstance(left, (list, tuple)) and type(left) is type(right):
        return len(left) == len(right) and all(map(alike, left, right))
    if isinstance(left, dict) and type(left) is type(right):
        return list(left) == list(right) and all(alike(left[key], right[key]) for key in left)
    return left is right or same(left, right)


@given(st.data())
def test_a_batch_is_the_same_as_one_made_item_by_item(data: st.DataObject) -> None:
    model = data.draw(WRAPPED)
    items = [model, *data.draw(st.lists(like(model), max_size=4))]
    items += data.draw(st.lists(WRAPPED, max_size=1))
    items = data.draw(st.permutations(items))
    assert alike(outcome(stack, items), outcome(stacked_one_by_one, items)), items


@pytest.mark.parametrize(
    "items",
    [
        [{"a": 1, "b": 2}, {"a": 1, "c": 2}],
        [{"a": 1}, {"a": 1, "b": 2}],
        [{"a": 1, "b": 2}, {"a": 1}],
        [{"a": 1}, defaultdict(int)],
        [defaultdict(int, a=1), {"a": 2}],
        [{0: 1}, [5]],
        [{}, {"a": 1}],
        [{"a": 1}, {}],
        [{}, {}],
        [{"a": 1}, OrderedDict(a=2)],
        [{"a": 1, "b": 2.0}, {"b": 3.0, "a": 4}],
        [{"a": np.zeros(2), "b": 1}, {"a": np.zeros(3), "c": 1}],
        [(1, 2), (1, 2, 3)],
        [(1, 2), Point(3, 4)],
        [Point(1, 2), (3, 4)],
        [(1, 2), "ab"],
        [Odd((1, 2, 3)), Odd((1, 2, 3))],
        [Odd((1, 2)), Odd((1, 2, 3))],
        [np.arange(2), np.arange(2.0), np.array([0, 2**60 + 1])],
        [np.float32(1), np.int64(2**60 + 1)],
        [np.zeros(2), np.zeros(3)],
        [np.zeros(2), np.datetime64(1, "s")],
        [0.5, float("nan"), 2**53 + 1],
        [float("nan"), np.ma.masked],
        [1j, 2**53 + 1],
    ],
    ids=str,
)
def test_a_batch_of_what_goes_hardly_together_is_the_same_too(items: list[Any]) -> None:
    assert alike(outcome(stack, items), outcome(stacked_one_by_one, items))
