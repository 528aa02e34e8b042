"""Pipelines are added and indexed as sequences are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.graphs import RunningSum, stream

import resumable as rs
from resumable.testing import check_resumes_everywhere

letters: Any = rs.from_sequence("abcdef").shuffle(3)


def test_a_sum_of_pipelines_is_their_concatenation() -> None:
    parts: list[rs.Pipeline[Any]] = [rs.range(3), stream(2), rs.range(7, 9).map(str)]
    total = parts[0] + parts[1] + parts[2]
    assert list(total) == [0, 1, 2, 0, 1, "7", "8"]
    assert total.fingerprint == rs.concatenate(*parts).fingerprint
    check_resumes_everywhere(total)
    both = rs.range(3) + rs.range(7, 9)
    assert both.random_access
    assert (len(both), both[3]) == (5, 7)


def test_a_sum_keeps_what_has_names_in_one_piece() -> None:
    named = rs.concatenate({"a": rs.range(2), "b": rs.range(2)})
    assert (named + rs.range(1)).fingerprint == rs.concatenate(named, rs.range(1)).fingerprint
    assert list(named + rs.range(1)) == [0, 1, 0, 1, 0]


def test_a_run_goes_on_with_a_pipeline_that_was_added() -> None:
    iterator = iter(rs.range(3) + rs.range(4))
    assert next(iterator) == 0
    longer = rs.range(3) + rs.range(4) + rs.range(2)
    assert list(longer.resume(iterator.get_state())) == [1, 2, 0, 1, 2, 3, 0, 1]


def test_what_is_no_pipeline_cannot_be_added() -> None:
    for other in ([1, 2], 0, None, rs.range(3).stage):
        with pytest.raises(TypeError, match="unsupported operand"):
            rs.range(3) + other  # type: ignore[operator]
    with pytest.raises(rs.InvalidArgument, match="must not call functions with state"):
        rs.range(3) + rs.range(3).map(RunningSum())


@pytest.mark.parametrize("kind", [list, np.array])
def test_several_indices_give_a_list_of_items(kind: Any) -> None:
    items = list(letters)
    assert letters[kind([0, 2])] == [items[0], items[2]]
    assert letters[kind([-1, 0, 0, -6])] == [items[5], items[0], items[0], items[0]]
    assert rs.range(5)[kind([4, -4])] == [4, 1]
    assert rs.range(3).repeat()[kind([4, 10**9])] == [1, 1]
    assert rs.range(1000)[np.array([-1, 5], np.int8)] == [999, 5]
    rows = rs.from_arrays({"x": np.arange(4), "y": np.arange(4.0)})
    assert rows[kind([3])] == [{"x": 3, "y": 3.0}]


def test_no_indices_give_no_items() -> None:
    assert letters[[]] == []


@pytest.mark.parametrize(
    ("pipeline", "index", "error", "match"),
    [
        (letters, [6], rs.InvalidArgument, r"indices must lie within 6 items, got"),
        (
            letters,
            [-7],
            rs.InvalidArgument,
            r"indices must lie within 6 items, got array\(\[-7\]\)",
        ),
        (rs.range(3).repeat(), [-1], rs.InvalidArgument, "indices must lie within inf items"),
        (letters, [0.5], rs.InvalidType, "indices must be integers"),
        (letters, [True, False], rs.InvalidType, "indices must be integers"),
        (letters, [[0], [1]], rs.InvalidType, "index must be an integer, got"),
        (letters, (0, 2), rs.InvalidType, r"index must be an integer, got \(0, 2\)"),
        (letters, "ab", rs.InvalidType, "index must be an integer, got 'ab'"),
        (stream(3), [0], rs.InvalidType, "has no random access"),
    ],
)
def test_indices_beyond_the_items_and_others_are_refused(
    pipeline: Any, index: Any, error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        pipeline[index]
