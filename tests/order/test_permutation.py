"""Permutations and random numbers: bijective, uniform, published."""

from __future__ import annotations

import json
import math
from collections import Counter
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.tiers import thinned

from resumable.order.permutation import FEW, Permutation, permutation
from resumable.order.random_bits import derive, generator, random_below

SEEDS = (0, 1, 2**63 + 11)
GOLDEN = Path(__file__).parents[1] / "golden" / "orders.json"


def is_bijective(length: int, seed: int) -> bool:
    order = Permutation(length, derive(seed, 0))(np.arange(length))
    return bool((np.bincount(order, minlength=length) == 1).all()) and len(order) == length


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("start", range(1, 5001, 1000))
def test_the_permutation_is_bijective_for_every_small_length(start: int, seed: int) -> None:
    lengths = thinned(range(start, start + 1000), 40, (start, seed))
    assert all(is_bijective(length, seed) for length in lengths)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("bits", range(1, 21))
def test_the_permutation_is_bijective_around_powers_of_two(bits: int, seed: int) -> None:
    assert all(is_bijective(2**bits + offset, seed) for offset in (-1, 0, 1))


@given(st.integers(4097, 2**62), st.integers(0, 2**64 - 1), st.data())
def test_the_permutation_stays_within_any_length_and_keeps_indices_apart(
    length: int, seed: int, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, length - 1))
    indices = np.arange(start, min(start + 500, length))
    order = Permutation(length, derive(seed, 0))(indices)
    assert order.dtype == np.int64
    assert order.min() >= 0
    assert order.max() < length
    assert len(np.unique(order)) == len(indices)
    assert (indices == np.arange(start, min(start + 500, length))).all(), "it wrote to its input"


@given(st.integers(4097, 2**62), st.integers(0, 2**64 - 1), st.data())
def test_few_indices_are_permuted_as_many_are(length: int, seed: int, data: st.DataObject) -> None:
    order = Permutation(length, derive(seed, 0))
    few = data.draw(st.lists(st.integers(0, length - 1), min_size=1, max_size=FEW))
    many = np.array(few * (FEW + 1), np.int64)
    assert order(np.array(few, np.int64)).tolist() == order(many).tolist()[: len(few)]


@pytest.mark.parametrize("length", [4097, 5000])
def test_few_at_a_time_make_the_whole_permutation(length: int) -> None:
    order = Permutation(length, derive(1, 0))
    indices = np.arange(length)
    parts = [order(indices[start : start + FEW]) for start in range(0, length, FEW)]
    assert np.concatenate(parts).tolist() == order(indices).tolist()


def chi_square_limit(degrees: int) -> float:
    """A value that chi-square exceeds once in about ten million times (Wilson and Hilferty)."""
    return float(degrees * (1 - 2 / (9 * degrees) + 5.2 * math.sqrt(2 / (9 * degrees))) ** 3)


@pytest.mark.parametrize("length", [2, 3, 4, 5])
def test_every_permutation_of_few_items_is_equally_likely(length: int) -> None:
    kinds, runs = math.factorial(length), 200 * math.factorial(length)
    counts = Counter(
        tuple(Permutation(length, derive(seed, 0))(np.arange(length)).tolist())
        for seed in range(runs)
    )
    assert set(counts) == set(permutations(range(length)))
    statistic = sum((count - 200) ** 2 / 200 for count in counts.values())
    assert statistic < chi_square_limit(kinds - 1)


@pytest.mark.parametrize("length", [1000, 4097, 100_000])
def test_items_land_anywhere_with_equal_probability(length: int) -> None:
    cells, runs = 16, 300
    counts = np.zeros(cells * cells, np.int64)
    places = np.arange(length) * cells // length
    for seed in range(runs):
        order = Permutation(length, derive(seed, 0))(np.arange(length))
        counts += np.bincount(places * cells + order * cells // length, minlength=cells * cells)
    table = counts.reshape(cells, cells)
    expected = np.outer(table.sum(1), table.sum(0)) / table.sum()
    statistic = ((table - expected) ** 2 / expected).sum()
    assert statistic < chi_square_limit((cells - 1) ** 2)


def test_neighbours_are_torn_apart() -> None:
    length = 100_000
    distances = np.concatenate(
        [
            np.diff(Permutation(length, derive(seed, 0))(np.arange(length))) % length
            for seed in range(50)
        ]
    )
    counts, _ = np.histogram(distances, bins=50, range=(0, length))
    expected = counts.sum() / 50
    assert ((counts - expected) ** 2 / expected).sum() < chi_square_limit(49)


def test_the_table_and_the_network_take_the_same_arguments() -> None:
    for length in (4096, 4097, 2**31, 2**31 + 1, 2**62):
        order = Permutation(length, 5)(np.array([0, length - 1]))
        assert 0 <= order.min() <= order.max() < length


def test_the_order_of_the_words_of_a_key_matters() -> None:
    keys = {derive(seed, epoch) for seed in range(100) for epoch in range(100)}
    assert len(keys) == 100 * 100
    assert derive(1) != derive(1, 0)


def test_random_numbers_below_a_bound_are_uniform() -> None:
    numbers = random_below(derive(3), np.arange(60_000), 6)
    counts = np.bincount(numbers, minlength=6)
    assert len(counts) == 6
    assert ((counts - 10_000) ** 2 / 10_000).sum() < chi_square_limit(5)


def test_a_generator_belongs_to_its_index() -> None:
    drawn = [generator(derive(1, 0), index).random() for index in range(1000)]
    assert len(set(drawn)) == 1000
    assert drawn[17] == generator(derive(1, 0), 17).random()


def test_published_orders_never_change() -> None:
    for entry in json.loads(GOLDEN.read_text()):
        order = permutation(entry["length"], entry["seed"], entry["epoch"])
        got = order(np.array(entry["indices"], np.int64)).tolist()
        assert got == entry["order"], f"length {entry['length']}, seed {entry['seed']}"


@given(st.integers(1, 2**62) | st.integers(1, 9000), st.integers(0, 9), st.data())
def test_the_inverse_leads_back(length: int, seed: int, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, length - 1))
    indices = np.arange(start, min(start + 300, length))
    order = Permutation(length, derive(seed, 0))
    assert (order.inverse(order(indices)) == indices).all()
    assert (order(order.inverse(indices)) == indices).all()
