"""One test for each fault in what other loaders take for the same data, or make of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import resumable as rs
from resumable.testing.comparing import same


class Count:
    """An iterator with get_state/set_state that counts from any number on."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        self.number += 1
        return self.number - 1

    def get_state(self) -> dict[str, int]:
        return {"number": self.number}

    def set_state(self, state: dict[str, int]) -> None:
        self.number = state["number"]


def state_after(pipeline: rs.Pipeline[Any], steps: int) -> dict[str, Any]:
    """A state in the middle of a pass, through bytes."""
    with iter(pipeline) as iterator:
        iterator.pull(steps)
        return rs.loads(rs.dumps(iterator.get_state()))


def test_a_state_before_the_first_item_holds_where_the_iterator_stood() -> None:
    start = state_after(rs.from_iterable(Count(5)), 0)
    iterator = rs.from_iterable(Count(0)).resume(start)
    assert [next(iterator), next(iterator)] == [5, 6]
    again = rs.from_iterable(Count(0)).resume(start).get_state()
    assert again == start, "a state that was not used yet is the same when it is taken again"


def test_a_state_before_the_first_item_holds_where_a_file_stood(tmp_path: Any) -> None:
    (tmp_path / "f").write_text("a\nb\nc\n")
    with open(tmp_path / "f") as file:
        file.readline()
        start = state_after(rs.from_iterable(file), 0)
    with open(tmp_path / "f") as file:
        assert list(rs.from_iterable(file).resume(start)) == ["b\n", "c\n"]


def test_a_position_without_the_state_of_the_iterator_is_refused() -> None:
    by_count = state_after(rs.from_iterable(lambda: iter(range(9))), 3)
    with pytest.raises(rs.StateMismatch, match=r"saved position=3 without a state for get_state"):
        rs.from_iterable(Count(0)).resume(by_count)


MASKED = np.ma.array([[1.0, 2.0], [3.0, 4.0]], mask=[[False, True], [True, False]])
ONE_MASKED = np.ma.array([1, 2, 3], mask=[False, True, False])


@pytest.mark.parametrize("masked", [MASKED, ONE_MASKED], ids=["rows", "numbers"])
def test_a_masked_array_is_refused_since_its_rows_would_lose_the_mask(masked: Any) -> None:
    way_out = r"must not be masked.*\{'data': a\.data, 'mask': numpy\.ma\.getmaskarray\(a\)\}"
    for arrays in (masked, (np.arange(len(masked)), masked), {"x": masked}):
        with pytest.raises(rs.InvalidType, match=way_out):
            rs.from_arrays(arrays)
    with pytest.raises(rs.InvalidType, match=way_out):
        rs.from_sequence(masked)
    both = {"data": masked.data, "mask": np.ma.getmaskarray(masked)}
    (batch,) = rs.from_arrays(both).batch(len(masked))
    assert same(batch, both)


@pytest.mark.filterwarnings("ignore:Warning. converting a masked element")
@pytest.mark.parametrize(
    "items",
    [list(MASKED), list(ONE_MASKED), [1, np.ma.masked], [1.5, np.ma.masked], [np.eye(2), MASKED]],
    ids=["rows", "scalars", "integers", "floats", "mixed"],
)
def test_a_batch_of_masked_items_is_refused_unless_the_user_says_how(items: list[Any]) -> None:
    with pytest.raises(rs.MalformedItem, match=r"masked.*collate.*numpy\.ma\.stack"):
        list(rs.from_sequence(items).batch(len(items)))


def test_a_masked_batch_comes_apart_with_its_mask() -> None:
    def batched(masked: Any) -> Any:
        return rs.from_sequence(list(masked)).batch(len(masked), collate=np.ma.stack)

    for masked in (MASKED, ONE_MASKED):
        (batch,) = batched(masked)
        assert same(np.ma.getmaskarray(batch), np.ma.getmaskarray(masked))
        (again,) = batched(masked).unbatch().batch(len(masked), collate=np.ma.stack)
        assert same(np.ma.getmaskarray(again), np.ma.getmaskarray(masked))


@pytest.mark.parametrize(
    "items",
    [
        [2**63, -1, 2**53 + 1],
        [2**63, -1],
        [2**53 + 1, 0.5],
        [0.5, float("nan"), 2**53 + 1],
        [2**53 + 1, 1j],
        [1, np.uint64(2**63 + 1), 0.5],
        [np.uint64(2**63 + 1), np.int64(-1)],
        [np.array([0.5]), np.array([2**53 + 1])],
    ],
    ids=str,
)
def test_numbers_that_no_dtype_holds_exactly_stay_a_list(items: list[Any]) -> None:
    (batch,) = rs.from_sequence(items).batch(len(items))
    assert same(batch, items)


@pytest.mark.parametrize(
    ("items", "batch"),
    [
        ([2**63, 1], np.array([2**63, 1], np.uint64)),
        ([2**64 - 1, 0], np.array([2**64 - 1, 0], np.uint64)),
        ([2**53, 0.5], np.array([2.0**53, 0.5])),
        ([1, float("nan"), float("inf"), 2**60], np.array([1, np.nan, np.inf, 2.0**60])),
        ([np.array([0.5]), np.array([2**53])], np.array([[0.5], [2.0**53]])),
    ],
    ids=str,
)
def test_numbers_that_a_dtype_holds_exactly_are_stacked(items: list[Any], batch: Any) -> None:
    (stacked,) = rs.from_sequence(items).batch(len(items))
    assert same(stacked, batch)


def test_a_batch_of_empty_dicts_keeps_their_number() -> None:
    empty: list[list[dict[str, Any]]] = [[{}, {}], [{"a": {}}, {"a": {}}]]
    for items in empty:
        pipeline = rs.from_sequence(items).batch(2)
        assert list(pipeline.unbatch()) == items
    with pytest.raises(rs.MalformedItem, match="collate"):
        list(rs.from_sequence([{}, {"a": 1}]).batch(2))
