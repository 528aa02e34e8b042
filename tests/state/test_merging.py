"""States of ranks joined: in any order, in any groups, again; and refused where they do not fit."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import resumable as rs
from resumable.state.partitions import EPOCH_REACHED, TOP


def pipeline(rank: int, ranks: int) -> rs.Pipeline[Any]:
    return (
        rs.range(50)
        .shuffle(1)
        .partition(7, lambda part: part.filter(lambda number: number % 3).shuffle(0, window=3))
        .shard(rank, ranks)
    )


def states_of(make: Callable[[int, int], rs.Pipeline[Any]], steps: int) -> list[rs.State]:
    states = []
    for rank in range(3):
        with iter(make(rank, 3)) as iterator:
            for _ in islice(iterator, steps):
                pass
            states.append(iterator.get_state())
    return states


@given(
    st.integers(0, 15), st.permutations(range(3)), st.lists(st.integers(0, 2)), st.integers(1, 2)
)
def test_neither_order_nor_grouping_nor_repetition_matters(
    steps: int, order: list[int], again: list[int], cut: int
) -> None:
    states = states_of(pipeline, steps)
    whole = rs.merge_states(states)
    assert rs.merge_states([states[rank] for rank in [*order, *again]]) == whole
    parts = [rs.merge_states(states[:cut]), rs.merge_states(states[cut:])]
    assert rs.merge_states(parts) == rs.merge_states([whole, *parts]) == whole
    assert rs.merge_states([whole]) == whole
    assert whole["pipeline"]["partitions"] == [*range(7)]


def test_what_is_joined_is_not_changed_by_it_nor_shares_anything_with_it() -> None:
    states = states_of(pipeline, 4)
    before = [rs.dumps(state) for state in states]
    whole = rs.merge_states(states)
    whole["pipeline"]["positions"].clear()
    assert [rs.dumps(state) for state in states] == before


def running_sum(total: int, number: int) -> tuple[int, int]:
    return total + number, total + number


def with_words_of_ours(carry: dict[str, Any], number: int) -> tuple[dict[str, Any], int]:
    return {"partitions": carry["partitions"] + 1}, number


REFUSED: dict[str, tuple[Callable[[list[rs.State]], Any], str]] = {
    "another step": (
        lambda states: states_of(lambda rank, ranks: even(rank, ranks), 1)[:1]
        + states_of(lambda rank, ranks: even(rank, ranks), 2)[1:],
        r"differ: pipeline\.left is .* at different steps",
    ),
    "a window after shard": (
        lambda states: states_of(
            lambda rank, ranks: pipeline(rank, ranks).scan(running_sum, 0), 3
        ),
        r"Scan holds items of its rank after Partition at pipeline\.upstream, so each rank",
    ),
    "another step of partitions": (
        lambda states: [states[0], states_of(pipeline, 1)[1]],
        "differ: step is 3 in state 0 and 1 in state 1; were they saved at different steps",
    ),
    "another pipeline": (
        lambda states: [states[0], *states_of(lambda *rank: pipeline(*rank).take(9), 1)],
        "are they of different pipelines",
    ),
    "another epoch": (lambda states: [states[0], {**states[1], "epoch": 1}], "differ: epoch is 0 in state 0 and 1 in state 1"),
    "another epoch of a repeat": (
        lambda states: [began_in(0), began_in(1)],
        "differ: epoch is 0 in state 0 and 1 in state 1",
    ),
    "one partition at two places": (
        lambda states: [states[0], states_of(pipeline, 5)[0]],
        r"differ: partition 0 at pipeline is .*",
    ),
    "after an error": (
        lambda states: [states[0], {**states[1], "step": 9, "ahead": 2}],
        "saved after an error",
    ),
    "no state": (lambda states: [states[0], {"position": 3}], "not the state of a pipeline"),
    "bytes": (lambda states: [rs.dumps(states[0])], "not the state of a pipeline"),
    "an object": (lambda states: [object()], "this is not a state: .* holds a builtins.object"),
}  # fmt: skip


def began_in(epoch: int) -> rs.State:
    with rs.range(9).shuffle(0).repeat(2).start(epoch) as iterator:
        return iterator.get_state()


def even(rank: int, ranks: int) -> rs.Pipeline[Any]:
    return rs.range(20).partition(6, lambda part: part.map(abs)).shard(rank, ranks, uneven="drop")


@pytest.mark.parametrize("name", REFUSED)
def test_states_that_do_not_belong_together_are_refused_by_the_place(name: str) -> None:
    broken, words = REFUSED[name]
    with pytest.raises(rs.StateMismatch, match=words):
        rs.merge_states(broken(states_of(pipeline, 3)))
    with pytest.raises(rs.InvalidArgument, match="one rank or more"):
        rs.merge_states([])
    for none in (states_of(pipeline, 1)[0], None, 7):
        with pytest.raises(rs.InvalidType, match="must be a list of states, one of each rank"):
            rs.merge_states(none)  # type: ignore[arg-type]


def test_states_of_a_function_may_use_our_words() -> None:
    numbers = rs.range(9).scan(with_words_of_ours, {"partitions": 0})
    with iter(numbers) as iterator:
        next(iterator)
        state = iterator.get_state()
    assert rs.merge_states([state, state]) == state


JUNK: list[Any] = [
    *(None, True, 0, -1, 3, 10**5000, 0.5, float("nan"), "", "x", b"x", [], {}, (), [0], [None]),
    *([[]], {"partitions": 3}, {"partitions": [0]}, np.arange(2), np.arange(2)[0], object(), 2**64),
    *([0] * 20_000, ["x"] * 3, [True] * 7, {"a": [1, 2, 3]}),
]


def nested(value: Any, depth: int) -> Any:
    for _ in range(depth):
        value = {"a": value}
    return value


def damaged(state: Any, random: Random, junk: list[Any]) -> Any:
    """A copy of ``state`` with something else at a random place."""
    if isinstance(state, dict) and state and random.random() < 0.9:
        key = random.choice([*state])
        changed = {**state, key: damaged(state[key], random, junk)}
        if random.random() < 0.1:
            del changed[key]
        return changed
    if isinstance(state, list) and state and random.random() < 0.9:
        place = random.randrange(len(state))
        return [*state[:place], damaged(state[place], random, junk), *state[place + 1 :]]
    return random.choice(junk)


@pytest.mark.parametrize("make", [pipeline, even])
@given(st.randoms(use_true_random=False))
def test_hostile_states_are_joined_and_resumed_or_refused(
    make: Callable[[int, int], rs.Pipeline[Any]], random: Random
) -> None:
    states = states_of(make, 3)
    junk = [*JUNK, nested(0, 390), nested([0, 1], 390), nested(0, 500), [nested(0, 300)] * 3]
    broken = [damaged(state, random, junk) for state in states[: random.randint(1, 3)]]
    whole = broken[0]
    with suppress(rs.StateMismatch):
        whole = rs.merge_states(broken)
    for ranks in (3, 1):
        with suppress(rs.StateMismatch), make(0, ranks).resume(whole) as iterator:
            assert iterator.get_state()["step"] >= 0


def test_states_nested_too_deeply_for_what_is_left_of_the_stack_are_refused() -> None:
    state = {**states_of(pipeline, 1)[0], "pipeline": nested(0, 390)}

    def joined(depth: int) -> rs.State:
        return joined(depth - 1) if depth else rs.merge_states([state, state])

    assert joined(0) == state
    refused = 0
    left = sys.getrecursionlimit() - len(inspect.stack())
    for depth in range(left - 900, left - 100, 25):
        if refused:
            with pytest.raises(rs.StateMismatch, match="nested too deeply"):
                joined(max(depth, 0))
            continue
        try:
            assert joined(max(depth, 0)) == state
        except rs.StateMismatch:
            refused += 1
    assert refused


def test_a_state_has_the_keys_that_are_joined() -> None:
    keys = states_of(pipeline, 1)[0].keys()
    assert keys - {EPOCH_REACHED} == set(TOP)
    assert EPOCH_REACHED in keys
