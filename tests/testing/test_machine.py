"""The state machine over random graphs, and that it finds what is broken."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test
from support.tiers import is_deep
from testing import broken_stages as broken

import resumable as rs
from resumable.testing import PipelineMachine

# That one is found counts, not which is the shortest.
FIND_ONE = settings(
    max_examples=200,
    deadline=None,
    print_blob=False,
    report_multiple_bugs=False,
    derandomize=True,
    phases=[Phase.generate],
)


# In several tests, so that several processes share the examples.
@pytest.mark.parametrize("part", range(4 if is_deep() else 2))
def test_whatever_is_done_to_an_iterator_it_delivers_the_items_of_a_list(part: int) -> None:
    run_state_machine_as_test(PipelineMachine, settings=settings(stateful_step_count=10))


@pytest.mark.parametrize("motion", [broken.LostBuffer, broken.OffByOne, broken.SideEffect])
def test_it_finds_a_stage_that_is_broken(motion: type[rs.TransformIterator[Any]]) -> None:
    class Machine(PipelineMachine):
        graphs = st.just(rs.range(20).apply(broken.Broken, motion))

    with pytest.raises(
        AssertionError, match=r"item \d+ is|another state|restored to|changed the state"
    ):
        run_state_machine_as_test(Machine, settings=FIND_ONE)
