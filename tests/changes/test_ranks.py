"""Weights that change behind ranks: all accept the change at one item, however many they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from itertools import chain, islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.advised import advised

import resumable as rs

Timeline = Mapping[int, tuple[int, int]]
Make = Callable[[Timeline, int, int], rs.Pipeline[Any]]
SAVED_EVERY = 2


def mixed(weights: Timeline) -> rs.Pipeline[Any]:
    return rs.mix(rs.range(70).shuffle(1), rs.range(100, 170), weights=weights, seed=2)


def first_of(batch: Any) -> Any:
    return batch[0]


def numbers_from(start: int) -> rs.Pipeline[int]:
    return rs.from_iterable(lambda: iter(range(start, start + 70)))


def as_stream(weights: Timeline) -> rs.Pipeline[Any]:
    return rs.mix(numbers_from(0), numbers_from(100), weights=weights).prefetch(2)


DEALS: Mapping[str, Make] = {
    "shard": lambda weights, rank, ranks: mixed(weights).shard(rank, ranks).map(str, workers=2),
    "shard, batch": lambda weights, rank, ranks: (
        mixed(weights).shard(rank, ranks).batch(1).map(first_of)
    ),
    "shard of a stream": lambda weights, rank, ranks: as_stream(weights).shard(rank, ranks),
    "partition": lambda weights, rank, ranks: (
        mixed(weights).partition(6, lambda part: part.map(str)).shard(rank, ranks)
    ),
    "partition in workers": lambda weights, rank, ranks: (
        mixed(weights)
        .partition(6, lambda part: part.map(str), workers=2, executor="thread")
        .shard(rank, ranks)
    ),
}


def loops(store: rs.Memory, make: Make, weights: Timeline, ranks: int) -> list[Any]:
    """The loops of all ranks where the newest checkpoint left them."""
    return [
        rs.Checkpointer(
            store, rs.EverySteps(SAVED_EVERY), rank=rank, ranks=ranks, save_at_end=False
        ).resume(make(weights, rank, ranks))
        for rank in range(ranks)
    ]


def item_for_change(store: rs.Memory, make: Make, weights: Timeline, ranks: int) -> int:
    """The first item from which on all ranks accept other weights."""
    other = {0: (1, 50)}
    firsts = [0]
    for rank in range(ranks):
        checkpointer = rs.Checkpointer(store, rs.EverySteps(2), rank=rank, ranks=ranks)
        try:
            checkpointer.resume(make(other, rank, ranks)).close()
        except rs.StateMismatch as error:
            firsts.append(max(advised(error) or {}))
    return max(firsts)


@pytest.mark.parametrize("name", DEALS)
@given(
    eras=st.lists(
        st.tuples(st.sampled_from([1, 2, 3]), st.integers(2, 5), st.integers(0, 5)),
        min_size=2,
        max_size=3,
    )
)
def test_ranks_and_weights_change_together(name: str, eras: list[tuple[int, int, int]]) -> None:
    make, store, weights = DEALS[name], rs.Memory(), {0: (7, 3)}
    passed: list[Any] = []
    for number, (ranks, steps, ahead) in enumerate(eras):
        if number:
            first = item_for_change(store, make, weights, ranks) + ahead
            weights = {item: pair for item, pair in weights.items() if item < first}
            weights[first] = (number, 4 - number)
        for loop in loops(store, make, weights, ranks):
            passed += islice(loop, steps // SAVED_EVERY * SAVED_EVERY)
            next(loop)  # the loop comes back, so the last of these steps is saved
    ranks = eras[-1][0]
    rest = chain.from_iterable(loops(store, make, weights, ranks))
    got, expected = Counter(map(int, chain(passed, rest))), Counter(map(int, make(weights, 0, 1)))
    assert got <= expected
    # The last round is left out if it is short.
    assert (expected - got).total() < max(ranks for ranks, _, _ in eras)


def test_inputs_join_within_partitions_while_ranks_and_workers_change() -> None:
    counts = {"web": 60, "code": 40, "math": 50}

    def made(
        weights: Mapping[int, Mapping[str, int]], rank: int, ranks: int, **options: Any
    ) -> rs.Pipeline[int]:
        names = [name for name in counts if any(name in each for each in weights.values())]
        sources = {
            name: rs.range(100 * place, 100 * place + counts[name]).shuffle(place)
            for place, name in enumerate(names)
        }
        parts = rs.partition(
            sources, 5, lambda **own: rs.mix(own, weights=weights, seed=1).map(int), **options
        )
        return parts.shard(rank, ranks).prefetch(2)

    store, weights = rs.Memory(), {0: {"web": 3, "code": 1}}
    eras: list[tuple[int, dict[str, Any]]] = [
        (2, {"workers": 2}),
        (3, {"workers": 1, "executor": "process"}),
        (1, {}),
    ]
    passed: list[int] = []
    for number, (ranks, options) in enumerate(eras):
        if number:
            # The partition that is furthest decides from where on.
            wrong, told = {0: {"web": 1, "code": 9, "math": 1}}, [0]
            for rank in range(ranks):
                checkpointer = rs.Checkpointer(store, rs.EverySteps(2), rank=rank, ranks=ranks)
                with pytest.raises(rs.StateMismatch) as refused:
                    checkpointer.resume(made(wrong, rank, ranks))
                told.append(max(advised(refused.value) or {}))
            weights[max(told)] = {"code": 1, "math": number}
        checkpointers = [
            rs.Checkpointer(store, rs.EverySteps(2), rank=rank, ranks=ranks, save_at_end=False)
            for rank in range(ranks)
        ]
        running = [
            checkpointer.resume(made(weights, rank, ranks, **options))
            for rank, checkpointer in enumerate(checkpointers)
        ]
        for loop in running:
            passed += islice(loop, 6) if number < 2 else loop
            if number < 2:
                next(loop)  # the loop comes back, so the last of these steps is saved
        for checkpointer in checkpointers:
            checkpointer.close()
    assert len(weights) == 3
    assert Counter(passed) == Counter(made(weights, 0, 1))


def resumed(make: Make, weights: Timeline, ranks: int, states: list[Any]) -> list[list[Any]]:
    """What is left on each rank."""
    return [list(make(weights, rank, ranks).resume(states[rank])) for rank in range(ranks)]


def begun(
    make: Make, weights: Timeline, ranks: int, steps: int
) -> tuple[list[list[Any]], list[Any]]:
    """What came in the first steps of each rank, and the states then."""
    items, states = [], []
    for rank in range(ranks):
        with iter(make(weights, rank, ranks)) as iterator:
            items.append(list(islice(iterator, steps)))
            states.append(iterator.get_state())
    return items, states


def test_ranks_that_end_at_one_step_only_after_the_change_go_on() -> None:
    def make(weights: Timeline, rank: int, ranks: int) -> rs.Pipeline[Any]:
        made = rs.mix(rs.range(30), rs.range(100, 130), weights=weights)
        return made.shard(rank, ranks, uneven="keep").shuffle(1, window=3)

    before, after = {0: (2, 1)}, {0: (2, 1), 24: (1, 1)}
    whole, changed = (
        [len(list(make(each, rank, 2))) for rank in range(2)] for each in (before, after)
    )
    assert whole[0] != whole[1]
    assert changed[0] == changed[1]
    passed, states = begun(make, before, 2, 8)
    rest = resumed(make, after, 2, states)
    for rank in range(2):
        assert passed[rank] + rest[rank] == list(make(after, rank, 2))
    with pytest.raises(rs.StateMismatch, match="saved index=0, this pipeline has index=1"):
        make(after, 1, 2).resume(states[0])


@pytest.mark.parametrize("uneven", ["drop", "pad"])
def test_how_many_steps_are_left_after_a_change_needs_the_state_of_all_partitions(
    uneven: str,
) -> None:
    def make(weights: Timeline, rank: int, ranks: int) -> rs.Pipeline[Any]:
        sources = {"a": rs.range(31), "b": rs.range(100, 131)}
        parts = rs.partition(sources, 4, lambda a, b: rs.mix(a, b, weights=weights).map(int))
        return parts.shard(rank, ranks, uneven=uneven)

    before, after = {0: (2, 1)}, {0: (2, 1), 6: (1, 3)}
    passed, states = begun(make, before, 2, 9)
    with pytest.raises(rs.StateMismatch, match="join the states of all ranks with merge_states"):
        make(after, 0, 2).resume(states[0])
    joined = rs.merge_states(states)
    for rank, rest in enumerate(resumed(make, after, 2, [joined, joined])):
        assert passed[rank] + rest == list(make(after, rank, 2))
    # A rank that has ended repeats items by the number of steps that are left.
    _, states = begun(make, before, 2, 24)
    joined = rs.merge_states(states)
    changed = make({0: (2, 1), 50: (1, 3)}, 1, 2)
    if uneven == "pad":
        with pytest.raises(rs.StateMismatch, match="cannot be changed here"):
            changed.resume(joined)
    else:
        assert list(changed.resume(joined)) == []


def test_the_only_rank_goes_on_after_a_change() -> None:
    def make(weights: Timeline, rank: int, ranks: int) -> rs.Pipeline[Any]:
        made = mixed(weights).shard(rank, ranks, uneven="keep")
        return rs.mix(made, rs.range(900, 960))

    after = {0: (2, 1), 12: (1, 1)}
    passed, states = begun(make, {0: (2, 1)}, 1, 9)
    assert passed[0] + resumed(make, after, 1, states)[0] == list(make(after, 0, 1))
