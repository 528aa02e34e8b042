"""A stage that says another flow than it has is found out by the law, and by `check_stage`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

import resumable as rs
from resumable.core import Flow, unpack, unpack_count
from resumable.testing import check_stage
from resumable.testing.flows import items_flow_as_declared

LIKE: dict[Flow, rs.Pipeline[Any]] = {
    Flow.SAME: rs.range(12).prefetch(0),
    Flow.ONE_TO_ONE: rs.range(12).map(lambda item: item * 2),
    Flow.COUNTED: rs.range(12).enumerate(),
    Flow.FILTERED: rs.range(12).filter(lambda item: item % 3),
    Flow.SUBSET: rs.range(12).take(7),
    Flow.REORDERED: rs.range(12).shuffle(1),
    Flow.REPEATED: rs.range(12).repeat(2),
    Flow.EXPANDED: rs.range(12).flat_map(lambda item: [item, -1]),
    Flow.JOINED: rs.concatenate(rs.range(3), rs.range(100, 104)),
}
FALSE = [
    (Flow.SAME, Flow.FILTERED),
    (Flow.SAME, Flow.ONE_TO_ONE),
    (Flow.ONE_TO_ONE, Flow.COUNTED),
    (Flow.ONE_TO_ONE, Flow.SUBSET),
    (Flow.COUNTED, Flow.EXPANDED),
    (Flow.FILTERED, Flow.SUBSET),
    (Flow.FILTERED, Flow.REORDERED),
    (Flow.SUBSET, Flow.REORDERED),
    (Flow.SUBSET, Flow.ONE_TO_ONE),
    (Flow.REORDERED, Flow.SUBSET),
    (Flow.REORDERED, Flow.REPEATED),
    (Flow.REPEATED, Flow.REORDERED),
    (Flow.JOINED, Flow.ONE_TO_ONE),
]


@pytest.mark.parametrize("flow", LIKE, ids=lambda flow: flow.name)
def test_stages_that_say_what_they_do_obey_the_law(flow: Flow) -> None:
    assert LIKE[flow].stage.flow is flow
    items_flow_as_declared(LIKE[flow])


@pytest.mark.parametrize(("said", "true"), FALSE, ids=lambda flow: flow.name)
def test_a_stage_that_does_something_else_breaks_it(
    said: Flow, true: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = LIKE[true]
    monkeypatch.setattr(type(pipeline.stage), "flow", said)
    with pytest.raises(AssertionError, match=f"a stage whose flow is {said.name}"):
        items_flow_as_declared(pipeline)


@dataclass(frozen=True, eq=False, repr=False)
class Differences(rs.Transform[int]):
    """Each item less the one before it, which a stage whose items stand alone cannot know."""

    flow = Flow.ONE_TO_ONE

    def start(self, epoch: int = 0) -> rs.StageIterator[int]:
        return DifferencesIterator(self, epoch)


class DifferencesIterator(rs.TransformIterator[int]):
    last = 0

    def pull(self, count: int) -> list[int]:
        made = []
        for item in self._upstream.pull(count):
            made.append(int(item) - self.last)
            self.last = int(item)
        return made

    def get_state(self) -> Any:
        return {"last": self.last, "upstream": self._upstream.get_state()}

    def set_state(self, state: Any) -> None:
        last, upstream = unpack(self._stage, state, "last", "upstream")
        self.last = unpack_count(self._stage, "last", last)
        self._upstream.set_state(upstream)


def test_check_stage_tries_it() -> None:
    with pytest.raises(AssertionError, match="flow is ONE_TO_ONE, of every second item"):
        check_stage(rs.range(20).apply(Differences))
