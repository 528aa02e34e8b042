"""Batches of like length hold every item once, within a count or a budget of tokens."""

from __future__ import annotations

from itertools import islice, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import RunningSum, stream

import resumable as rs
from resumable.testing import check_resumes_everywhere

LENGTHS = st.lists(st.integers(0, 20), max_size=40)


def numbered(lengths: list[int]) -> rs.Pipeline[Any]:
    """Items that know their number, and have a length."""
    return rs.from_iterable(lambda: iter(list(enumerate(lengths))))


def length_of(item: tuple[int, int]) -> int:
    return item[1]


@given(LENGTHS, st.integers(1, 5), st.integers(1, 50), st.integers(0, 9))
def test_batches_of_a_count_hold_every_item_of_their_group_once(
    lengths: list[int], batch_size: int, window: int, seed: int
) -> None:
    options: dict[str, Any] = {"batch_size": batch_size, "group": window, "collate": list}
    batches = list(numbered(lengths).bucket(length_of, seed=seed, **options))
    assert sorted(item for batch in batches for item in batch) == list(enumerate(lengths))
    assert all(1 <= len(batch) <= batch_size for batch in batches)
    groups = [range(start, start + window) for start in range(0, len(lengths), window)]
    place = 0
    for group in groups:
        count = -(-len([number for number in group if number < len(lengths)]) // batch_size)
        mine = batches[place : place + count]
        place += count
        assert all(number in group for batch in mine for number, _ in batch)
        assert sum(len(batch) < batch_size for batch in mine) <= 1
        spans = sorted((min(b[1] for b in batch), max(b[1] for b in batch)) for batch in mine)
        assert all(low[1] <= high[0] for low, high in pairwise(spans))
    dropped = list(numbered(lengths).bucket(length_of, seed=seed, drop_last=True, **options))
    assert all(len(batch) == batch_size for batch in dropped)
    assert len(dropped) == sum(len(batch) == batch_size for batch in batches)


@given(LENGTHS, st.integers(1, 4), st.integers(24, 60), st.none() | st.integers(1, 4))
def test_batches_keep_within_a_budget_of_tokens(
    lengths: list[int], multiple_of: int, max_tokens: int, batch_size: int | None
) -> None:
    pipeline = numbered(lengths).bucket(
        length_of,
        max_tokens=max_tokens,
        batch_size=batch_size,
        multiple_of=multiple_of,
        group=13,
        collate=list,
    )
    batches = list(pipeline)
    assert sorted(item for batch in batches for item in batch) == list(enumerate(lengths))
    for batch in batches:
        longest = max(length for _, length in batch)
        assert len(batch) * -(-longest // multiple_of) * multiple_of <= max_tokens
        assert batch_size is None or len(batch) <= batch_size


PAIRS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 9)), max_size=40)


@given(PAIRS, st.integers(1, 4), st.none() | st.integers(1, 4), st.booleans())
def test_batches_of_several_lengths_keep_within_one_budget_or_that_of_each(
    lengths: list[tuple[int, int]], multiple_of: int, batch_size: int | None, each: bool
) -> None:
    items = [
        {"x": [number] * one, "y": [number] * other, "number": number}
        for number, (one, other) in enumerate(lengths)
    ]
    pipeline = rs.from_sequence(items).bucket(
        ["x", "y"],
        max_tokens={"y": 24, "x": 40} if each else 50,
        batch_size=batch_size,
        multiple_of=multiple_of,
        group=13,
    )
    batches = list(pipeline)
    assert sorted(number for batch in batches for number in batch["number"].tolist()) == list(
        range(len(items))
    )
    for batch in batches:
        sizes = batch["x"].size, batch["y"].size
        assert sizes[0] <= 40 and sizes[1] <= 24 if each else sum(sizes) <= 50
        assert batch_size is None or len(batch["number"]) <= batch_size
        for place, number in enumerate(batch["number"].tolist()):
            for name in ("x", "y"):
                count = len(items[number][name])
                assert batch[name][place, :count].tolist() == items[number][name]
    check_resumes_everywhere(pipeline)


def test_a_batch_of_several_lengths_is_as_large_as_its_budget_lets_it_be() -> None:
    items = [{"x": [1] * 4, "y": [1] * 2}] * 12
    for budget, count in (({"x": 16, "y": 100}, 4), ({"x": 100, "y": 6}, 3), (36, 6)):
        batches = list(rs.from_sequence(items).bucket(["x", "y"], max_tokens=budget))
        assert {len(batch["x"]) for batch in batches} == {count}
    # What was longest in the batch before does not count any more.
    items = [{"x": [1], "y": [1] * 8}] * 2 + [{"x": [1] * 10, "y": [1]}] * 4
    batches = list(rs.from_sequence(items).bucket(["x", "y"], max_tokens=40))
    assert sorted(len(batch["x"]) for batch in batches) == [1, 2, 3]


def test_items_of_several_lengths_are_alike_in_the_shares_that_they_take() -> None:
    items = [
        {"x": [1] * one, "y": [1] * other} for one, other in [(10, 1), (1, 2), (11, 2), (2, 1)]
    ]
    found = rs.from_sequence(items).bucket(
        ["y", "x"],
        max_tokens={"x": 1000, "y": 4},
        batch_size=2,
        collate=lambda batch: sorted(len(item["x"]) for item in batch),
    )
    assert sorted(found) == [[1, 11], [2, 10]]
    sums = rs.from_sequence(items).bucket(
        ["y", "x"], batch_size=2, collate=lambda batch: sorted(len(item["x"]) for item in batch)
    )
    assert sorted(sums) == [[1, 2], [10, 11]]


def test_one_field_is_what_a_function_of_its_length_is() -> None:
    items = [{"x": [1] * (number * 7 % 11)} for number in range(30)]
    options: dict[str, Any] = {"max_tokens": 24, "boundaries": [4, 8], "group": 13, "seed": 3}
    by_name = rs.from_sequence(items).bucket(["x"], **options)
    by_function = rs.from_sequence(items).bucket(lambda item: len(item["x"]), **options)
    assert [batch["x"].tolist() for batch in by_name] == [
        batch["x"].tolist() for batch in by_function
    ]
    with pytest.raises(rs.StateMismatch, match="length="):
        by_name.resume(iter(by_function).get_state())


def test_the_order_of_names_does_not_matter() -> None:
    items = [{"x": [1], "y": [1, 2]}] * 9
    xy = rs.from_sequence(items).bucket(["x", "y"], max_tokens={"x": 5, "y": 6})
    yx = rs.from_sequence(items).bucket(("y", "x"), max_tokens={"y": 6, "x": 5})
    assert xy.fingerprint == yx.fingerprint
    assert repr(list(xy)) == repr(list(yx))


@pytest.mark.parametrize("item", [3, [1], {"x": [1]}, {"x": [1], "y": 3}])
def test_an_item_without_the_lengths_is_refused(item: Any) -> None:
    with pytest.raises(
        rs.MalformedItem, match=r"must be dicts with the fields \['x', 'y'\], which have a"
    ):
        list(rs.from_sequence([item]).bucket(["x", "y"], batch_size=2))


@given(LENGTHS)
def test_boundaries_keep_lengths_apart(lengths: list[int]) -> None:
    pipeline = numbered(lengths).bucket(
        length_of, batch_size=4, boundaries=[5, 10], group=17, collate=list
    )
    batches = list(pipeline)
    assert sorted(item for batch in batches for item in batch) == list(enumerate(lengths))
    for batch in batches:
        assert len({(length >= 5) + (length >= 10) for _, length in batch}) == 1


def test_the_order_of_batches_depends_on_seed_epoch_and_group() -> None:
    def order(seed: int) -> list[Any]:
        pipeline = stream(60).bucket(lambda item: item % 20, batch_size=1, group=20, seed=seed)
        return [int(batch[0]) % 20 for batch in pipeline.repeat(2)]

    first = order(0)
    parts = [tuple(first[start : start + 20]) for start in range(0, 120, 20)]
    assert len(set(parts)) == 6
    assert all(sorted(part) == list(range(20)) for part in parts)
    assert order(1) != first
    assert order(0) == first


@pytest.mark.parametrize("lengths", [[], [0], [3] * 7, [9, 1, 9, 1, 30, 0]])
def test_a_resume_at_any_batch_is_exact(lengths: list[int]) -> None:
    pipeline = numbered(lengths).bucket(length_of, batch_size=2, group=4, collate=list).repeat(2)
    check_resumes_everywhere(pipeline)


def test_batches_are_collated_when_they_are_asked_for() -> None:
    collated: list[int] = []

    def collate(items: list[int]) -> int:
        collated.append(len(items))
        return len(items)

    pipeline = rs.range(100).bucket(lambda item: item, batch_size=4, group=40, collate=collate)
    iterator = iter(pipeline)
    next(iterator)
    assert collated == [4]
    iterator.skip(10)
    assert collated == [4]
    assert len(rs.dumps(iterator.get_state())) <= 300


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"batch_size": None}, "there must be batch_size or max_tokens, got neither"),
        ({"batch_size": 0}, "batch_size must be at least 1, got 0"),
        ({"max_tokens": 0}, "max_tokens must be at least 1"),
        ({"group": 0}, "group must be at least 1"),
        ({"seed": None}, "seed must be an integer, got None"),
        ({"boundaries": 5}, "boundaries must be a list of integers, got 5"),
        ({"boundaries": np.array(5)}, r"boundaries must be a list of integers, got array\(5\)"),
        ({"boundaries": [5, 5]}, r"boundaries must ascend, got \[5, 5\]"),
        ({"boundaries": [0]}, r"boundaries\[0\] must be at least 1"),
        ({"multiple_of": 0}, "multiple_of must be at least 1"),
        ({"length": 3}, "length must be callable"),
        ({"length": "x"}, "length must be callable, got 'x'"),
        ({"length": [3]}, r"length must be callable or a list of names, got \[3\]"),
        ({"length": []}, r"length must name one or more fields, each once, got \[\]"),
        ({"length": ["x", "x"]}, "length must name one or more fields, each once"),
        (
            {"length": ["x", "y"], "boundaries": [3]},
            "boundaries must be None where length has several",
        ),
        (
            {"length": ["x", "y"], "max_tokens": {"x": 3}},
            r"max_tokens must have the fields of length, which are \['x', 'y'\]",
        ),
        ({"length": ["x"], "max_tokens": {"x": 0}}, r"max_tokens\['x'\] must be at least 1, got 0"),
        ({"max_tokens": {"x": 3}}, "max_tokens must be an integer"),
        ({"length": RunningSum()}, "length must not carry state"),
        ({"collate": RunningSum()}, "collate must not carry state"),
        ({"drop_last": 1}, "drop_last must be True or False"),
    ],
)
def test_bad_arguments_are_refused(options: dict[str, Any], match: str) -> None:
    with pytest.raises((rs.InvalidArgument, rs.InvalidType), match=match):
        stream(3).bucket(**{"length": len, "batch_size": 2, **options})


@pytest.mark.parametrize("length", [-1, 0.5, None, "3"])
def test_what_is_no_length_is_refused(length: Any) -> None:
    with pytest.raises(rs.MalformedItem, match="length must return integers of at least 0"):
        list(stream(3).bucket(lambda item: length, batch_size=2))


def test_an_item_beyond_the_budget_is_refused() -> None:
    with pytest.raises(rs.MalformedItem, match="at most max_tokens=10, with its padding, got 12"):
        list(rs.from_sequence([[1] * 9]).bucket(len, max_tokens=10, multiple_of=6))
    items = [{"x": [1] * 3, "y": [1] * 9}]
    with pytest.raises(
        rs.MalformedItem, match=r"max_tokens=\[10, 10\], with its padding, got \[6, 12\]"
    ):
        list(
            rs.from_sequence(items).bucket(["x", "y"], max_tokens={"x": 10, "y": 10}, multiple_of=6)
        )
    with pytest.raises(rs.MalformedItem, match="max_tokens=10, with its padding, got 12"):
        list(rs.from_sequence(items).bucket(["x", "y"], max_tokens=10))


def test_a_larger_window_needs_less_padding() -> None:
    rng = np.random.default_rng(0)
    texts = [np.ones(int(size), np.int32) for size in rng.lognormal(4, 1, 2000)]
    shares = []
    for window in (32, 256, 2048):
        batches = list(rs.from_sequence(texts).bucket(len, batch_size=32, group=window))
        shares.append(sum(map(np.count_nonzero, batches)) / sum(batch.size for batch in batches))
    assert shares == sorted(shares)
    assert shares[0] < 0.5
    assert shares[2] > 0.9


def test_batches_of_three_generations_are_those_of_one_run() -> None:
    pipeline = stream(50).bucket(lambda item: item % 7, batch_size=3, group=16, collate=list)
    expected = list(pipeline.repeat(2))
    got: list[Any] = []
    iterator = iter(pipeline.repeat(2))
    for count in (3, 9, 11):
        got += islice(iterator, count)
        iterator = pipeline.repeat(2).resume(rs.loads(rs.dumps(iterator.get_state())))
    assert [*got, *iterator] == expected
