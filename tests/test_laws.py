"""Every law on every pipeline of the catalogue, and on random graphs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import SHARE_AN_OBJECT, catalogue
from support.tiers import is_deep, thinned

import resumable as rs
from resumable.testing import pipelines
from resumable.testing.flows import items_flow_as_declared
from resumable.testing.laws import (
    blocks_agree_with_pull,
    blocks_depend_on_items_alone,
    first_items,
    gather_agrees_with_iteration,
    marks_keep_their_moment,
    next_and_pull_may_be_mixed,
    pull_agrees_with_next,
    refused_states_leave_no_trace,
    resumes_at_every_position,
    resumes_for_generations,
    set_state_works_on_a_used_iterator,
    skip_agrees_with_next,
    state_is_a_value,
    stays_ended,
)

NAMES = list(catalogue(Path()))
CUTS = ([0, 0, 0], [1, 2, 3], [5, 5, 5], [0, 17, 1], [400, 0, 3])

# Parts of a state that belong to the user's objects, which take what they are given; and the place
# of a carried window that is empty, which may be none.
THEIRS = ("object", "function", "carry", "hole")

Maker = Callable[[], rs.Pipeline[Any]]
each = pytest.mark.parametrize("make", NAMES, indirect=True)
# For laws over two iterators that run at the same time; an object with state belongs to one of them.
RUN_TWICE = [name for name in NAMES if name not in SHARE_AN_OBJECT]


def some_of(names: list[str], law: str) -> pytest.MarkDecorator:
    """In the quick tier each law takes others; that every stage obeys it is tested by `check_stage`."""
    return pytest.mark.parametrize("make", thinned(names, 16, law), indirect=True)


@pytest.fixture
def make(request: pytest.FixtureRequest, catalogue_data: Path) -> Maker:
    return catalogue(catalogue_data)[request.param]


@each
def test_any_pipeline_resumes_at_the_item_where_it_stopped(
    make: Maker, request: pytest.FixtureRequest
) -> None:
    every = range(len(first_items(make())) + 1)
    resumes_at_every_position(make(), positions=thinned(every, 4, request.node.name))


@some_of(NAMES, "generations")
def test_a_resumed_pipeline_resumes_again(make: Maker, request: pytest.FixtureRequest) -> None:
    for cuts in thinned(CUTS, 3, request.node.name):
        resumes_for_generations(make(), cuts)


@some_of(NAMES, "end")
def test_the_state_after_the_end_delivers_nothing(make: Maker) -> None:
    stays_ended(make())


@some_of(NAMES, "value")
def test_a_state_is_a_value(make: Maker) -> None:
    for position in (0, 1, 7):
        state_is_a_value(make(), position)


@some_of(NAMES, "used")
def test_set_state_works_on_a_used_and_on_an_exhausted_iterator(make: Maker) -> None:
    set_state_works_on_a_used_iterator(make(), 200)


@some_of(NAMES, "refused")
def test_a_refused_state_leaves_no_trace(make: Maker) -> None:
    # That it holds at the start of each stage is tested by `check_stage` too.
    for position in (0, 3) if is_deep() else (3,):
        refused_states_leave_no_trace(make(), position, THEIRS)


@some_of(RUN_TWICE, "pull")
def test_pull_agrees_with_next(make: Maker) -> None:
    pull_agrees_with_next(make(), [1, 2, 0, 5, 1, 30, 300])


@some_of(RUN_TWICE, "marks")
def test_marks_keep_their_moment(make: Maker) -> None:
    marks_keep_their_moment(make(), 100)


@some_of(RUN_TWICE, "blocks")
def test_blocks_agree_with_pull(make: Maker) -> None:
    blocks_agree_with_pull(make(), [1, 3, 2, 700, 40, 4000])


@pytest.mark.parametrize("make", thinned(RUN_TWICE, 6, "made of blocks"), indirect=True)
def test_what_is_made_of_blocks_depends_on_their_items_alone(make: Maker) -> None:
    blocks_depend_on_items_alone(make())


@some_of(NAMES, "flow")
def test_items_flow_as_their_stage_says(make: Maker) -> None:
    items_flow_as_declared(make())


@some_of(RUN_TWICE, "skip")
def test_skip_agrees_with_next(make: Maker) -> None:
    for counts in ([0, 1, 3, 0, 10], [25, 300], [7, 7, 7, 7, 7]):
        skip_agrees_with_next(make(), counts)


@some_of(NAMES, "mixed")
def test_next_and_pull_may_be_mixed(make: Maker) -> None:
    next_and_pull_may_be_mixed(make(), [1, 2, 0, 3])


@some_of(NAMES, "gather")
def test_gather_agrees_with_iteration_or_there_is_none(make: Maker) -> None:
    pipeline = make()
    if pipeline.random_access:
        gather_agrees_with_iteration(pipeline)
        return
    with pytest.raises(TypeError, match=r"has no random access|has no len\(\)"):
        pipeline[0]


# A longer campaign: RESUMABLE_EXAMPLES=20000 pytest tests/test_laws.py -k random
@given(pipelines(), st.lists(st.integers(0, 12), min_size=3, max_size=3), st.integers(0, 9))
def test_random_graphs_obey_every_law(
    pipeline: rs.Pipeline[Any], cuts: list[int], position: int
) -> None:
    resumes_at_every_position(pipeline, 60)
    resumes_for_generations(pipeline, cuts, 80)
    stays_ended(pipeline)
    state_is_a_value(pipeline, position)
    set_state_works_on_a_used_iterator(pipeline, 60)
    pull_agrees_with_next(pipeline, [*cuts, 100])
    blocks_agree_with_pull(pipeline, [cut + 1 for cut in cuts])
    marks_keep_their_moment(pipeline, 30)
    blocks_depend_on_items_alone(pipeline, cuts[:1])
    items_flow_as_declared(pipeline)
    skip_agrees_with_next(pipeline, cuts)
    next_and_pull_may_be_mixed(pipeline.map(lambda item: item), cuts)
    gather_agrees_with_iteration(pipeline, 60)
    refused_states_leave_no_trace(pipeline, position, THEIRS)
