"""What a block is given to a function as, and what a batch of it is, depend on its items alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import Point, any_dtype, columns, stream, texts

import resumable as rs
from resumable.core.block import block_items, columns_of, concatenate, slice_block, without_rows
from resumable.core.layout import INTEGERS, LISTS, STACKED, ColumnsLike, Layout, common_layout
from resumable.testing.comparing import assert_same, same
from resumable.testing.samples import Counter

COUNT = 17
COLUMNS: dict[str, Any] = {
    **any_dtype(COUNT),
    "point": Point(np.arange(COUNT), np.eye(COUNT)),
    "nested": {"all": any_dtype(COUNT), "pair": (np.arange(COUNT), texts()[:COUNT])},
    "no elements": np.empty((COUNT, 0), ">c8"),
    "unsigned": np.arange(2**64 - COUNT, 2**64, dtype=np.uint64),
    "not numbers": np.full(COUNT, np.nan, ">f4"),
    "no times": np.full(COUNT, "NaT", "M8"),
    "foreign texts": texts()[:COUNT].astype(">U9"),
    "foreign records": np.zeros((COUNT, 2), [("a", ">i2")]),
}
ANY_COLUMNS = st.sampled_from(list(COLUMNS)).map(COLUMNS.__getitem__)
CUTS = st.tuples(st.integers(0, COUNT), st.integers(0, COUNT)).map(sorted)


@given(ANY_COLUMNS, CUTS)
def test_rows_become_the_columns_that_they_were_taken_from(rows: Any, cut: list[int]) -> None:
    part = slice_block(rows, *cut)
    assert same(columns_of(block_items(part), without_rows(rows)), part)


@given(ANY_COLUMNS, CUTS)
def test_columns_that_are_joined_keep_their_dtypes(rows: Any, cut: list[int]) -> None:
    first, last = cut
    parts = [slice_block(rows, *ends) for ends in ((0, first), (first, last), (last, COUNT))]
    assert same(concatenate(parts), rows)


@given(
    st.sampled_from(["columns", "lists", "stacked"]),
    ANY_COLUMNS,
    st.lists(st.booleans(), min_size=3, max_size=3),
    CUTS,
)
def test_a_block_and_a_batch_depend_on_the_items_and_not_on_how_they_were_moved(
    kind: str, rows: Any, listed: list[bool], cut: list[int]
) -> None:
    layout = {"columns": ColumnsLike(rows), "lists": LISTS, "stacked": STACKED}[kind]
    first, last = cut
    parts = [slice_block(rows, *ends) for ends in ((0, first), (first, last), (last, COUNT))]
    moved = concatenate(
        [block_items(part) if single else part for part, single in zip(parts, listed, strict=True)]
    )
    assert same(made_of(layout, moved), made_of(layout, block_items(rows)))


def made_of(layout: Layout, moved: Any) -> Any:
    """What the layout makes of a block, or the error; some objects are of no common shape."""
    try:
        return layout.block(moved), layout.batch(moved), list(layout.batches(iter([moved])))
    except (ValueError, rs.MalformedItem) as error:
        return str(error)


def test_columns_are_not_copied() -> None:
    rows = columns()
    assert ColumnsLike(rows).block(rows) is ColumnsLike(rows).batch(rows) is rows
    assert LISTS.batch(rows) is STACKED.block(rows) is rows


def test_rows_of_several_packs_that_cannot_be_stacked_stay_a_list() -> None:
    documents = rs.from_sequence([{"tokens": [1, 2]}, {"tokens": [3]}])
    one, other = (documents.pack(length, group=1) for length in (2, 3))
    for joined in (rs.interleave(one, other), rs.mix(one, other)):
        with iter(joined) as iterator:
            moved = iterator.pull(4)
        assert isinstance(moved, list)
        assert same(moved, list(joined))
        groups = joined.map_batches(lambda group: [len(group)], batch_size=2)
        assert list(groups) == [2, 2]
    with iter(rs.interleave(one, one)) as iterator:
        assert isinstance(iterator.pull(4), dict)


KEPT: dict[str, Any] = {
    "take": lambda p: p.take(9),
    "skip": lambda p: p.skip(3),
    "filter": lambda p: p.filter(lambda row: True),
    "take_while": lambda p: p.take_while(lambda row: True),
    "shuffle": lambda p: p.shuffle(1),
    "shuffle in a window": lambda p: p.shuffle(1, window=4),
    "shuffle carried": lambda p: p.shuffle(1, window=4, carry=True),
    "repeat": lambda p: p.repeat(2),
    "shard": lambda p: p.shard(0, 2),
    "shard of a stream": lambda p: p.filter(lambda row: True).shard(0, 2),
    "partition": lambda p: p.partition(3, lambda part: part.filter(lambda row: True)),
    "partition of a rank": lambda p: p.partition(3, lambda part: part).shard(1, 2),
    "cache": lambda p: p.cache(),
    "prefetch": lambda p: p.prefetch(2),
    "mix": lambda p: rs.mix(p, p),
    "concatenate": lambda p: rs.concatenate(p, p),
    "interleave": lambda p: rs.interleave(p, p),
    "unbatch": lambda p: p.batch(4).shuffle(1).unbatch(),
    "windows": lambda p: p.window(4, shift=2).unbatch(),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_chooses_orders_and_joins_items_keeps_their_columns(name: str) -> None:
    rows = any_dtype()
    del rows["objects"]  # of lists among them no array can be made
    blocks = list(KEPT[name](rs.from_arrays(rows)).map_batches(lambda block: [block], 4))
    assert blocks
    for block in blocks:
        assert same(without_rows(block), without_rows(rows))


def test_items_that_a_function_made_are_a_list_and_so_are_those_of_unlike_inputs() -> None:
    lists: list[rs.Pipeline[Any]] = [
        rs.range(9).map(abs),
        rs.range(9).random_map(lambda item, rng: item),
        rs.range(9).scan(lambda carry, item: (carry, item), 0),
        rs.range(9).flat_map(lambda item: np.arange(item)),
        rs.range(9).map_batches(lambda block: block, 2),
        rs.range(9).batch(2, collate=np.asarray).unbatch(),
        rs.from_sequence(list(np.eye(3))),
        rs.from_iterable(Counter(9)),
        rs.mix(rs.range(9), rs.from_arrays(np.arange(9, dtype=np.int32))),
        rs.interleave(rs.from_arrays({"x": np.eye(9), "y": np.eye(9)}), rs.from_arrays({"y": np.eye(9), "x": np.eye(9)})),
        rs.concatenate(rs.from_arrays(texts(5)), rs.from_arrays(texts(7))),
        rs.zip(rs.range(9), stream(9)),
        stream(9).enumerate(),
    ]  # fmt: skip
    for pipeline in lists:
        assert all(type(block) is list for block in pipeline.map_batches(lambda block: [block], 4))
        with pipeline.start() as iterator:
            assert type(iterator.pull(4)) is list


def test_tuples_and_dicts_of_columns_are_columns() -> None:
    zipped = rs.zip({"n": rs.range(9), "t": rs.from_arrays(texts()).prefetch(2).enumerate()})
    (block, *_) = zipped.prefetch(2).map_batches(lambda block: [block], 4)
    assert_same([block], [{"n": np.arange(4), "t": (np.arange(4), texts()[:4])}], "zip")


def test_rows_of_packs_are_stacked_unless_they_differ_in_length() -> None:
    documents = rs.from_sequence([[1, 2], [3], [4, 5, 6]])
    for pipeline in (documents.pack(4), documents.pack(2, how="concatenate").prefetch(2)):
        blocks = list(pipeline.map_batches(lambda block: [block], 9))
        assert type(blocks[0]) is dict
    (block,) = documents.pack(4, tail="short").map_batches(lambda block: [block], 9)
    assert type(block) is list


def test_pulls_and_gathers_of_users_do_not_depend_on_how_items_move() -> None:
    rows = rs.from_arrays(texts())
    for pipeline in (rows, rows.prefetch(2), rows.cache(), rows.shuffle(0, window=1)):
        with pipeline.start() as iterator:
            assert_same([iterator.pull(3)], [texts()[:3]], "pull")
            assert_same([iterator.pull(0)], [texts()[:0]], "pull")
    assert_same([rows.cache().gather(np.array([3, 1]))], [texts()[[3, 1]]], "gather")
    assert_same([rows.gather(np.empty(0, np.int64))], [texts()[:0]], "gather")


def test_inputs_have_a_common_layout_where_all_agree() -> None:
    assert common_layout([INTEGERS, ColumnsLike(np.arange(3))]) is INTEGERS
    assert common_layout([INTEGERS, ColumnsLike(np.arange(3, dtype=">i8"))]) is LISTS
    assert common_layout([INTEGERS, ColumnsLike(np.eye(3, dtype=np.int64))]) is LISTS
    assert common_layout([STACKED, STACKED]) is STACKED
    assert common_layout([STACKED, INTEGERS]) is LISTS
