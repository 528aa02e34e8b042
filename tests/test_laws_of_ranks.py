"""Behind each kind of deal, each stage goes on exactly, or refuses: with as many ranks, others, or another rank's state."""

from __future__ import annotations

from itertools import chain, islice
from pathlib import Path
from typing import Any

import pytest
from support.behind_deals import CASES, DEALS, TAILS, Deal, joined, leaves, shown
from support.graphs import catalogue
from support.tiers import thinned

import resumable as rs
from resumable.core.graph import walk

RANKS, OTHERS = 2, (1, 3)


def test_every_stage_of_the_catalogue_stands_behind_a_deal(catalogue_data: Path) -> None:
    stages = {
        type(stage)
        for make in catalogue(catalogue_data).values()
        for stage, _ in walk(make().stage)
        if stage.inputs
    }
    behind = {
        type(stage)
        for tail in TAILS.values()
        for deal in DEALS.values()
        for stage, _ in walk(tail(deal(0, 2)).stage)
    }
    before = {"Exclude"}  # which is told records of the source, so it refuses to stand behind one
    missing = {stage.__name__ for stage in stages - behind} - before
    assert not missing, f"{missing} must be in `behind_deals` of its facts, in tests/stages/facts/"


def pipelines(deal: str, tail: str) -> Deal:
    """What makes the pipeline of a rank."""
    return lambda rank, ranks: TAILS[tail](DEALS[deal](rank, ranks))


def is_refused(pipeline: rs.Pipeline[Any], state: Any) -> bool:
    try:
        pipeline.resume(state).close()
    except rs.StateMismatch:
        return True
    return False


@pytest.mark.parametrize(("deal", "tail"), CASES)
def test_each_state_goes_on_exactly_or_is_refused(deal: str, tail: str) -> None:
    made = pipelines(deal, tail)
    whole = [list(made(rank, RANKS)) for rank in range(RANKS)]
    for cut in thinned((0, 1, 2, 3, 5, 8, 11, 26, 32, 38, 44), 3, (deal, tail)):
        states, before = [], []
        for rank in range(RANKS):
            with iter(made(rank, RANKS)) as iterator:
                before += list(islice(iterator, cut))
                states.append(rs.loads(rs.dumps(iterator.get_state())))
        for rank, state in enumerate(states):
            assert shown(made(rank, RANKS).resume(state)) == shown(whole[rank][cut:])
            for other in set(range(RANKS)) - {rank}:
                if not is_refused(made(other, RANKS), state):
                    rest = shown(made(other, RANKS).resume(state))
                    assert rest == shown(whole[other][cut:]), f"rank {other} took on {state}"
        for ranks in OTHERS:
            for state in [*joined(states), *states]:
                ours = [made(rank, ranks) for rank in range(ranks)]
                if any(is_refused(pipeline, state) for pipeline in ours):
                    continue
                rest = [item for pipeline in ours for item in pipeline.resume(state)]
                # Without an item so far, they begin.
                uninterrupted = whole if cut else map(list, ours)
                assert leaves([*before, *rest]) == leaves(chain.from_iterable(uninterrupted)), (
                    f"{ranks} ranks took on {state}"
                )


def begun(made: Deal) -> tuple[rs.Memory, int]:
    """A store in which two ranks have saved, each killed at another step; and the newest whole step."""
    store = rs.Memory()
    for rank, steps in ((0, 5), (1, 7)):
        loop = resumed(store, made, rank, RANKS)
        for _ in islice(loop, steps):
            pass
    return store, max(rs.Checkpointer(store, rs.AtEnd()).steps())


def resumed(store: rs.Store, made: Deal, rank: int, ranks: int) -> Any:
    """The loop of a rank, which nobody closes."""
    checkpointer = rs.Checkpointer(
        store, rs.EverySteps(2), rank=rank, ranks=ranks, save_at_end=False
    )
    return checkpointer.resume(made(rank, ranks))


@pytest.mark.filterwarnings("ignore:step . can be resumed by 2 ranks only")
@pytest.mark.filterwarnings("ignore:this run had come to its end")
@pytest.mark.parametrize(("deal", "tail"), thinned(CASES, 20, "killed"))
def test_a_killed_run_goes_on_exactly_or_is_refused_before_its_first_item(
    deal: str, tail: str
) -> None:
    made = pipelines(deal, tail)
    whole = [list(made(rank, RANKS)) for rank in range(RANKS)]
    store, saved = begun(made)
    assert saved >= min(4, *map(len, whole))
    for rank, loop in enumerate([resumed(store, made, rank, RANKS) for rank in range(RANKS)]):
        assert loop.step == saved
        assert shown(loop) == shown(whole[rank][saved:])
    for ranks in OTHERS:
        store, saved = begun(made)
        try:
            loops = [resumed(store, made, rank, ranks) for rank in range(ranks)]
        except rs.StateMismatch as refusal:
            assert "rank" in str(refusal)  # noqa: PT017
            continue
        before = [item for items in whole for item in items[:saved]]
        rest = [item for loop in loops for item in loop]
        assert leaves([*before, *rest]) == leaves(chain.from_iterable(whole))
