"""What is left out of the items of a stage, which follows from its relation alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from core.test_left_out import RUNS, agrees, mask_of
from hypothesis import given
from hypothesis import strategies as st

import resumable as rs
from resumable.core import (
    Combine,
    IndexedIterator,
    Indices,
    Relation,
    Routed,
    Same,
    Sliced,
    StageIterator,
    block_items,
    each,
)
from resumable.core.exclusion import left_out_of
from resumable.core.records import Records
from resumable.testing import check_resumes_everywhere


@dataclass(frozen=True, eq=False, repr=False)
class Stride(rs.Transform[Any]):
    """A stage of a user that says what its items are made of, and nothing else."""

    begin: int = 1
    step: int = 3
    end: int = 25

    def relation(self, epoch: int) -> Relation:
        return Sliced(self, epoch, start=self.begin, step=self.step, stop=self.end)

    def start(self, epoch: int = 0) -> StageIterator[Any]:
        return IndexedIterator(self, epoch)


def negative(item: int) -> int:
    return -item


@dataclass(frozen=True, eq=False, repr=False)
class Negative(rs.Transform[Any]):
    """One of which each item is made of one item, also over a stream."""

    def relation(self, epoch: int) -> Relation:
        return Same(self, epoch, make=each(negative))

    def start(self, epoch: int = 0) -> StageIterator[Any]:
        return _NegativeIterator(self, epoch)


class _NegativeIterator(rs.TransformIterator[Any]):
    def pull(self, count: int) -> list[Any]:
        return list(map(negative, block_items(self._upstream.pull(count))))


@dataclass(frozen=True, eq=False, repr=False)
class InTurns(Combine[Any]):
    """Inputs of equal length take turns."""

    def relation(self, epoch: int) -> Relation:
        return Routed(self, epoch, total=lambda: self.total_length, turns=lambda: self)

    def items_of(self, outputs: Indices) -> tuple[Indices, Indices]:
        return outputs % len(self.inputs), outputs // len(self.inputs)

    def turns_before(self, count: int) -> list[int]:
        inputs = len(self.inputs)
        return [-(-(count - number) // inputs) for number in range(inputs)]

    def turn_of(self, number: int, item: int) -> int:
        return item * len(self.inputs) + number

    def start(self, epoch: int = 0) -> StageIterator[Any]:
        return IndexedIterator(self, epoch)


def in_turns(data: rs.Pipeline[int]) -> rs.Pipeline[Any]:
    return rs.Pipeline(InTurns((data.stage, data.map(negative).stage), names=("plus", "minus")))


OF_USERS: dict[str, Callable[[rs.Pipeline[int]], rs.Pipeline[Any]]] = {
    "every third": lambda data: data.apply(Stride),
    "negative": lambda data: data.apply(Negative),
    "negative in epochs": lambda data: data.apply(Negative).shuffle(1).repeat(2),
}


@pytest.mark.parametrize("name", OF_USERS)
def test_a_stage_of_the_user_that_says_its_relation_leaves_records_out(name: str) -> None:
    pipeline = OF_USERS[name](rs.range(30).shuffle(3))
    excluded = pipeline.exclude([4, 7, 8, 22])
    assert list(excluded) == [item for item in pipeline if abs(item) not in (4, 7, 8, 22)]
    assert 0 < len(excluded) < len(pipeline)
    check_resumes_everywhere(excluded)


def test_the_inputs_of_a_stage_of_the_user_have_records_by_their_names() -> None:
    pipeline = in_turns(rs.range(9))
    excluded = pipeline.exclude({"plus": [2, 5], "minus": [0]})
    assert list(excluded) == [*[0, 1, -1, -2, 3, -3, 4, -4, -5], *[6, -6, 7, -7, 8, -8]]
    with pytest.raises(rs.InvalidArgument, match="must be a dict such as"):
        pipeline.exclude([2])


def test_a_stage_of_the_user_may_stand_between_a_stream_and_exclude() -> None:
    stream = rs.from_iterable(lambda: iter(range(9)))
    excluded = stream.apply(Negative).exclude({0: [], 3: [1, 6]})
    assert list(excluded) == [0, -1, -2, -3, -4, -5, -7, -8]
    check_resumes_everywhere(excluded)


@pytest.mark.parametrize(
    "pipeline",
    [
        rs.from_iterable(lambda: iter(range(9))).apply(Stride),
        rs.range(9).map(str).enumerate(),
        rs.range(9).shard(0, 2),
        rs.range(9).cache(),
        rs.range(9).exclude([3]),
        rs.from_iterable(lambda: iter(range(9))).random_map(lambda item, _: item, seed=1),
    ],
    ids=lambda pipeline: type(pipeline.stage).__name__,
)
def test_what_is_refused_although_an_index_is_known(pipeline: rs.Pipeline[Any]) -> None:
    with pytest.raises(rs.InvalidArgument, match="exclude needs items by their index"):
        pipeline.exclude([1])


@given(mask=RUNS.map(mask_of), first=st.integers(0, 9), step=st.integers(1, 4), data=st.data())
def test_items_that_are_dealt_out(
    mask: list[bool], first: int, step: int, data: st.DataObject
) -> None:
    stop = data.draw(st.integers(first, max(first, len(mask))))
    stage = Stride(rs.range(len(mask)).stage, first, step, stop)
    left_out = left_out_of(stage, 0, Records(np.flatnonzero(np.array(mask, np.bool_))))
    assert left_out is not None
    agrees(left_out, mask[first:stop:step], data)
