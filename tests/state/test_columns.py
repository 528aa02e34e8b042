"""States as columns: as they were after the way back, and refused where they are none."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import resumable as rs
from resumable.state.columns import as_columns, as_rows
from resumable.testing.comparing import same

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=3)
    | st.just(np.arange(3))
)
STATES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=8,
)


def alike(state: Any, numbers: Any) -> Any:
    """A state of the same shape with other values."""
    if isinstance(state, dict):
        return {key: alike(value, numbers) for key, value in state.items()}
    return next(numbers)


@given(st.lists(STATES, max_size=5))
def test_states_of_any_shapes_come_back(states: list[Any]) -> None:
    assert same(as_rows(as_columns(states), len(states)), states)


@given(STATES, st.integers(1, 5))
def test_states_of_one_shape_come_back_and_have_each_key_once(state: Any, count: int) -> None:
    numbers = iter(range(10**6))
    states = [alike(state, numbers) for _ in range(count)]
    columns = as_columns(states)
    assert same(as_rows(columns, count), states)
    assert as_columns(as_rows(columns, count)) == columns
    assert keys_in(columns) == keys_in(states[0])


def keys_in(value: Any) -> int:
    if isinstance(value, dict):
        return len(value) + sum(map(keys_in, value.values()))
    return sum(map(keys_in, value)) if isinstance(value, list) else 0


@given(STATES, st.integers(0, 4))
def test_columns_give_as_many_states_or_are_refused(columns: Any, count: int) -> None:
    with suppress(rs.StateMismatch):
        assert len(as_rows(columns, count)) == count
