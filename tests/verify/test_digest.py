"""Digests tell items apart as `same` does, in every process."""

from __future__ import annotations

import datetime
import os
import pickle
import subprocess
import sys
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resumable.testing import items
from resumable.testing.comparing import same
from resumable.testing.digest import item_digest

Point = namedtuple("Point", "x y")


class Colour(Enum):
    RED = 1


@dataclass
class Row:
    text: str
    number: int


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Words(str):
    pass


@given(st.lists(items(), max_size=2), st.lists(items(), max_size=2))
def test_digests_agree_where_items_are_the_same(left: list[Any], right: list[Any]) -> None:
    assert (item_digest(left) == item_digest(right)) == same(left, right)


@given(items())
def test_a_copy_has_the_same_digest(item: Any) -> None:
    assert item_digest(pickle.loads(pickle.dumps(item))) == item_digest(item)


DIFFERENT: list[Any] = [
    None, 0, False, 0.0, -0.0, "", b"", (), [], {}, set(), frozenset(), 1, True, 1.0, 1j, "1", b"1",
    [1], (1,), [[1], 2], [1, [2]], {"a": 1, "b": 2}, {"b": 2, "a": 1}, OrderedDict(a=1, b=2),
    np.int64(1), np.int32(1), np.array(1), np.array([1]), np.array([[1]]), np.array([1], np.uint8),
    np.array([1], ">i8"), np.array([1], ">i4"), np.array(["1"]), np.array(["1"], "<U2"),
    np.array(["1"], ">U1"), np.zeros(2, ">i4,f8"), np.array([1], object),
    np.array(["a", None], object), np.zeros(2, "i4,f8"), np.datetime64("2020-01-01"),
    Point(1, 2), Row("a", 1), Row("a", 2), Slotted(1), Slotted(2), Colour.RED, Words("a"), "a",
    datetime.date(2020, 1, 1), datetime.date(2020, 1, 2), Path("a"), Path("b"), len, max,
    {"a", "b"}, {"a", "c"}, bytearray(b"1"), float("nan"), float("inf"), 2**70,
]  # fmt: skip


def test_what_differs_has_different_digests() -> None:
    digests = [item_digest(item) for item in DIFFERENT]
    assert len(set(digests)) == len(digests)
    assert [item_digest(item) for item in DIFFERENT] == digests


def test_a_cycle_has_a_digest() -> None:
    item: list[Any] = [1]
    item.append(item)
    other: list[Any] = [1]
    other.append(other)
    assert item_digest(item) == item_digest(other) != item_digest([1, [1]])


def test_equal_parts_count_alike_whether_they_are_one_object_or_two() -> None:
    row = Row("a", 1)
    assert item_digest([row, row]) == item_digest([Row("a", 1), Row("a", 1)])


@pytest.mark.parametrize("seed", ["1", "2"])
def test_a_digest_is_the_same_in_every_process(seed: str) -> None:
    code = (
        "from resumable.testing.digest import item_digest\n"
        "print(item_digest([{'b', 'a', 'word'}, {'k': object}, object()]).hex())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == item_digest([{"b", "a", "word"}, {"k": object}, object()]).hex()


class Attributes(dict):  # type: ignore[type-arg]
    __getattr__ = dict.__getitem__


class Dated(datetime.date):
    pass


class Mixed:
    __slots__ = ("__dict__", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self.same = 1


def dated(day: int) -> Dated:
    date = Dated(2020, 1, day)
    date.note = "same"  # type: ignore[attr-defined]
    return date


PAIRS: list[tuple[Any, Any]] = [
    (memoryview(b"ab"), memoryview(b"ac")),
    (dated(1), dated(2)),
    (Mixed(1), Mixed(2)),
    (ValueError(1), ValueError(2)),
    (Attributes(a=1), Attributes(a=2)),
    (Attributes(a=1), {"a": 1}),
]


def test_all_that_an_object_holds_counts() -> None:
    for left, right in PAIRS:
        assert item_digest(left) != item_digest(right)
        assert item_digest([left]) != item_digest([right])


def test_what_lies_between_values_in_memory_does_not_count() -> None:
    for dtype in (np.dtype([("a", "u1"), ("b", "f8")], align=True), np.dtype(np.longdouble)):
        left, right = np.zeros(3, dtype), np.frombuffer(b"\x01" * 3 * dtype.itemsize, dtype).copy()
        right[...] = left
        assert same(left, right)
        assert item_digest(left) == item_digest(right)
    third = np.longdouble(1) / 3
    assert item_digest(third) != item_digest(np.longdouble(float(third)))
    crossed = np.dtype({"names": ["a", "b"], "formats": ["i4", "i4"], "offsets": [4, 0]})
    assert item_digest(np.ones(2, crossed)) == item_digest(np.ones(2, crossed))


def test_shared_parts_and_linked_ones_take_no_longer() -> None:
    shared: list[Any] = []
    for _ in range(60):
        shared = [shared, shared]
    assert item_digest(shared) == item_digest(shared)
    nodes: list[list[Any]] = [[number] for number in range(100)]
    for node in nodes:
        node += nodes
    assert item_digest(nodes) == item_digest(nodes)


def test_objects_without_an_equality_are_the_same_if_all_that_they_hold_is() -> None:
    for one, again, other in (
        (Slotless(1), Slotless(1), Slotless(2)),
        (Mixed(1), Mixed(1), Mixed(2)),
        (WithSlots(1), WithSlots(1), WithSlots(2)),
    ):
        assert same([one], [again])
        assert not same([one], [other])


class Slotless:
    def __init__(self, value: Any) -> None:
        self.value = value


class WithSlots:
    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value
