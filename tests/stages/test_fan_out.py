"""`flat_map` and `unbatch` keep random access where every item makes as many."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import stream

import resumable as rs
from resumable.testing import check_resumes_everywhere


def three(number: int) -> list[int]:
    return [10 * number, 10 * number + 1, 10 * number + 2]


def generated(number: int) -> Any:
    yield from three(number)


def piped(number: int) -> rs.Pipeline[int]:
    return rs.range(10 * number, 10 * number + 3)


def streamed(number: int) -> rs.Pipeline[int]:
    return piped(number).filter(lambda _: True)


WAYS: dict[str, Callable[[rs.Pipeline[Any]], rs.Pipeline[Any]]] = {
    "list": lambda numbers: numbers.flat_map(three, size=3),
    "generator": lambda numbers: numbers.flat_map(generated, size=3),
    "pipeline": lambda numbers: numbers.flat_map(piped, size=3),
    "stream": lambda numbers: numbers.flat_map(streamed, size=3),
    "unbatch lists": lambda numbers: numbers.map(three).unbatch(size=3),
    "unbatch arrays": lambda numbers: numbers.map(lambda n: np.array(three(n))).unbatch(size=3),
    "unbatch batches": lambda numbers: (
        numbers.flat_map(three).batch(3).unbatch(size=3)
        if numbers.length is None
        else numbers.flat_map(three, size=3).batch(3).unbatch(size=3)
    ),
}


@pytest.mark.parametrize("way", WAYS)
@given(count=st.integers(0, 9), indices=st.lists(st.integers(0, 26)), seed=st.integers(0, 9))
def test_any_item_is_found_by_its_index(
    way: str, count: int, indices: list[int], seed: int
) -> None:
    pipeline = WAYS[way](rs.range(count).shuffle(1))
    items = [item for number in rs.range(count).shuffle(1) for item in three(number)]
    assert list(pipeline) == items
    assert pipeline.random_access
    assert len(pipeline) == 3 * count
    within = [index for index in indices if index < 3 * count]
    assert pipeline[within] == [items[index] for index in within]
    assert [pipeline[index] for index in within] == [items[index] for index in within]
    assert sorted(pipeline.shuffle(seed)) == sorted(items)
    assert list(pipeline.skip(4)) == items[4:]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("numbers", [rs.range(7).shuffle(1), stream(7)], ids=["by index", "stream"])
def test_runs_resume_everywhere(way: str, numbers: rs.Pipeline[Any]) -> None:
    pipeline = WAYS[way](numbers).repeat(2)
    check_resumes_everywhere(pipeline)
    assert pipeline.random_access == numbers.random_access


def test_a_state_is_the_same_with_and_without_a_size() -> None:
    for plain, sized in (
        (rs.range(5).flat_map(three), rs.range(5).flat_map(three, size=3)),
        (rs.range(6).batch(2).unbatch(), rs.range(6).batch(2).unbatch(size=2)),
    ):
        items = list(plain)
        iterator, other = iter(plain), iter(sized)
        for cut in range(len(items)):
            assert iterator.get_state() == other.get_state()
            assert list(sized.resume(iterator.get_state())) == items[cut:]
            next(iterator), next(other)


def test_neighbours_are_made_once_and_others_each_by_itself() -> None:
    made: list[int] = []

    def noted(number: int) -> list[int]:
        made.append(number)
        return three(number)

    pipeline = rs.range(1000).flat_map(noted, size=3)
    assert pipeline.skip(1500).take(6)[:] == [*three(500), *three(501)]
    assert made == [500, 501]
    made.clear()
    assert list(islice(iter(pipeline.skip(1500)), 6)) == [*three(500), *three(501)]
    assert set(made) == {500, 501}
    assert len(made) <= 4
    made.clear()
    assert pipeline[2999] == 9992
    assert made == [999]


def test_columns_of_batches_stay_columns() -> None:
    rows = rs.from_arrays({"x": np.arange(12, dtype=np.float32), "y": np.eye(12)})
    pipeline = rows.batch(4).unbatch(size=4).shuffle(3)
    block = pipeline.gather(np.array([5, 0, 7]))
    assert block["x"].dtype == np.float32
    assert block["y"].shape == (3, 12)
    (batch,) = pipeline.take(3).batch(3)
    assert batch["x"].dtype == np.float32
    assert batch["y"].argmax(axis=1).tolist() == batch["x"].astype(int).tolist()


@pytest.mark.parametrize("found", [0, 2, 4])
@pytest.mark.parametrize("kind", [list, np.array, "generator", "unbatch", "unbatch arrays"])
def test_an_item_that_makes_another_number_is_refused(found: int, kind: Any) -> None:
    def some(number: int) -> Any:
        items = list(range(found if number == 2 else 3))
        if kind == "generator":
            return iter(items)
        return np.array(items) if kind in (np.array, "unbatch arrays") else items

    unbatched = isinstance(kind, str) and kind.startswith("unbatch")
    numbers = rs.range(5)
    pipeline = numbers.map(some).unbatch(size=3) if unbatched else numbers.flat_map(some, size=3)
    match = r"each item must make size=3 items, got one that makes (more|\d)"
    with pytest.raises(rs.MalformedItem, match=match):
        list(pipeline)
    with pytest.raises(rs.MalformedItem, match=match):
        list(pipeline.batch(4))
    with pytest.raises(rs.MalformedItem, match=match):
        pipeline[6]
    assert pipeline[5] == 2
    iterator = iter(pipeline)
    assert len(list(islice(iterator, 6))) == 6


def test_short_last_batches_are_refused_and_a_batch_without_them_is_not() -> None:
    assert len(list(rs.range(7).batch(3, drop_last=True).unbatch(size=3))) == 6
    with pytest.raises(rs.MalformedItem, match="size=3 items, got one that makes 1"):
        list(rs.range(7).batch(3).unbatch(size=3))


@pytest.mark.parametrize(
    ("build", "match"),
    [
        (lambda: rs.range(3).flat_map(three, size=0), "size must be at least 1, got 0"),
        (lambda: rs.range(3).flat_map(three, size=2.0), "size must be an integer, got 2.0"),  # type: ignore[arg-type]
        (lambda: rs.range(3).unbatch(size=-1), "size must be at least 1, got -1"),
        (
            lambda: rs.range(2**61).flat_map(three, size=3),
            r"size must make at most 2\*\*62 items, got 3 of each of",
        ),
        (
            lambda: rs.range(2**61).unbatch(size=3),
            r"size must make at most 2\*\*62 items, got 3 of each of",
        ),
    ],
)
def test_bad_sizes_are_refused(build: Callable[[], Any], match: str) -> None:
    with pytest.raises((rs.InvalidArgument, rs.InvalidType), match=match):
        build()


def test_a_size_of_a_stream_or_of_endless_items_says_what_it_can() -> None:
    assert stream(3).flat_map(three, size=3).length is None
    endless = rs.range(3).repeat().flat_map(three, size=3)
    assert endless.length == float("inf")
    assert endless[10**6 + 2] == three((10**6 + 2) // 3 % 3)[(10**6 + 2) % 3]
