"""Permutations of whole blocks: bijective, few blocks at a time, published."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from order.test_permutation import chi_square_limit
from support.tiers import is_deep

import resumable as rs
from resumable.order.block_permutation import GROUP_BLOCKS, GROUP_ITEMS, BlockPermutation
from resumable.order.block_permutation import block_permutation as permutation
from resumable.order.random_bits import derive

GOLDEN = Path(__file__).parents[1] / "golden" / "block_orders.json"


def whole(length: int, block: int, seed: int = 0) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return BlockPermutation(length, block, derive(seed, 0))(np.arange(length))


@pytest.mark.parametrize("block", [1, 2, 3, 7, 127, 128, 129, 300, 1000])
def test_it_is_bijective_for_every_small_length(block: int) -> None:
    for length in range(1, 5001, 1 if is_deep() else 53):
        counts = np.bincount(whole(length, block, length), minlength=length)
        assert (counts == 1).all(), length
        assert len(counts) == length


@given(st.integers(1, 2**62), st.integers(1, 2**62), st.integers(0, 2**64 - 1), st.data())
def test_it_stays_within_any_length_and_keeps_indices_apart(
    length: int, block: int, seed: int, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, length - 1))
    indices = np.arange(start, min(start + 500, length))
    order = BlockPermutation(length, block, derive(seed, 0))(indices)
    assert order.dtype == np.int64
    assert 0 <= order.min() <= order.max() < length
    assert len(np.unique(order)) == len(indices)
    assert (indices == np.arange(start, min(start + 500, length))).all(), "it wrote to its input"


@pytest.mark.parametrize(("length", "block"), [(10_000, 130), (50_001, 1000), (9_999, 4), (700, 9)])
def test_each_group_of_items_is_made_of_whole_blocks(length: int, block: int) -> None:
    blocks = whole(length, block) // block
    in_group = max(GROUP_BLOCKS, -(-GROUP_ITEMS // block))
    begin = 0
    while begin < length:
        end = begin + in_group * block
        if -(-length // block) - 1 in blocks[begin:end]:  # the last block may be short
            end -= -length % block
        group = set(blocks[begin:end].tolist())
        assert len(group) <= in_group
        assert not group & set(blocks[end:].tolist()), "a block of a group comes again"
        begin = end


def test_the_items_of_a_group_are_torn_apart() -> None:
    order = whole(80_000, 1000)
    blocks = order[:8000] // 1000
    assert len(set(blocks[:64].tolist())) == GROUP_BLOCKS
    assert (np.diff(order) == 1).mean() < 0.01


def test_blocks_land_anywhere_with_equal_probability() -> None:
    length, block, runs = 1230, 10, 400  # 123 blocks, so two groups
    table = np.zeros((16, 16))
    places = np.arange(length) * 16 // length
    for seed in range(runs):
        # One item of each block, since those of a block keep together.
        order = whole(length, block, seed)
        first = order % block == 0
        np.add.at(table, (places[first], order[first] * 16 // length), 1)
    expected = np.outer(table.sum(1), table.sum(0)) / table.sum()
    assert ((table - expected) ** 2 / expected).sum() < chi_square_limit(15 * 15)


def test_a_short_block_comes_anywhere() -> None:
    firsts = {int(np.flatnonzero(whole(10_003, 1000, seed) >= 10_000)[0]) for seed in range(60)}
    assert min(firsts) < 1000
    assert max(firsts) > 8000


def test_epochs_seeds_and_sizes_of_blocks_have_orders_of_their_own() -> None:
    indices = np.arange(3000)
    orders = {
        permutation(3000, block, seed, epoch)(indices).tobytes()
        for block in (10, 11)
        for seed in range(4)
        for epoch in range(4)
    }
    assert len(orders) == 32


@given(st.integers(1, 3000), st.integers(1, 400), st.integers(1, 7), st.data())
def test_a_shuffle_in_blocks_goes_on_with_other_ranks(
    length: int, block: int, ranks: int, data: st.DataObject
) -> None:
    pipeline = rs.range(length).shuffle(3, block=block).repeat(2)
    rounds = data.draw(st.integers(0, min(length // 2, 50)))
    seen, state = [], None
    for rank in range(2):
        with iter(pipeline.shard(rank, 2, uneven="keep")) as iterator:
            seen += [next(iterator) for _ in range(rounds)]
            state = rs.loads(rs.dumps(iterator.get_state()))
    assert state is not None
    for rank in range(ranks):
        seen += pipeline.shard(rank, ranks, uneven="keep").resume(state)
    assert sorted(seen) == sorted([*range(length)] * 2)


def test_a_state_of_another_size_of_blocks_is_refused() -> None:
    state = rs.range(99).shuffle(3, block=8).start().get_state()
    with pytest.raises(rs.StateMismatch, match="block"):
        rs.range(99).shuffle(3, block=9).resume(state)
    with pytest.raises(rs.StateMismatch, match="block"):
        rs.range(99).shuffle(3).resume(state)


def test_published_orders_never_change() -> None:
    for entry in json.loads(GOLDEN.read_text()):
        order = permutation(entry["length"], entry["block"], entry["seed"], entry["epoch"])
        assert order(np.array(entry["indices"], np.int64)).tolist() == entry["order"], entry


@given(st.integers(1, 2**62) | st.integers(1, 9000), st.integers(1, 5000), st.data())
def test_the_inverse_leads_back(length: int, block: int, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, length - 1))
    indices = np.arange(start, min(start + 300, length))
    order = BlockPermutation(length, block, derive(1, 0))
    assert (order.inverse(order(indices)) == indices).all()
    assert (order(order.inverse(indices)) == indices).all()
