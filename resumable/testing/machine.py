"""A state machine for Hypothesis: any calls of an iterator, compared with a plain list."""

from __future__ import annotations

from itertools import islice
from typing import Any, Final

from hypothesis import assume
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
)

from ..core.block import block_items
from ..core.iterator import PipelineIterator
from ..errors import IteratorClosed
from ..pipeline import Pipeline
from ..state.encoding import dumps, loads
from .comparing import assert_same
from .laws import first_items, require, through_bytes
from .strategies import pipelines

MOST_ITEMS: Final = 200


class PipelineMachine(RuleBasedStateMachine):
    """Mixes `next`, `pull`, saving, restoring into used and new iterators, and closing.

    The model is the list of items of an uninterrupted run, and a position in the list. For a
    pipeline of your own::

        class MyMachine(PipelineMachine):
            graphs = st.just(my_pipeline)

        TestMyPipeline = MyMachine.TestCase
    """

    graphs: st.SearchStrategy[Pipeline[Any]] = pipelines()
    """Where the pipelines come from."""

    saved: Bundle[tuple[int, bytes]] = Bundle("saved")

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        self.pipeline = data.draw(type(self).graphs, label="pipeline")
        self.expected = first_items(self.pipeline, MOST_ITEMS)
        self.complete = len(self.expected) < MOST_ITEMS
        self.position = 0
        self.closed = False
        self.iterator: PipelineIterator[Any] = iter(self.pipeline)

    @rule()
    def take_one(self) -> None:
        self._deliver(list(islice(self._running(), 1)), 1, "next")

    @rule(count=st.integers(0, 30))
    def take_a_block(self, count: int) -> None:
        self._deliver(block_items(self._running().pull(count)), count, f"pull({count})")

    @rule(target=saved)
    def save(self) -> Any:
        state = through_bytes(self.iterator)
        require(through_bytes(self.iterator) == state, "a second get_state gives another state")
        return self.position, state

    @rule(point=saved)
    def restore_into_the_same(self, point: tuple[int, bytes]) -> None:
        self._running().set_state(loads(point[1]))
        self._be_at(point)

    @rule(point=saved, close_first=st.booleans())
    def restore_into_a_new_one(self, point: tuple[int, bytes], close_first: bool) -> None:
        if close_first:
            self.iterator.close()
        self.iterator = self.pipeline.resume(loads(point[1]))
        self.closed = False
        self._be_at(point)

    @rule()
    def close(self) -> None:
        state = through_bytes(self.iterator)
        self.iterator.close()
        self.closed = True
        require(through_bytes(self.iterator) == state, "close() changed the state")

    @precondition(lambda self: self.closed)
    @rule()
    def ask_a_closed_one(self) -> None:
        try:
            item = next(self.iterator)
        except IteratorClosed:
            return
        raise AssertionError(f"a closed iterator delivers {item!r}")

    def teardown(self) -> None:
        if hasattr(self, "iterator"):  # the machine has begun
            self.iterator.close()

    def _running(self) -> PipelineIterator[Any]:
        assume(not self.closed)
        # Beyond the items in the model, an endless pipeline cannot be checked.
        assume(self.complete or self.position + 30 <= MOST_ITEMS)
        return self.iterator

    def _deliver(self, got: list[Any], count: int, how: str) -> None:
        expected = self.expected[self.position : self.position + count]
        assert_same(got, expected, f"{how} at {self.position}", self.position)
        self.position += len(got)
        require(
            self.iterator.step == self.position,
            f"after {self.position} items the iterator says step {self.iterator.step}",
        )

    def _be_at(self, point: tuple[int, bytes]) -> None:
        position, state = point
        self.position = position
        require(dumps(self.iterator.get_state()) == state, f"restored to {position}, it is not")
