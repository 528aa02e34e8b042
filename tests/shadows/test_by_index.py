"""Which records an item was made of, and which items a record is in, follows from relations alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.graphs import catalogue

import resumable as rs
from resumable.checkpoint.tracing import steps_of_run, traced_step
from resumable.core import IndexedIterator, Relation, StageIterator, Transform
from resumable.core.graph import walk
from resumable.core.origin import BatchOrigin, Name, Origin
from resumable.core.record_source import RecordSource, kind_of_source
from resumable.core.relation import Grouped, Repeated, Sliced
from resumable.shadows.by_index import (
    ItemSpan,
    Sought,
    end_of_epoch,
    follows_from_relations,
    items_with,
    origins_at,
)
from resumable.stages.unbatch import Unbatch
from resumable.testing import pipelines

MOST = 300


def twice(item: int) -> list[int]:
    return [item] * 2


Shape = Callable[[rs.Pipeline[Any]], rs.Pipeline[Any]]

SHAPES: dict[str, Shape] = {
    "shuffle": lambda numbers: numbers.shuffle(1),
    "in blocks": lambda numbers: numbers.shuffle(1, block=4),
    "batches": lambda numbers: numbers.batch(3),
    "whole batches": lambda numbers: numbers.batch(3, drop_last=True),
    "overlap": lambda numbers: numbers.window(5, shift=2),
    "gaps": lambda numbers: numbers.window(2, shift=5, drop_last=True),
    "expanded": lambda numbers: numbers.flat_map(twice, size=2),
    "rows of batches": lambda numbers: numbers.take(6).batch(2).unbatch(size=2),
    "repeat": lambda numbers: numbers.shuffle(2).repeat(3),
    "without end": lambda numbers: numbers.shuffle(2).repeat(),
    "kept": lambda numbers: numbers.map(abs).cache(),
    "padded": lambda numbers: numbers.shard(2, 3, uneven="pad"),
    "dealt": lambda numbers: numbers.shard(1, 3),
    "part": lambda numbers: numbers.skip(3).take(9),
    "drawn": lambda numbers: numbers.sample([1.0] * len(numbers), seed=3, count=9),
    "numbered": lambda numbers: numbers.enumerate(),
    "random": lambda numbers: numbers.random_map(lambda item, rng: item, seed=1),
    "mixture": lambda numbers: rs.mix({"a": numbers, "b": rs.range(20).map(abs)}, seed=2),
    "cycle": lambda numbers: rs.mix(
        rs.range(5).shuffle(1), numbers, weights=[1, 2], stop="cycle", seed=1
    ),
    "all": lambda numbers: rs.mix(rs.range(3), numbers, stop="all"),
    "mixture of joined": lambda numbers: rs.mix(
        {"b": rs.concatenate({"c": numbers}), "c": numbers}
    ),
    "joined": lambda numbers: rs.concatenate(rs.range(5), numbers),
    "rows": lambda numbers: rs.zip(numbers, rs.range(12).shuffle(1), strict=False),
}
SOURCES = st.sampled_from(
    [
        rs.range(12),
        rs.range(30).exclude([3, 4, 7]),
        rs.range(8).shuffle(0).repeat(3).exclude({0: [], 12: [3, 4]}),
        rs.by_epoch({0: rs.range(7), 2: rs.range(9)}),
        rs.by_epoch({0: rs.range(7).shuffle(1), 1: rs.range(9)}).repeat(4),
    ]
)


@st.composite
def chains(draw: st.DrawFn) -> rs.Pipeline[Any]:
    """Pipelines with random access, of a few of these shapes."""
    pipeline: rs.Pipeline[Any] = draw(SOURCES)
    for name in draw(st.lists(st.sampled_from(sorted(SHAPES)), max_size=4)):
        try:
            pipeline = SHAPES[name](pipeline)
        except (rs.ResumableError, TypeError):  # such as an endless one that is shuffled
            assume(False)
    return pipeline


def came_through(inputs: tuple[Name, ...], record: Origin) -> bool:
    return record.inputs == inputs


def check_items(pipeline: rs.Pipeline[Any], number: int, start: int) -> None:
    """See that the items found with record ``number`` are those found by their origins."""
    stage = pipeline.stage
    stop = int(min(stage.length or 0, MOST))
    origins = origins_at(stage, 0, np.arange(stop))
    ways = {record.inputs for origin in origins for record in origin.records()}
    for inputs in ways:
        sought = Sought(number, partial(came_through, inputs))
        expected = [index for index, one in enumerate(origins) if sought.is_in(one)]
        for first in (0, min(start, stop)):
            found = items_with(sought, ItemSpan(stage, 0, first, stop)).tolist()
            if any(isinstance(one, Unbatch) for one, _ in walk(stage)):
                found = [index for index in found if sought.is_in(origins[index])]
            assert found == [index for index in expected if index >= first], pipeline


@given(chains() | pipelines(), st.integers(0, 30), st.integers(0, 40))
def test_the_items_with_a_record_are_those_whose_origins_have_it(
    pipeline: rs.Pipeline[Any], number: int, start: int
) -> None:
    assume(follows_from_relations(pipeline.stage))
    check_items(pipeline, number, start)


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("number", [0, 8, 12])
def test_a_record_is_found_behind_each_stage(name: str, number: int) -> None:
    check_items(SHAPES[name](rs.range(13)), number, 3)


def test_a_source_knows_its_items_by_the_numbers_of_their_records(catalogue_data: Path) -> None:
    sources = [make().stage for make in catalogue(catalogue_data).values()]
    for source in sources:
        if source.inputs or not source.random_access:
            continue
        origins = kind_of_source(source)._origins(source, np.arange(len(source)))
        for record in {origin.record for origin in origins[:30]}:
            expected = [number for number, one in enumerate(origins) if one.record == record]
            assert kind_of_source(source)._numbers_with(source, record).tolist() == expected, source


@pytest.mark.parametrize("name", SHAPES)
def test_a_relation_and_its_inverse_agree(name: str) -> None:
    relation = SHAPES[name](rs.range(13)).stage.relation(0)
    if relation is None or isinstance(relation, Repeated):  # whose inputs are its epochs
        return
    outputs = np.arange(int(min(relation.length or 0, MOST)))
    for number, length in enumerate(relation.lengths):
        for item in range(int(min(length or 0, 20))):
            made = [relation.inputs_of(outputs[at : at + 1]) for at in outputs]
            expected = [
                at
                for at, one in enumerate(made)
                if item
                in one.indices[slice(None) if one.numbers is None else one.numbers == number]
            ]
            found = relation.outputs_of(number, np.array([item]))
            assert found[found < len(outputs)].tolist() == expected, (number, item)


def test_a_record_among_a_thousand_million_is_found_without_looking_at_the_others() -> None:
    pipeline = rs.range(10**9).shuffle(3).batch(256).shuffle(4)
    sought = Sought(123_456_789, lambda record: True)
    with patch.object(
        RecordSource, "_origins", autospec=True, side_effect=RecordSource._origins
    ) as asked:
        (found,) = steps_of_run(rs.Memory(), lambda ranks: pipeline.stage, sought=sought)
    assert sum(len(call.args[1]) for call in asked.call_args_list) < 10**5
    assert 123_456_789 in pipeline[found.step - 1].tolist()
    endless = rs.range(10**9).shuffle(3).repeat().batch(256)
    batches = items_with(sought, ItemSpan(endless.stage, 0, 5 * 10**6, 9 * 10**6)).tolist()
    assert all(123_456_789 in endless[index].tolist() for index in batches)
    assert [256 * index // 10**9 for index in batches] == [1, 2]


@given(chains(), st.integers(0, 40))
def test_the_end_of_an_epoch_is_where_the_iterator_sees_another(
    pipeline: rs.Pipeline[Any], index: int
) -> None:
    assume(follows_from_relations(pipeline.stage))
    assume(index < int(min(pipeline.stage.length or 0, MOST)))
    end = end_of_epoch(pipeline.stage, 0, index)
    with iter(rs.origins(pipeline)) as iterator:
        iterator.skip(index)
        next(iterator)
        epochs = [iterator.epoch]
        epochs += [iterator.epoch for _ in islice(iterator, MOST)]
    if end is not None and end < index + MOST:
        assert len(set(epochs[: end - index])) == 1
        assert epochs[0] not in epochs[end - index :]


class EachSecond(Transform[Any]):
    """A stage of a user, which says of what its items are made and nothing more."""

    def relation(self, epoch: int) -> Relation:
        return Sliced(self, epoch, start=1, step=2)

    def start(self, epoch: int = 0) -> StageIterator[Any]:
        return IndexedIterator(self, epoch)


class Sums(Transform[int]):
    """Another one, which looks at the items of a group."""

    def relation(self, epoch: int) -> Relation:
        return Grouped(self, epoch, size=3, make=lambda block: int(np.sum(block)))

    def start(self, epoch: int = 0) -> StageIterator[int]:
        return IndexedIterator(self, epoch)


def test_a_stage_of_the_user_that_says_its_relation_has_origins() -> None:
    pipeline = rs.range(20).shuffle(1).apply(EachSecond).apply(Sums).shuffle(2)
    shadow = rs.origins(pipeline)
    assert len(shadow) == len(pipeline) == 4
    for origin, item in zip(shadow, pipeline, strict=True):
        assert isinstance(origin, BatchOrigin)
        assert sum(one.record for one in origin.records()) == item
    assert shadow[1] == list(shadow)[1]
    check_items(pipeline, pipeline[1] % 20, 0)
    (found,) = traced_step(rs.Memory(), lambda ranks: pipeline.stage, 3)
    assert found.origin == shadow[2]
