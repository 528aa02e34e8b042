"""The contract of stages is short, and what a graph asks of its stages grows with it, not faster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import resumable as rs
from resumable.core import Indexed, LookedUp, SourceIterator, StageIterator

STAGE = {
    "alternatives", "identity", "indexed", "inputs", "label", "length", "random_access",
    "relies_on", "start", "state_cost", "version",
}  # fmt: skip
ITERATOR = {
    "blocks", "close", "epoch", "get_state", "inputs", "items", "pull", "set_state", "skip",
    "state_at",
}  # fmt: skip
NESTING: dict[str, Callable[[rs.Pipeline[Any], rs.Pipeline[Any]], rs.Pipeline[Any]]] = {
    "mix": lambda first, second: rs.mix(first, second, seed=0, stop="all"),
    "mix until one ends": lambda first, second: rs.mix(first, second),
    "concatenate": rs.concatenate,
    "interleave": rs.interleave,
    "zip": rs.zip,
}


def members(kind: type) -> set[str]:
    return {name for name in vars(kind) if not name.startswith("_")}


def test_the_contract_is_no_larger_than_it_is_written_down_here() -> None:
    assert members(rs.Stage) == STAGE
    assert members(rs.StageIterator) == ITERATOR
    assert rs.Stage.__abstractmethods__ == {"start"}
    assert rs.StageIterator.__abstractmethods__ == {"pull", "get_state", "set_state"}


@dataclass(frozen=True, eq=False, repr=False)
class Asked(LookedUp[int]):
    """Ten numbers, and how often each question was asked."""

    questions: Counter[str] = field(default_factory=Counter)

    @property
    def length(self) -> int:
        self.questions["length"] += 1
        return 10

    def indexed(self, epoch: int = 0) -> Indexed[int]:
        self.questions["indexed"] += 1
        return Indexed(np.copy)


@pytest.mark.parametrize("name", NESTING)
def test_a_nested_pipeline_asks_its_sources_no_more_often_the_deeper_it_is(name: str) -> None:
    asked = []
    for depth in (5, 10, 20):
        source = Asked()
        pipeline = rs.Pipeline(source)
        for _ in range(depth):
            pipeline = NESTING[name](pipeline, rs.range(3))
        assert pipeline.length is not None
        asked.append(source.questions["length"])
        assert source.questions["indexed"] <= depth + 2
    assert asked[0] == asked[1] == asked[2]


def test_the_same_pipeline_on_both_sides_of_ten_mixes_is_built_at_once() -> None:
    source = Asked()
    pipeline = rs.Pipeline(source)
    for _ in range(10):
        pipeline = rs.mix(pipeline, pipeline, stop="all")
    assert pipeline.length == 10 * 2**10
    assert source.questions["length"] < 50


class Numbers(SourceIterator[int]):
    def __init__(self, stage: object, epoch: int) -> None:
        super().__init__(stage, epoch)
        self.closed = False

    def pull(self, count: int) -> list[int]:
        return []

    def get_state(self) -> dict[str, Any]:
        return {}

    def set_state(self, state: dict[str, Any]) -> None: ...

    def close(self) -> None:
        self.closed = True


class Reader(StageIterator[int]):
    def __init__(self, *inputs: StageIterator[int]) -> None:
        self._inputs = inputs

    @property
    def inputs(self) -> tuple[StageIterator[int], ...]:
        return self._inputs

    def pull(self, count: int) -> list[int]:
        return []

    def get_state(self) -> dict[str, Any]:
        return {}

    def set_state(self, state: dict[str, Any]) -> None: ...


def test_closing_and_the_epoch_follow_from_what_an_iterator_reads() -> None:
    first, second = Numbers(None, 3), Numbers(None, 3)
    reader = Reader(Reader(first), second)
    assert reader.epoch == 3
    reader.close()
    assert first.closed
    assert second.closed
