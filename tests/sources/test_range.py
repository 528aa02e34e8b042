"""`rs.range` agrees with the built-in one."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

import resumable as rs

BOUND = 2**40


@given(
    st.integers(-BOUND, BOUND),
    st.integers(-BOUND, BOUND),
    st.integers(-BOUND, BOUND).filter(bool),
)
def test_it_agrees_with_the_built_in_range(start: int, stop: int, step: int) -> None:
    expected = range(start, stop, step)
    pipeline = rs.range(start, stop, step)
    assert len(pipeline) == len(expected)
    assert list(itertools.islice(pipeline, 10)) == list(expected[:10])
    if expected:
        assert pipeline[-1] == expected[-1]
        assert all(type(item) is int for item in pipeline[:3])


@given(st.sampled_from([1, 2, 2**61]), st.integers(1, 9), st.booleans())
def test_batches_reach_the_ends_of_int64(step: int, batch_size: int, downwards: bool) -> None:
    count = min(10, 2**63 // step)
    expected = list(range(2**63 - 1, 2**63 - 1 - count * step, -step))[::-1]
    if downwards:
        expected, step = [-1 - item for item in expected], -step
    pipeline = rs.range(expected[0], expected[-1] + step, step)
    assert [item for batch in pipeline.batch(batch_size) for item in batch.tolist()] == expected


def test_it_counts_to_two_to_the_62() -> None:
    pipeline = rs.range(2**62)
    assert len(pipeline) == 2**62
    assert pipeline[2**62 - 1] == 2**62 - 1
    shuffled = pipeline.shuffle(0)
    assert 0 <= shuffled[2**62 - 1] < 2**62


def test_one_argument_is_the_stop() -> None:
    assert list(rs.range(3)) == [0, 1, 2]
    assert list(rs.range(-3)) == []
