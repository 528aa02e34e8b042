"""The contract of stages is short, and what a graph asks of its stages grows with it, not faster."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest
from support.graphs import RunningSum

import resumable as rs
from resumable.core import (
    ALWAYS,
    IdentityField,
    Indexed,
    LookedUp,
    PassThrough,
    SourceIterator,
    StageIterator,
)
from resumable.testing import check_stage

STAGE = {
    "alone", "block_layout", "depends_on", "identity", "indexed", "inputs", "length", "random_access", "relation",
    "relies_on", "start", "state_cost", "unchanged", "user_functions", "version",
}  # fmt: skip
ITERATOR = {
    "blocks", "close", "defer_state", "epoch", "get_state", "inputs", "items", "one_by_one", "origin", "pull",
    "set_state", "skip", "state_at",
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


def stopping(*_: object) -> Any:
    raise StopIteration


def test_a_stop_iteration_out_of_a_function_is_never_taken_for_the_end_of_what_is_looked_up() -> (
    None
):
    for inner in (
        rs.range(10).map(stopping),
        rs.range(10).random_map(stopping),
        rs.range(10).batch(2, collate=stopping),
    ):
        for pipeline in (inner.shuffle(0), inner.shuffle(0).batch(2, collate=list)):
            with pytest.raises(RuntimeError, match="raised StopIteration"):
                list(pipeline)
            with pytest.raises(RuntimeError, match="raised StopIteration"):
                iter(pipeline).pull(4)


def test_what_follows_from_the_fields_is_no_part_of_a_pickle(tmp_path: Path) -> None:
    path = tmp_path / "growing"
    path.write_text("".join(f"{number}\n" for number in range(10)))
    pipeline = rs.lines(path).shuffle(0).batch(3)
    before = pickle.dumps(pipeline)
    assert len(pipeline) == 4
    assert pipeline.random_access
    assert pickle.dumps(pipeline) == before
    path.write_text("".join(f"{number}\n" for number in range(14)))
    again = pickle.loads(before)
    assert len(again) == 5
    assert sorted(int(line) for batch in again for line in batch) == [*range(14)]


def test_threads_that_ask_for_lengths_crosswise_do_not_wait_for_each_other() -> None:
    # `Map.length` asks `Batch.length` in one thread, and the other way round in the other.
    met = Barrier(2, timeout=60)

    @dataclass(frozen=True, eq=False, repr=False)
    class Meeting(LookedUp[int]):
        @property
        def length(self) -> int:
            met.wait()
            return 10

        def indexed(self, epoch: int = 0) -> Indexed[int]:
            return Indexed(np.copy)

    source = Meeting()
    pipelines = (rs.Pipeline(source).map(abs).batch(2), rs.Pipeline(source).batch(2).map(abs))
    with ThreadPoolExecutor(2) as executor:
        assert [*executor.map(len, pipelines)] == [5, 5]


@dataclass(frozen=True, eq=False, repr=False)
class Nothing(PassThrough[Any]):
    """Somebody's stage that does nothing to the items."""


def test_a_stage_that_passes_everything_through_can_come_and_go() -> None:
    def pipeline(*stages: type[rs.Stage[Any]]) -> rs.Pipeline[Any]:
        numbers = rs.range(10)
        for stage in stages:
            numbers = numbers.apply(stage)
        return numbers.shuffle(1).shard(0, 2)

    plain, through = pipeline(), pipeline(Nothing)
    assert through.random_access
    assert list(through) == list(plain)
    iterator = iter(through)
    first = next(iterator)
    assert [first, *plain.resume(iterator.get_state())] == list(plain)
    check_stage(rs.range(20).apply(Nothing))


@pytest.mark.parametrize("when", [True, frozenset(), frozenset({"item"}), "always"])
def test_an_identity_that_says_no_time_is_refused_with_the_class(when: Any) -> None:
    with pytest.raises(rs.InvalidType, match="identity of Named must be a mapping such as"):

        class Named(PassThrough[Any]):
            identity = {"upstream": when}  # noqa: RUF012


def test_an_index_without_a_length_is_told() -> None:
    @dataclass(frozen=True, eq=False, repr=False)
    class Endless(LookedUp[int]):
        def indexed(self, epoch: int = 0) -> Indexed[int]:
            return Indexed(np.copy)

    with pytest.raises(
        rs.InvalidType, match="Endless has items by index, so it must have a length"
    ):
        list(rs.Pipeline(Endless()))


@dataclass(frozen=True, eq=False, repr=False)
class Holds(rs.Transform[Any]):
    """A stage with functions wherever a field may have them."""

    one: Any = abs
    more: Any = (len, 3, {})
    named: Any = field(default_factory=lambda: {"txt": str, "size": 3})

    def start(self, epoch: int = 0) -> StageIterator[Any]:
        return self.upstream.start(epoch)


def test_a_stage_names_the_functions_of_its_fields() -> None:
    stage = rs.range(3).apply(Holds).stage
    assert stage.user_functions == {"one": abs, "more[0]": len, "named['txt']": str}


def test_a_function_that_is_only_told_or_whose_state_is_saved_decides_nothing() -> None:
    mapped = rs.range(3).map(abs, on_error="skip", on_skip=print)
    assert mapped.stage.user_functions == {"fn": abs}
    sums: Any = RunningSum()
    assert rs.range(3).scan(sums, 0, finish=list).stage.user_functions == {"finish": list}
    assert rs.from_sequence([len, abs]).stage.user_functions.keys() == {"sequence.__getitem__"}
    assert rs.from_iterable({len: 1}).stage.user_functions.keys() == {"iterable.__iter__"}
    assert not rs.from_iterable(iter([1])).stage.user_functions


def test_no_hint_says_that_a_field_may_change_which_must_always_be_equal() -> None:
    kinds, waiting = set[Any](), list[Any]([rs.Stage])
    while waiting:
        found = waiting.pop()
        kinds.add(found)
        waiting += found.__subclasses__()
    always = [
        (kind.__name__, name)
        for kind in kinds
        for name, entry in kind.identity.items()
        if (field := IdentityField.of(entry)).when == ALWAYS and "it may change" in field.hint
    ]
    assert len(kinds) > 30
    assert not always
