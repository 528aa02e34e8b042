"""What the iterators of stages with several upstreams share."""

from __future__ import annotations

from typing import Any, TypeVar

from ..arguments import shorten
from ..errors import StateMismatch
from ..stage import StageIterator
from ..state import State, unpack
from ..transform import Combine

__all__ = ["CombineIterator"]

T = TypeVar("T")


class CombineIterator(StageIterator[T]):
    """Motion of a stage with several upstreams and no position of its own."""

    def __init__(self, stage: Combine[T], epoch: int) -> None:
        self._stage = stage
        self._upstreams: list[StageIterator[Any]] = [
            upstream.start(epoch) for upstream in stage.upstreams
        ]

    def get_state(self) -> State:
        return {"upstreams": self.upstream_states()}

    def set_state(self, state: State) -> None:
        (states,) = unpack(self._stage, state, "upstreams")
        self.set_upstream_states(states)

    def settle(self) -> None:
        for upstream in self._upstreams:
            upstream.settle()

    def close(self) -> None:
        for upstream in self._upstreams:
            upstream.close()

    @property
    def epoch(self) -> int:
        return self._upstreams[0].epoch

    def upstream_states(self) -> list[State]:
        """The states of all upstreams."""
        return [upstream.get_state() for upstream in self._upstreams]

    def set_upstream_states(self, states: Any) -> None:
        """Move all upstreams to ``states``."""
        self.check_list("upstreams", states)
        for upstream, state in zip(self._upstreams, states, strict=True):
            upstream.set_state(state)

    def check_list(self, name: str, values: Any) -> None:
        """Refuse ``values`` unless they are a list with one entry for each upstream."""
        if not isinstance(values, list) or len(values) != len(self._upstreams):
            raise StateMismatch(
                f"saved {name} must be a list of {len(self._upstreams)} entries", self._stage
            )

    def check_flags(self, name: str, values: Any) -> list[bool]:
        """A copy of ``values`` if they are one bool for each upstream."""
        self.check_list(name, values)
        if not all(isinstance(value, bool) for value in values):
            raise StateMismatch(f"saved {name} must be bools, got {shorten(values)}", self._stage)
        return list(values)
