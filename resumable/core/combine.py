"""The base of stages with several upstreams, and of their iterators."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeVar

from ..errors import InvalidArgument, StateMismatch, shorten
from ..state.value import State, unpack
from .stage import MOST_ITEMS, Stage, as_stage
from .stage_iterator import StageIterator

__all__ = ["Combine", "CombineIterator"]

T = TypeVar("T")


@dataclass(frozen=True, eq=False, repr=False)
class Combine(Stage[T]):
    """A stage with several upstreams."""

    upstreams: tuple[Stage[Any], ...]

    def __post_init__(self) -> None:
        stages = tuple(
            as_stage(upstream, f"upstreams[{number}]")
            for number, upstream in enumerate(self.upstreams)
        )
        if not stages:
            raise InvalidArgument(f"{type(self).__name__} needs at least one upstream, got none")
        object.__setattr__(self, "upstreams", stages)
        known = [stage.length for stage in stages if stage.length not in (None, math.inf)]
        total = sum(length for length in known if length is not None)
        if total > MOST_ITEMS:
            raise InvalidArgument(f"upstreams must have at most 2**62 items together, got {total}")

    @property
    def inputs(self) -> tuple[Stage[Any], ...]:
        return self.upstreams

    @property
    def random_access(self) -> bool:
        return all(upstream.random_access for upstream in self.upstreams)


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
