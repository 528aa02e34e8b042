"""Stages whose upstreams take turns, however many items they are asked for at once."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
from support.graphs import stream

import resumable as rs
from resumable.core import combine
from resumable.core.block import block_items
from resumable.testing.laws import states_along, through_bytes

MEBIBYTE = 1 << 20

KINDS: dict[str, Callable[[], rs.Pipeline[Any]]] = {
    "interleave": lambda: rs.interleave(stream(7), stream(1), stream(23), block_length=2),
    "interleave of ranges": lambda: rs.interleave(rs.range(7), rs.range(1), rs.range(23)),
    "interleave of one": lambda: rs.interleave(stream(11)),
    "mix": lambda: rs.mix(stream(7), stream(20), weights=(1, 2), stop="all"),
    "mix with a seed": lambda: rs.mix(stream(7), stream(2), stream(9), seed=1, stop="all"),
    "mix that ends with the first": lambda: rs.mix(
        rs.range(15).shuffle(0, window=2), rs.range(5).shuffle(0, window=3), seed=1
    ),
    "mix that begins inputs again": lambda: rs.mix(
        rs.range(9).shuffle(0, window=2), rs.range(4).shuffle(0, window=3), stop="cycle"
    ),
    "partition": lambda: rs.range(40).partition(4, lambda part: part.filter(lambda n: n % 3)),
    "partition of few": lambda: rs.range(21).partition(
        3, lambda part: part.filter(lambda n: n % 3 == 1 or n > 15)
    ),
    "empty": lambda: rs.interleave(stream(0), stream(0)),
}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("turns", [1, 3, 8])
def test_turns_that_are_planned_a_few_at_a_time_give_the_items_and_states_of_a_loop(
    name: str, turns: int
) -> None:
    pipeline = KINDS[name]()
    items = list(pipeline)
    states = states_along(pipeline, len(items))
    with mock.patch.object(combine, "PLANNED_AT_ONCE", turns):
        for first in range(0, len(items) + 1, 4):
            for count in (turns, turns + 1, 3 * turns, 10**6):
                with pipeline.resume(rs.loads(states[first])) as iterator:
                    assert list(block_items(iterator.pull(count))) == items[first : first + count]
                    if first + count <= len(items):
                        assert through_bytes(iterator) == states[first + count]
                    assert list(iterator) == items[first + count :]


@pytest.mark.parametrize("name", KINDS)
def test_asking_for_far_more_items_than_there_are_takes_no_memory_for_them(name: str) -> None:
    pipeline = KINDS[name]()
    expected = list(pipeline)
    tracemalloc.start()
    try:
        batches = list(pipeline.batch(1 << 22, collate=list))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert batches == ([expected] if expected else [])
    assert peak < 8 * MEBIBYTE
