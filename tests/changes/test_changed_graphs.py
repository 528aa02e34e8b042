"""The law of changed runs over random graphs: what is accepted is what the changed code delivers from nothing."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from itertools import islice
from typing import Any

import pytest
from hypothesis import assume, given, reject
from hypothesis import strategies as st
from support.changed_graphs import Graph, Program, changes, with_advice
from support.graphs import document
from support.samples import number_is_no_third

import resumable as rs
from resumable.testing.comparing import assert_same

MOST = 60
"""Items of a pipeline that are looked at."""
ROUNDS = 4


def begun(pipeline: rs.Pipeline[Any], epoch: int, count: int) -> tuple[list[Any], rs.State]:
    """The first items of ``epoch``, and the state after them."""
    with pipeline.start(epoch) as iterator:
        items = list(islice(iterator, count))
        return items, iterator.get_state()


def epochs_before(pipeline: rs.Pipeline[Any], epoch: int) -> list[Any]:
    return [list(islice(pipeline.start(number), MOST)) for number in range(epoch)]


def assert_delivers_as_from_nothing(
    graph: Graph, old: Program, new: Program, epoch: int, passed: list[Any], state: rs.State
) -> None:
    """Resume ``new`` where it is accepted, and compare with a run of it from nothing."""
    changed = graph.made(new)
    with changed.resume(state) as iterator:
        rest = list(islice(iterator, MOST))
    assert_same(passed + rest, list(islice(changed.start(epoch), len(passed) + MOST)), str(new))
    assert_same(epochs_before(graph.made(old), epoch), epochs_before(changed, epoch), str(new))


@given(change=changes(), count=st.integers(0, 40), epoch=st.sampled_from([0, 0, 0, 1, 2]))
def test_a_changed_graph_is_accepted_only_where_it_delivers_what_it_would_from_nothing(
    change: tuple[Graph, Program, Program], count: int, epoch: int
) -> None:
    graph, old, new = change
    try:
        passed, state = begun(graph.made(old), epoch, count)
        begun(graph.made(new), epoch, MOST)
    except (rs.InvalidArgument, rs.InvalidType, rs.MalformedItem):
        reject()
    refused = dict[Program, str]()
    while new not in refused and len(refused) < ROUNDS:
        try:
            assert_delivers_as_from_nothing(graph, old, new, epoch, passed, state)
        except rs.StateMismatch as error:
            refused[new] = str(error)
            advised = with_advice(error, graph, old, new)
            if advised is None:
                return
            new = advised
        else:
            return
    raise AssertionError(f"refused though it is written as advised: {refused}")


class Numbers:
    """A stream of the numbers from 0 to 8."""

    def __iter__(self) -> Any:
        return iter(range(9))


def mixed(first: rs.Pipeline[int]) -> rs.Pipeline[int]:
    both = rs.mix(first.repeat(), rs.range(200, 210))
    return rs.concatenate(both, rs.range(300, 305)).repeat(3)


FIRST, OTHER = rs.range(3), rs.range(100, 103)
STREAM = rs.from_iterable(Numbers())


@pytest.mark.parametrize(
    ("saved", "changed"),
    [
        (
            FIRST.repeat().take(5).repeat(3),
            rs.by_epoch({0: FIRST, 3: OTHER}).repeat().take(5).repeat(3),
        ),
        (STREAM.take(5).repeat(3), STREAM.exclude({0: [], 7: [1]}).take(5).repeat(3)),
        (mixed(FIRST), mixed(rs.by_epoch({0: FIRST, 3: OTHER}))),
        (
            FIRST.repeat().take(5).repeat(3).skip(1),
            rs.by_epoch({0: FIRST, 3: OTHER}).repeat().take(5).repeat(3).skip(1),
        ),
    ],
    ids=["by epoch before take", "exclude before take", "by epoch before concatenate", "by index"],
)
def test_in_a_later_epoch_nothing_bounds_what_an_earlier_one_may_have_read(
    saved: rs.Pipeline[int], changed: rs.Pipeline[int]
) -> None:
    count = len(list(saved)) // 2
    passed, state = begun(saved, 0, count)
    assert passed != begun(changed, 0, count)[0]
    with pytest.raises(rs.StateMismatch, match=r"may have (been begun|read any)"):
        changed.resume(state)


@pytest.mark.parametrize("following", [rs.range(9), STREAM], ids=["by index", "in order"])
def test_that_an_input_of_a_concatenation_has_ended_is_of_the_past(
    following: rs.Pipeline[int],
) -> None:
    def joined(weights: dict[int, tuple[int, int]]) -> rs.Pipeline[int]:
        both = rs.mix({"a": rs.range(30, 35), "b": rs.range(50, 90)}, weights=weights)
        return rs.concatenate(both.exclude({"b": [4]}), following)  # that is its last item

    passed, state = begun(joined({0: (1, 1)}), 0, 13)
    assert passed[-4:] == [0, 1, 2, 3]
    with pytest.raises(rs.StateMismatch, match="and items before 11 were read"):
        joined({0: (1, 1), 10: (0, 1)}).resume(state)
    changed = joined({0: (1, 1), 11: (0, 1)})
    assert passed + list(changed.resume(state)) == list(changed)


@pytest.mark.parametrize("joining", [rs.range(9), rs.range(9).repeat()])
def test_an_input_that_joins_after_an_endless_one_is_refused(joining: rs.Pipeline[int]) -> None:
    inputs = [rs.range(5), rs.range(3).repeat()]
    _, state = begun(rs.concatenate(*inputs), 0, 7)
    with pytest.raises(rs.StateMismatch, match="only the last input can be endless, got Range"):
        rs.concatenate(*inputs, joining).resume(state)


def test_records_left_out_before_a_repeat_are_left_out_from_the_next_epoch_on() -> None:
    data = rs.range(10)
    passed, state = begun(data.repeat(3), 0, 4)
    with pytest.raises(rs.StateMismatch) as caught:
        data.exclude([3]).repeat(3).resume(state)
    assert "write records" not in str(caught.value)
    assert "by_epoch({0: as saved, 1: as here}) before Repeat(epochs=3)" in str(caught.value)
    changed = rs.by_epoch({0: data, 1: data.exclude([3])}).repeat(3)
    assert passed + list(changed.resume(state)) == list(changed)


def test_where_data_are_repeated_in_partitions_the_advice_leads_to_code_that_resumes() -> None:
    """In the function, shuffled data lose another number of items in each epoch; before it, an epoch is repeated."""

    def packed(data: rs.Pipeline[int]) -> rs.Pipeline[Any]:
        def rows(part: rs.Pipeline[int]) -> rs.Pipeline[Any]:
            return part.repeat().filter(number_is_no_third).map(document).pack(8, group=4)

        return data.shuffle(0).partition(4, rows)

    data = rs.range(200)
    passed, state = begun(packed(data), 0, 30)
    advice = "by_epoch({0: as saved, 1: as here}) before Repeat(), or before Partition(count=4)"
    with pytest.raises(rs.StateMismatch) as caught:
        packed(data.exclude([3])).resume(state)
    assert f"write {advice}" in str(caught.value)
    with pytest.raises(
        rs.InvalidArgument, match="before repeat, leave records out from an epoch on"
    ):
        packed(data.exclude({0: [], 100: [3]}))
    changed = packed(rs.by_epoch({0: data, 1: data.exclude([3])}))
    with changed.resume(state) as iterator:
        assert_same(passed + list(islice(iterator, 90)), list(islice(changed, 120)), "")


@pytest.mark.filterwarnings("ignore:this run had come to its end")
@given(change=changes(), steps=st.integers(0, 12), ranks=st.integers(1, 3))
def test_ranks_that_share_a_checkpoint_accept_a_change_only_where_each_delivers_the_same(
    change: tuple[Graph, Program, Program], steps: int, ranks: int
) -> None:
    graph, old, new = change
    assume("shard" not in (*graph.before, *graph.after))
    store = rs.Memory()
    try:
        before = [graph.made(old).shard(rank, ranks) for rank in range(ranks)]
        after = [graph.made(new).shard(rank, ranks) for rank in range(ranks)]
        from_nothing = [list(islice(pipeline, steps + MOST)) for pipeline in after]
    except (rs.InvalidArgument, rs.InvalidType, rs.MalformedItem):
        reject()
    with ExitStack() as stack:
        loops = resumed(stack, store, before)
        passed = [list(islice(loop, steps)) for loop in loops]
        if any(len(items) < steps for items in passed):
            reject()  # near the end, where ranks may differ
        for loop in loops:
            loop.save()
    with ExitStack() as stack, suppress(rs.StateMismatch):
        for rank, loop in enumerate(resumed(stack, store, after)):
            rest = list(islice(loop, MOST))
            assert_same(passed[rank] + rest, from_nothing[rank], f"rank {rank}, {new}")


def resumed(stack: ExitStack, store: rs.Memory, pipelines: Sequence[rs.Pipeline[Any]]) -> list[Any]:
    """The loop of each rank, where the newest checkpoint in ``store`` left it."""
    ranks, never = len(pipelines), rs.EverySteps(10**6)
    checkpointers = [
        rs.Checkpointer(store, never, rank=rank, ranks=ranks, save_at_end=False)
        for rank in range(ranks)
    ]
    for each in checkpointers:
        stack.callback(each.close)
    return [each.resume(one) for each, one in zip(checkpointers, pipelines, strict=True)]
