"""Random numbers behind a partition belong to the item's place in its partition, whoever owns that."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import resumable as rs
from resumable.order.random_bits import derive, generator

SEED = 5
COUNT = 4


def drawn(item: Any, rng: np.random.Generator) -> tuple[Any, float]:
    return item, rng.random()


def kept(number: int) -> bool:
    return number % 5 > 0


def thirds(number: int) -> int:
    return number if number % 3 else 1 // 0


def inner(part: rs.Pipeline[int]) -> rs.Pipeline[int]:
    return part.filter(lambda number: number < 40 or number % 3 > 0)


# What may stand between the partitions and the random map; a pair of an item and a place goes through it.
BETWEEN: dict[str, Callable[[rs.Pipeline[Any]], rs.Pipeline[Any]]] = {
    "nothing": lambda numbers: numbers,
    "map": lambda numbers: numbers.map(abs),
    "filter": lambda numbers: numbers.filter(kept),
    "prefetch": lambda numbers: numbers.filter(kept).prefetch(3),
    "workers": lambda numbers: numbers.map(abs, workers=2).filter(kept),
    "repeat": lambda numbers: numbers.filter(kept).repeat(2),
    "random_map": lambda numbers: numbers.random_map(lambda item, rng: item, SEED).filter(kept),
}


def alone(length: int, between: str) -> dict[int, list[tuple[int, float]]]:
    """What each partition delivers, with numbers drawn by hand from its own positions."""
    found: dict[int, list[tuple[int, float]]] = {}
    for number in range(COUNT):
        items = list(inner(rs.from_sequence(range(number, length, COUNT))))
        keeps = [True if between in ("nothing", "map") else kept(item) for item in items]
        passes = 2 if between == "repeat" else 1
        found[number] = [
            (item, generator(derive(SEED, epoch), position * COUNT + number).random())
            for epoch in range(passes)
            for position, item in enumerate(items)
            if keeps[position]
        ]
    return found


def ranks_of(length: int, between: str, ranks: int, first: bool, workers: int) -> list[Any]:
    """The pipelines of all ranks, with the stages before or after the shard."""
    parts = rs.range(length).partition(COUNT, inner, workers=workers)
    made = []
    for rank in range(ranks):
        if first:
            dealt = BETWEEN[between](parts.shard(rank, ranks)).random_map(drawn, SEED)
        else:
            dealt = BETWEEN[between](parts).random_map(drawn, SEED).shard(rank, ranks)
        made.append(dealt)
    return made


@given(
    st.integers(4, 90),
    st.sampled_from([*BETWEEN]),
    st.lists(
        st.tuples(st.integers(1, 4), st.booleans(), st.integers(0, 1), st.integers(0, 12)),
        min_size=2,
        max_size=3,
    ),
)
def test_whoever_owns_a_partition_its_items_meet_the_same_numbers(
    length: int, between: str, plan: list[tuple[int, bool, int, int]]
) -> None:
    done: list[tuple[int, float]] = []
    state = None
    if between == "repeat":  # partitions that end early go on with the next epoch, as said there
        plan = [(1, first, workers, steps) for _, first, workers, steps in plan]
    for ranks, first, workers, steps in [*plan, (1, True, 0, 10**6)]:
        states = []
        for pipeline in ranks_of(length, between, ranks, first, workers):
            with iter(pipeline) if state is None else pipeline.resume(state) as iterator:
                done += islice(iterator, steps)
                states.append(rs.loads(rs.dumps(iterator.get_state())))
        state = rs.merge_states(states)
    by_partition = {
        number: [pair for pair in done if pair[0] % COUNT == number] for number in range(COUNT)
    }
    assert by_partition == alone(length, between)


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_a_state_near_the_end_of_one_rank_is_taken_by_all(ranks: int) -> None:
    made = ranks_of(15, "map", ranks, True, 0)
    states = []
    for pipeline in made:
        with iter(pipeline) as iterator:
            iterator.skip(4)
            states.append(iterator.get_state())
    whole = rs.merge_states(states)
    rest = [item for pipeline in made for item in pipeline.resume(whole)]
    assert sorted(rest) == sorted(item for one in made for item in list(one)[4:])


@given(
    st.lists(st.tuples(st.sampled_from(["skip", "pull", "next"]), st.integers(0, 9)), max_size=6)
)
def test_items_passed_over_or_taken_together_meet_the_numbers_of_those_taken_one_by_one(
    moves: list[tuple[str, int]],
) -> None:
    (pipeline,) = ranks_of(60, "filter", 1, True, 0)
    with iter(pipeline) as iterator, iter(pipeline) as one_by_one:
        for move, size in moves:
            taken = list(islice(one_by_one, size))
            if move == "skip":
                assert iterator.skip(size) == len(taken)
            else:
                assert (
                    iterator.pull(size) if move == "pull" else list(islice(iterator, size))
                ) == taken
            assert iterator.get_state() == one_by_one.get_state()
        assert list(iterator) == list(one_by_one)


def test_an_item_that_is_padded_meets_its_numbers_again() -> None:
    parts = rs.range(9).partition(COUNT, lambda part: part.map(abs))
    padded = list(parts.shard(3, 4, uneven="pad").random_map(drawn, SEED))
    assert [item for item, _ in padded] == [3, 7, 7]
    assert padded[1] == padded[2]


def test_processes_draw_what_the_loop_would() -> None:
    pytest.importorskip("loky")
    parts = rs.range(30).partition(COUNT, inner).filter(kept)
    with iter(parts.random_map(drawn, SEED, workers=2, executor="process")) as iterator:
        assert list(iterator) == list(parts.random_map(drawn, SEED))


COUNTS: dict[str, Callable[[rs.Pipeline[Any]], rs.Pipeline[Any]]] = {
    "batch": lambda rank: rank.batch(2, collate=tuple).random_map(drawn, SEED),
    "flat_map": lambda rank: rank.flat_map(lambda item: [item, item]).random_map(drawn, SEED),
    "take": lambda rank: rank.take(9).random_map(drawn, SEED),
    "dropping": lambda rank: rank.random_map(
        lambda item, rng: (thirds(item), rng.random()), SEED, on_error="skip"
    ),
}


@pytest.mark.parametrize("name", COUNTS)
def test_what_counts_the_items_of_a_rank_goes_on_as_that_rank_alone(name: str) -> None:
    def rank_of(rank: int, ranks: int) -> rs.Pipeline[Any]:
        return COUNTS[name](rs.range(60).partition(COUNT, inner).shard(rank, ranks))

    with iter(rank_of(1, 2)) as iterator:
        first = list(islice(iterator, 4))
        state = rs.loads(rs.dumps(iterator.get_state()))
    assert first + list(rank_of(1, 2).resume(state)) == list(rank_of(1, 2))
    for rank, ranks in ((0, 2), (0, 1), (1, 3)):
        with pytest.raises(rs.StateMismatch, match=r"ranks|index"):
            rank_of(rank, ranks).resume(state)


def test_errors_name_the_stage_that_the_user_wrote() -> None:
    pipeline = rs.range(30).partition(COUNT, inner).map(abs).random_map(drawn, SEED)
    state = iter(pipeline).get_state()
    state["pipeline"]["upstream"]["upstream"]["ended"] = [0] * COUNT
    with pytest.raises(
        rs.StateMismatch, match=r"Partition at pipeline\.upstream\.upstream: saved ended"
    ):
        pipeline.resume(state)


def test_dropped_items_within_the_partitions_are_counted_at_their_stage() -> None:
    parts = rs.range(24).partition(COUNT, lambda part: part.map(thirds, on_error="skip"))
    with iter(parts.random_map(drawn, SEED)) as iterator:
        assert len(list(iterator)) == 16
        assert iterator.skipped == {"pipeline.upstream.upstream": 8}


def fails_at_11(item: dict[str, str], *rng: np.random.Generator) -> dict[str, str]:
    if item["__key__"] == "k11":
        raise KeyError("text")
    return item


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_names_the_stage_and_the_item_that_the_user_knows(workers: int) -> None:
    keyed = rs.range(30).map(lambda number: {"__key__": f"k{number}"})
    parts = keyed.partition(COUNT, lambda part: part.filter(bool))
    for pipeline, stage in (
        (parts.random_map(fails_at_11, SEED, workers=workers), "RandomMap(fn=fails_at_11"),
        (parts.map(fails_at_11, workers=workers).random_map(drawn, SEED), "Map(fn=fails_at_11"),
    ):
        with pytest.raises(KeyError) as raised, iter(pipeline) as iterator:
            list(iterator)
        (note,) = getattr(raised.value, "__notes__")  # noqa: B009  # mypy knows it from 3.11 on
        assert f" of {stage}" in note
        assert "__key__ 'k11'" in note


def test_a_state_of_0_2_is_refused_with_what_it_did() -> None:
    pipeline = rs.range(30).partition(COUNT, inner).shard(0, 2).random_map(drawn, SEED)
    state = iter(pipeline).get_state()
    older = {
        **state,
        "fingerprint": state["fingerprint"].replace(',"over_partitions":true', ""),
        "pipeline": {"position": 0, **state["pipeline"]},
    }
    assert older["fingerprint"] != state["fingerprint"]
    with pytest.raises(
        rs.StateMismatch,
        match=r"RandomMap at pipeline: saved seed by partition=False, this pipeline has seed by "
        r"partition=True; .*Version 0.2 gave .* random numbers that depended on the number of ranks",
    ):
        pipeline.resume(older)
