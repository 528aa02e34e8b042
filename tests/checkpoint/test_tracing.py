"""Steps of a run lead to the records that they were made of, and records to their steps."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shadows.test_labelled import labels_in, records_in

import resumable as rs
from resumable.checkpoint.tracing import StageOfRanks, steps_of_run, traced_step
from resumable.core.stage import Stage
from resumable.errors import InvalidArgument, StateMismatch
from resumable.shadows.by_index import Sought
from resumable.views.origin_rows import origin_rows

Make = Callable[[int, int], rs.Pipeline[Any]]

RUNS: dict[str, Make] = {
    "batches by index": lambda rank, ranks: rs.range(90).shuffle(0).batch(2).shard(rank, ranks),
    "epochs": lambda rank, ranks: rs.range(7).shuffle(0).repeat(9).shard(rank, ranks),
    "a stream": lambda rank, ranks: (
        rs.from_iterable(lambda: iter(range(200)))
        .filter(lambda number: number % 3)
        .shuffle(seed=0, window=5)
        .shard(rank, ranks)
        .prefetch(2)
    ),
    "partitions": lambda rank, ranks: (
        rs.range(400)
        .partition(6, lambda part: part.filter(lambda number: number % 5).batch(2), workers=2)
        .shard(rank, ranks)
    ),
    "rows": lambda rank, ranks: (
        rs.range(300)
        .map(lambda number: {"tokens": [1] * (number % 4 + 1), "n": number})
        .pack(8, key="tokens", per_document=("n",), group=16)
        .map(lambda row: row["n"])
        .shard(rank, ranks)
    ),
    "a part of each batch": lambda rank, ranks: (
        rs.range(400)
        .partition(6, lambda part: part.filter(lambda number: number % 5))
        .shard(rank, ranks)
        .batch(6 // ranks)
    ),
}


def as_it_is(stage: Stage[Any]) -> StageOfRanks:
    """The same pipeline for any number of ranks."""
    return lambda _: stage


def of_ranks(make: Make) -> StageOfRanks:
    """The pipeline as so many ranks have it."""
    return lambda ranks: make(0, ranks or 1).stage


Seen = dict[tuple[int, int], list[int]]


def run(store: rs.Store, make: Make, generations: list[tuple[int, int]], every: int) -> Seen:
    """What each step of each rank had, in the end, of a run that is killed after so many steps."""
    seen: Seen = {}
    for ranks, steps in generations:
        checkpointers = [
            rs.Checkpointer(store, rs.EverySteps(every), rank=rank, ranks=ranks)
            for rank in range(ranks)
        ]
        loops = [iter(one.resume(make(rank, ranks))) for rank, one in enumerate(checkpointers)]
        began = checkpointers[0].step
        seen = {place: labels for place, labels in seen.items() if place[0] <= began}
        for _ in range(steps):
            for rank, (loop, one) in enumerate(zip(loops, checkpointers, strict=True)):
                item = next(loop)
                seen[one.step, rank] = list(labels_in(item))
        for one in checkpointers:
            one.close()
    return seen


@pytest.mark.parametrize("name", RUNS)
@given(
    generations=st.lists(
        st.tuples(st.sampled_from([1, 2, 3]), st.integers(1, 6)), min_size=1, max_size=3
    ),
    every=st.integers(1, 3),
)
def test_each_step_is_traced_to_its_records(
    name: str, generations: list[tuple[int, int]], every: int
) -> None:
    store, make = rs.Memory(), RUNS[name]
    seen = run(store, make, generations, every)
    newest = max(rs.Checkpointer(store, rs.EverySteps(1)).steps(), default=0)
    for (step, rank), labels in seen.items():
        if step <= newest:
            (found,) = traced_step(store, of_ranks(make), step, rank)
            assert records_in(found.origin) == labels, (step, rank)


@pytest.mark.parametrize("name", RUNS)
def test_a_record_is_found_in_the_steps_that_it_was_in_and_in_no_others(name: str) -> None:
    store, make = rs.Memory(), RUNS[name]
    seen = run(store, make, [(2, 5), (3, 5), (1, 7)], every=2)
    newest = max(rs.Checkpointer(store, rs.EverySteps(1)).steps())
    expected = {
        (record, *place)
        for place, labels in seen.items()
        if place[0] <= newest
        for record in labels
    }
    found = {
        (row.record.record, one.step, one.rank)
        for one in steps_of_run(store, of_ranks(make))
        if one.is_past
        for row in origin_rows(one.origin)
        if row.record is not None
    }
    assert found == expected


OTHER_RUNS: dict[str, Make] = {
    "without end": lambda rank, ranks: rs.range(7).shuffle(0).repeat().shard(rank, ranks).batch(2),
    "epochs out of order": lambda rank, ranks: rs.range(7).repeat(9).shuffle(0).shard(rank, ranks),
    "padded": lambda rank, ranks: rs.range(50).shard(rank, ranks, uneven="pad").map(abs),
    "left out later": lambda rank, ranks: (
        rs.range(60).shuffle(1).exclude({0: [], 12: [3, 4]}).shard(rank, ranks)
    ),
    "cycle": lambda rank, ranks: (
        rs.mix({"a": rs.range(5), "b": rs.range(30)}, weights=[2, 1], stop="cycle", seed=0)
        .window(3, shift=2)
        .shard(rank, ranks)
    ),
    "by epoch": lambda rank, ranks: (
        rs.by_epoch({0: rs.range(7), 2: rs.range(9)}).repeat(9).cache().take(60).shard(rank, ranks)
    ),
}


@pytest.mark.parametrize("name", [*RUNS, *OTHER_RUNS])
@given(
    generations=st.lists(
        st.tuples(st.sampled_from([1, 2, 3]), st.integers(1, 5)), min_size=1, max_size=3
    ),
    every=st.integers(1, 3),
    number=st.integers(0, 9),
)
def test_a_search_finds_what_going_through_all_steps_does(
    name: str, generations: list[tuple[int, int]], every: int, number: int
) -> None:
    store, make = rs.Memory(), {**RUNS, **OTHER_RUNS}[name]
    run(store, make, generations, every)
    sought = Sought(number, lambda record: record.inputs != ("a",))
    found = list(steps_of_run(store, of_ranks(make), sought=sought))
    assert found == [one for one in steps_of_run(store, of_ranks(make)) if sought.is_in(one.origin)]


def test_a_pipeline_with_the_batches_of_another_number_of_ranks_is_refused() -> None:
    store, make = rs.Memory(), RUNS["a part of each batch"]
    run(store, make, [(3, 9)], every=2)
    for step in (1, 5, 9):
        with pytest.raises(StateMismatch, match="with this pipeline their 3 ranks do not come"):
            traced_step(store, as_it_is(make(0, 1).stage), step)
    with pytest.warns(RuntimeWarning, match="by a function with the argument ranks"):
        assert not [one for one in steps_of_run(store, as_it_is(make(0, 1).stage)) if one.is_past]


def test_a_checkpointer_tells_the_origin_of_its_steps() -> None:
    store, pipeline = rs.Memory(), rs.range(50).shuffle(0).batch(5)
    with rs.Checkpointer(store, rs.EverySteps(4)) as checkpointer:
        for batch in checkpointer.resume(pipeline):
            origin = checkpointer.origins(pipeline, checkpointer.step)
            assert [one.record for one in origin.records()] == batch.tolist()


@pytest.mark.parametrize("rank", range(3))
@pytest.mark.parametrize("name", ["batches by index", "a stream", "partitions"])
def test_a_checkpointer_of_no_rank_tells_the_origin_of_what_the_rank_of_its_pipeline_had(
    name: str, rank: int
) -> None:
    pipeline = RUNS[name](rank, 3)
    with rs.Checkpointer(rs.Memory(), rs.EverySteps(2)) as checkpointer:
        for item in checkpointer.resume(pipeline):
            origin = checkpointer.origins(pipeline, checkpointer.step)
            assert records_in(origin) == np.ravel(item).tolist()
            if checkpointer.step == 5:
                break


@pytest.mark.parametrize(("step", "rank"), [(0, None), (1, 1), (99, None)])
def test_a_step_that_never_was_is_refused(step: int, rank: int | None) -> None:
    checkpointer = rs.Checkpointer(rs.Memory(), rs.EverySteps(4))
    with pytest.raises(InvalidArgument, match=r"step|rank"):
        checkpointer.origins(rs.range(5), step, rank=rank)


def test_one_rank_may_have_saved_for_all_to_which_the_pipeline_deals() -> None:
    store, make = rs.Memory(), RUNS["batches by index"]
    with rs.Checkpointer(store, rs.EverySteps(2)) as checkpointer:
        for _ in checkpointer.resume(make(0, 3)):
            if checkpointer.step == 5:
                break
    expected = list(make(2, 3))
    for step in (1, 2, 3, 5, 7):
        (found,) = traced_step(store, as_it_is(make(0, 3).stage), step, 2)
        assert records_in(found.origin) == expected[step - 1].tolist()
        assert found.ranks == 3


def test_behind_a_group_one_group_is_made_again() -> None:
    read = 0

    def document(number: int) -> list[int]:
        nonlocal read
        read += 1
        return [number] * 32  # so 16 rows are made of a group

    pipeline = rs.range(10**6).shuffle(0).map(document).pack(64, group=32)
    store = rs.Memory()
    with rs.Checkpointer(store, rs.EverySteps(50)) as checkpointer:
        for _ in checkpointer.resume(pipeline):
            if checkpointer.step == 60:
                break
    for step in (51, 64):  # the rows of one group are 49 to 64
        read = 0
        traced_step(store, as_it_is(pipeline.stage), step)
        assert read == 32


def test_a_damaged_checkpoint_is_passed_over() -> None:
    store, pipeline = rs.Memory(), rs.from_iterable(lambda: iter(range(40))).map(int)
    with rs.Checkpointer(store, rs.EverySteps(5)) as checkpointer:
        list(checkpointer.resume(pipeline))
    damaged = rs.Memory()
    for step in store.steps():
        data = store.load(step)
        damaged.save(step, data[:-1] if step == 20 else data)
    with pytest.warns(RuntimeWarning, match="step 20 is passed over"):
        (found,) = traced_step(damaged, as_it_is(pipeline.stage), 23)
    assert records_in(found.origin) == [22]


def test_steps_between_which_the_number_of_ranks_changed_unseen_are_not_guessed() -> None:
    store, make = rs.Memory(), RUNS["batches by index"]
    run(store, make, [(2, 5), (3, 5)], every=2)
    kept = rs.Memory()
    newest = max(rs.Checkpointer(store, rs.EverySteps(1)).steps())
    for step, part in store.parts():
        if step == newest:
            kept.part(part).save(step, store.part(part).load(step))
    stage = make(0, 1).stage
    with pytest.raises(StateMismatch, match=rf"steps 1 to {newest} .* number of ranks change"):
        traced_step(kept, as_it_is(stage), 1)
    with pytest.warns(RuntimeWarning, match="cannot be traced"):
        assert not [one for one in steps_of_run(kept, as_it_is(stage)) if one.is_past]
    with pytest.raises(StateMismatch, match="number of ranks change"):
        traced_step(kept, as_it_is(stage), 1, ranks=2)


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("name", ["batches by index", "a stream"])
def test_one_saver_may_have_saved_for_all_or_for_itself(name: str, ranks: int) -> None:
    store, make = rs.Memory(), RUNS[name]
    with rs.Checkpointer(store, rs.EverySteps(2)) as checkpointer:
        pipeline = make(0, ranks)
        for item in checkpointer.resume(pipeline):
            if checkpointer.step == 1:
                first = list(labels_in(item))
            if checkpointer.step == 5:
                break
    for deal in (1, 2):  # the code may have changed meanwhile
        stage = make(0, deal).stage
        if deal < ranks:
            with pytest.raises(StateMismatch, match="say how many ranks there were"):
                traced_step(store, as_it_is(stage), 1)
        traced = traced_step(store, as_it_is(stage), 1, ranks=ranks if deal < ranks else None)
        assert records_in(traced[0].origin) == first
        assert len(traced) == ranks


def test_a_store_is_listed_once_however_many_steps_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    store, pipeline = rs.Memory(), rs.range(80).shuffle(0).shard(0, 1).batch(2)
    with rs.Checkpointer(store, rs.EverySteps(2)) as checkpointer:
        list(checkpointer.resume(pipeline))
    listed = Mock(side_effect=store.parts)
    monkeypatch.setattr(store, "parts", listed)
    assert len(list(steps_of_run(store, as_it_is(pipeline.stage)))) == 40
    assert listed.call_count == 1


def test_a_checkpoint_that_is_removed_meanwhile_is_passed_over() -> None:
    store, pipeline = rs.Memory(), rs.range(80).shuffle(0).shard(0, 1).batch(2)
    with rs.Checkpointer(store, rs.EverySteps(5)) as checkpointer:
        list(checkpointer.resume(pipeline))
    expected = [one.origin for one in steps_of_run(store, as_it_is(pipeline.stage))]
    steps = steps_of_run(store, as_it_is(pipeline.stage))
    found = [one.origin for one in islice(steps, 18)]
    store.remove(20)
    with pytest.warns(RuntimeWarning, match="step 20 is passed over"):
        found += [one.origin for one in steps]
    assert found == expected


@pytest.mark.filterwarnings("ignore:step .* can be resumed by 2 ranks only:RuntimeWarning")
def test_ranks_whose_states_cannot_be_joined_are_traced_each_from_its_own() -> None:
    def make(rank: int, ranks: int) -> rs.Pipeline[Any]:
        numbers = rs.range(200).filter(lambda number: number % 7 != 0).shard(rank, ranks)
        return numbers.scan(lambda carry, item: (carry + item, item), 0)

    store = rs.Memory()
    seen = run(store, make, [(2, 7), (2, 6)], every=2)
    newest = max(rs.Checkpointer(store, rs.EverySteps(1)).steps())
    for (step, rank), labels in seen.items():
        if step <= newest:
            (found,) = traced_step(store, as_it_is(make(0, 1).stage), step, rank)
            assert records_in(found.origin) == labels
    with pytest.raises(InvalidArgument, match="3 ranks cannot have begun there"):
        traced_step(store, as_it_is(make(0, 1).stage), newest, ranks=3)
