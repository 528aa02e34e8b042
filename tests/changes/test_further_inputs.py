"""Inputs that are added at the end of a concatenation while a run goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

import numpy as np
import pytest
from changes.test_weights import INPUTS, MOST, ONLY_BY_INDEX, STEPS, read, with_steps
from hypothesis import given, reject
from hypothesis import strategies as st
from support.tiers import thinned

import resumable as rs
from resumable.testing.comparing import assert_same

Make = Callable[[int], rs.Pipeline[Any]]
KINDS: Mapping[str, Callable[[int], rs.Pipeline[Any]]] = {
    **INPUTS,
    "none": lambda start: rs.range(start, start),
}


@st.composite
def makers(draw: st.DrawFn) -> Make:
    """Pipelines of as many inputs, one after another, and of up to two stages after them."""
    kinds = draw(st.lists(st.sampled_from(list(KINDS)), min_size=4, max_size=4))
    sizes = draw(st.lists(st.integers(1, 12), min_size=4, max_size=4))
    names = draw(st.lists(st.sampled_from([*STEPS, *ONLY_BY_INDEX]), max_size=2))

    def make(count: int) -> rs.Pipeline[Any]:
        inputs = [
            KINDS[kind](100 * number).take(size)
            for number, (kind, size) in enumerate(zip(kinds, sizes, strict=True))
        ]
        made = rs.concatenate(*inputs[:count])
        return with_steps(made, names, all(one.random_access for one in inputs))

    make.__name__ = " | ".join([*map(str, zip(kinds, sizes, strict=True)), *names])
    return make


@given(make=makers(), cuts=st.lists(st.integers(0, 15), min_size=3, max_size=3))
def test_further_inputs_are_read_after_those_there_were_or_are_refused(
    make: Make, cuts: list[int]
) -> None:
    try:
        passed, state = read(make(1), cuts[0])
    except rs.InvalidArgument:
        reject()  # threads before a stage that looks items up
    count = 1
    for number, cut in enumerate(cuts, start=2):
        try:
            make(number).resume(state).close()
            count = number
        except rs.StateMismatch:
            if count != number - 1:
                break
        items, state = read(make(count), cut, state)
        passed += items
        assert_same(passed, read(make(count), len(passed))[0], make.__name__)
    rest, _ = read(make(count), MOST, state)
    assert_same(passed + rest, read(make(count), len(passed) + MOST)[0], make.__name__)


@pytest.mark.parametrize(
    ("name", "kind"), thinned(product([*STEPS, *ONLY_BY_INDEX], INPUTS), 40, "further inputs")
)
def test_further_inputs_are_accepted_before_the_end_and_refused_there(name: str, kind: str) -> None:
    step = {**STEPS, **ONLY_BY_INDEX}[name]

    def make(count: int) -> rs.Pipeline[Any]:
        return step(rs.concatenate(*(INPUTS[kind](100 * number) for number in range(count))))

    if name in ONLY_BY_INDEX and not INPUTS[kind](0).random_access:
        return
    _, state = read(make(2), 3)
    reads_all = name in ("shuffle", "shuffle of blocks", "cache")
    if not reads_all:
        make(3).resume(state).close()
    if name in ("take", "take while", "zip"):
        return  # they end before
    _, state = read(make(2), MOST)
    with pytest.raises(rs.StateMismatch, match=r"none can follow them|with 2 upstreams"):
        make(3).resume(state)


def test_a_partition_that_has_seen_its_end_stands_there_though_others_are_far_from_it() -> None:
    def make(*stops: int) -> rs.Pipeline[int]:
        numbers = rs.concatenate(*(rs.range(stop) for stop in stops))
        return numbers.partition(2, lambda part: part.filter(lambda number: number % 2 == 0))

    _, state = read(make(5), 2)  # the partition of 1 and 3 has ended, the other one is at 2
    with pytest.raises(
        rs.StateMismatch, match="the end of the inputs that there were may have been read"
    ):
        make(5, 7).resume(state)


@pytest.mark.parametrize("joined", [rs.concatenate, rs.mix])
def test_a_state_without_any_input_is_refused(joined: Callable[..., rs.Pipeline[int]]) -> None:
    pipeline = joined({"a": rs.range(9)})
    _, state = read(pipeline, 3)
    saved = state["fingerprint"]
    state["fingerprint"] = saved.replace(',["Range",{"stop":9}]', "")
    assert state["fingerprint"] != saved
    with pytest.raises(rs.StateMismatch):
        pipeline.resume(state)


def test_where_nothing_more_can_follow() -> None:
    corpora = {"a": rs.range(10), "b": rs.range(10, 20)}
    _, state = read(rs.concatenate(corpora), 19)
    more = {**corpora, "c": rs.range(20, 30)}
    assert list(rs.concatenate(more).resume(state)) == list(range(19, 30))
    renamed = {"a": rs.range(10), "x": rs.range(10, 20), "c": rs.range(20, 30)}
    with pytest.raises(rs.StateMismatch, match="saved names of pipelines="):
        rs.concatenate(renamed).resume(state)
    with pytest.raises(rs.StateMismatch, match="must have it too"):
        rs.concatenate({**corpora, "c": rs.from_iterable(lambda: iter(()))}).resume(state)
    with pytest.raises(rs.StateMismatch, match="items of the form"):
        rs.concatenate({**corpora, "c": rs.from_arrays(np.ones(3))}).resume(state)
    _, state = read(rs.concatenate(corpora), 20)
    with pytest.raises(
        rs.StateMismatch, match="the end of the inputs that there were may have been read"
    ):
        rs.concatenate(more).resume(state)
    _, state = read(rs.concatenate(corpora).repeat(), 25)
    with pytest.raises(
        rs.StateMismatch, match="the end of the inputs that there were may have been read"
    ):
        rs.concatenate(more).repeat().resume(state)
