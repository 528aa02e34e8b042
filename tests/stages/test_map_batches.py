"""Groups of items become any number of items, and a resume is inside of a group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import RunningSum, stream

import resumable as rs
from resumable.core import block_items
from resumable.testing import check_resumes_everywhere

BATCHES: dict[str, Callable[[], Any]] = {
    "a list": lambda: [1, 2],
    "an array": lambda: np.array([1, 2]),
    "a generator": lambda: iter([1, 2]),
    "a range": lambda: range(1, 3),
    "a tuple of items": lambda: (1, 2),
}


def columns(count: int) -> rs.Pipeline[Any]:
    return rs.from_arrays({"x": np.arange(count), "y": np.ones((count, 2), np.float32)})


@given(st.integers(0, 30), st.integers(1, 40), st.lists(st.integers(0, 3), min_size=1))
def test_the_items_of_all_groups_come_in_order(
    count: int, batch_size: int, repeats: list[int]
) -> None:
    def fn(batch: Any) -> list[int]:
        items: list[int] = block_items(batch)
        return items * repeats[items[0] % len(repeats)]

    expected = []
    for start in range(0, count, batch_size):
        expected += fn(list(range(start, min(start + batch_size, count))))
    for source in (rs.range(count), stream(count)):
        pipeline = source.map_batches(fn, batch_size)
        assert list(pipeline) == expected
        with pipeline.start() as iterator:
            assert block_items(iterator.pull(len(expected) + 1)) == expected


@pytest.mark.parametrize("kind", BATCHES)
def test_a_function_may_return_any_iterable(kind: str) -> None:
    assert list(stream(4).map_batches(lambda batch: BATCHES[kind](), 3)) == [1, 2, 1, 2]


def test_columns_stay_columns_on_the_way_in_and_out() -> None:
    seen: list[Any] = []

    def large(batch: Any) -> Any:
        seen.append(batch)
        return {name: column[batch["x"] % 3 > 0] for name, column in batch.items()}

    batches = list(columns(20).map_batches(large, 8).batch(5))
    assert [batch["x"].tolist() for batch in batches] == [
        [1, 2, 4, 5, 7], [8, 10, 11, 13, 14], [16, 17, 19],
    ]  # fmt: skip
    assert batches[0]["y"].dtype == np.float32
    assert [type(batch["x"]) for batch in seen] == [np.ndarray] * 3
    pairs = columns(4).map_batches(lambda batch: (batch["x"], batch["x"] * 2), 3)
    assert list(pairs) == [(0, 0), (1, 2), (2, 4), (3, 6)]


@pytest.mark.parametrize("made", [7, "text", b"bytes", {"a": [1]}, {}, None, np.array(3)])
def test_what_is_no_batch_is_refused(made: Any) -> None:
    with pytest.raises(rs.InvalidType, match=r"map_batches must return an iterable of items"):
        list(stream(4).map_batches(lambda batch: made, 3))


def test_columns_of_several_lengths_are_refused() -> None:
    with pytest.raises(rs.MalformedItem, match=r"must have one length, got \[2, 3\]"):
        list(stream(4).map_batches(lambda batch: (np.arange(3), np.arange(2)), 3))


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(rs.InvalidArgument, match="batch_size must be at least 1, got 0"):
        stream(4).map_batches(list, 0)
    with pytest.raises(rs.InvalidArgument, match="must not carry state"):
        stream(4).map_batches(RunningSum(), 2)  # type: ignore[arg-type]


def test_a_group_is_read_and_made_when_its_first_item_is_asked_for() -> None:
    read: list[int] = []
    made: list[int] = []

    def note(item: int) -> int:
        read.append(item)
        return item

    def fn(batch: list[int]) -> list[int]:
        made.append(len(batch))
        return batch

    iterator = iter(rs.range(9).map(note).map_batches(fn, 3))
    assert (read, made) == ([], [])
    assert [next(iterator) for _ in range(3)] == [0, 1, 2]
    assert (len(read), made) == (3, [3])
    next(iterator)
    assert (len(read), made) == (6, [3, 3])


def test_a_resume_makes_at_most_one_group() -> None:
    made: list[int] = []

    def fn(batch: Any) -> Any:
        made.append(batch[0])
        return [*batch, *batch]

    pipeline = stream(30).map_batches(fn, 5)
    expected = list(pipeline)
    iterator = iter(pipeline)
    for position in range(len(expected)):
        state = iterator.get_state()
        next(iterator)
        made.clear()
        resumed = pipeline.resume(state)
        assert next(resumed) == expected[position]
        assert made == [position // 10 * 5]
        resumed.close()


def test_data_that_shrank_under_a_state_is_refused() -> None:
    count = 10

    def source() -> Any:
        return iter(range(count))

    pipeline = rs.from_iterable(source).map_batches(lambda batch: batch, 4)
    iterator = iter(pipeline)
    assert [next(iterator) for _ in range(7)] == list(range(7))
    state = iterator.get_state()
    count = 6
    with pytest.raises(rs.StateMismatch, match=r"offset=3 lies beyond the 2 items made of this"):
        next(pipeline.resume(state))


def twice(batch: Any) -> list[Any]:
    return [*batch, *batch]


def drawn(_: Any, rng: np.random.Generator) -> float:
    return rng.random()


@pytest.mark.parametrize("where", ["after a shard", "in a partition"])
def test_random_numbers_after_more_items_than_there_were_resume(where: str) -> None:
    if where == "after a shard":
        pipeline = rs.range(10).shard(0, 2).map_batches(twice, 2).random_map(drawn, seed=0)
    else:
        pipeline = rs.range(20).partition(
            4, lambda part: part.map_batches(twice, 2).random_map(drawn, seed=0)
        )
    check_resumes_everywhere(pipeline)


def test_between_partition_and_shard_it_is_refused() -> None:
    parts = rs.range(24).partition(4, lambda part: part.map(abs))
    with pytest.raises(rs.InvalidArgument, match="cannot keep the partitions before MapBatches"):
        parts.map_batches(twice, 3).shard(0, 2)
