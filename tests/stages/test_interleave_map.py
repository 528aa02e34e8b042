"""The state of `interleave` has one shape along a run, as frameworks want of a tree that they save."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.graphs import stream

import resumable as rs


def shape(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [shape(inner) for inner in value]
    return type(value)


@pytest.mark.parametrize(
    "expand", [range, rs.range, stream, lambda n: stream(n).shuffle(n, window=2)]
)
@pytest.mark.parametrize("numbers", [rs.range(7), stream(7)], ids=["range", "stream"])
def test_the_shape_of_its_state_is_the_same_along_a_run(
    numbers: rs.Pipeline[int], expand: Callable[[int], Any]
) -> None:
    pipeline = numbers.interleave_map(expand, cycle_length=3)
    with iter(pipeline) as iterator:
        first = shape(iterator.get_state())
        for _ in iterator:
            state = iterator.get_state()
            assert shape(state) == first
            with pipeline.resume(state) as resumed:
                assert resumed.get_state() == state


def test_a_place_of_another_shape_is_refused() -> None:
    pipeline = rs.range(7).interleave_map(rs.range, cycle_length=3)
    with iter(pipeline) as iterator:
        next(iterator)
        for change in (
            {"inner": [3] * 3},
            {"open": [1] * 3},
            {"offset": [-1] * 3},
            {"more": [1] * 3},
        ):
            state = iterator.get_state()
            state["pipeline"]["places"] |= change
            with pytest.raises(rs.StateMismatch, match=r"InterleaveMap at pipeline: .*"):
                pipeline.resume(state)
        state = iterator.get_state()
        inner = state["pipeline"]["places"]["inner"]
        inner[:] = [data[:-1] for data in inner]
        with pytest.raises(rs.StateMismatch, match="saved inner is not a state"):
            next(pipeline.resume(state))


def test_the_method_has_its_name_of_0_3_with_a_warning() -> None:
    with pytest.warns(DeprecationWarning, match="write interleave_map") as warned:
        old = rs.range(7).interleave(rs.range, cycle_length=3)
    assert warned[0].filename == __file__
    new = rs.range(7).interleave_map(rs.range, cycle_length=3)
    assert list(old) == list(new)
    assert old.fingerprint == new.fingerprint
