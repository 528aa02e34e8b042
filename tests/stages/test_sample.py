"""Draws by weight, with replacement."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import resumable as rs
from resumable.order.random_bits import random_below, random_bits
from resumable.testing import check_resumes_everywhere

WEIGHTS = st.lists(st.floats(0, 1e300), min_size=1, max_size=30).filter(any)
BOUNDS = st.integers(2**31 + 1, 2**62)


@given(BOUNDS, st.integers(0, 2**64 - 1))
def test_a_number_below_a_large_bound_is_the_upper_half_of_an_exact_product(
    bound: int, key: int
) -> None:
    counters = np.arange(50)
    exact = [int(bits) * bound >> 64 for bits in random_bits(key, counters)]
    assert random_below(key, counters, bound).tolist() == exact


@given(WEIGHTS, st.integers(0, 9), st.integers(-60, 60))
def test_proportions_alone_decide_and_nothing_of_weight_0_is_drawn(
    weights: list[float], seed: int, power: int
) -> None:
    drawn = rs.range(len(weights)).sample(weights, seed=seed, count=40)
    assert all(weights[index] > 0 for index in drawn)
    if min(filter(None, weights)) > 1e-200 and max(weights) < 1e200:
        scaled = rs.range(len(weights)).sample(np.ldexp(weights, power), seed=seed, count=40)
        assert scaled.fingerprint == drawn.fingerprint


@given(WEIGHTS, st.integers(0, 9), st.integers(1, 5), st.integers(1, 40))
def test_ranks_share_the_draws_and_any_draw_is_known_by_its_index(
    weights: list[float], seed: int, ranks: int, count: int
) -> None:
    whole = rs.range(len(weights)).map(str).sample(weights, seed=seed, count=count)
    drawn = list(whole.start(1))
    parts = [whole.shard(rank, ranks, uneven="keep") for rank in range(ranks)]
    assert [list(part.start(1)) for part in parts] == [drawn[rank::ranks] for rank in range(ranks)]
    assert [whole[index] for index in range(count)] == list(whole)


def test_draws_have_the_frequencies_of_their_weights_in_each_epoch() -> None:
    weights = np.array([0, 1, 2, 3.5, 0.25, 40])
    draws = rs.range(6).sample(weights, seed=3, count=50_000)
    epochs = [np.bincount(list(draws.start(epoch)), minlength=6) for epoch in range(3)]
    expected = weights / weights.sum() * 50_000
    for counts in epochs:
        chi_square = sum((counts[1:] - expected[1:]) ** 2 / expected[1:])
        assert counts[0] == 0
        assert chi_square < 18.5  # exceeded by chance once in a thousand, with 4 degrees of freedom
    assert len({tuple(counts) for counts in epochs}) == 3
    alike = rs.range(10**6).sample(np.ones(10**6), count=1000)
    assert 995 <= len(set(alike)) < 1001


def test_it_resumes_at_any_draw_and_refuses_other_weights() -> None:
    def make(*weights: Any, **options: Any) -> rs.Pipeline[str]:
        return rs.from_sequence("abc").sample(weights, **options).repeat(2)

    check_resumes_everywhere(make(1, 2, 3, seed=5, count=7))
    assert Counter(make(0, 1, 0)) == {"b": 6}
    with make(1, 2, 3).start() as iterator:
        list(islice(iterator, 4))
        state = iterator.get_state()
    for other in (make(1, 2, 4), make(1, 2, 3, seed=1), make(1, 2, 3, count=4)):
        with pytest.raises(rs.StateMismatch, match=r"Sample at .* saved (weights|seed|count)="):
            other.resume(state)


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([1, -1], "finite and at least 0, got -1.0"),
        ([1, float("nan")], "finite and at least 0, got nan"),
        ([1, float("inf")], "finite and at least 0, got inf"),
        ([0, 0], "not all be 0"),
        ([1], "one for each of 2 items, got 1"),
        ("ab", "several numbers, got 'ab'"),
        ([[1, 2]], "several numbers"),
    ],
)
def test_wrong_weights_are_refused(weights: Any, words: str) -> None:
    with pytest.raises((rs.InvalidArgument, rs.InvalidType), match=f"weights must.*{words}"):
        rs.range(2).sample(weights)


def test_only_items_that_end_and_have_an_index_are_drawn() -> None:
    for endless in (rs.range(2).repeat(), rs.range(2).filter(bool)):
        with pytest.raises(rs.InvalidArgument, match="sample needs a random-access pipeline"):
            endless.sample([1, 1])
