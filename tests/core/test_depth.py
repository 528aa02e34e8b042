"""How deep a state is nested is known before there is one, and what is too deep refused."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest
from support.graphs import RunningSum, stream

import resumable as rs
from resumable.core.runnable import MOST_LEVELS, state_levels

Chained = Callable[[rs.Pipeline[Any]], rs.Pipeline[Any]]


def alone(item: Any) -> list[Any]:
    return [item]


CHAINED: dict[str, Chained] = {
    "map": lambda p: p.map(abs),
    "map with state": lambda p: p.map(RunningSum()),
    "random_map": lambda p: p.random_map(lambda item, _: item),
    "filter": lambda p: p.filter(lambda _: True),
    "flat_map": lambda p: p.flat_map(alone),
    "interleave pipelines": rs.interleave,
    "interleave": lambda p: p.interleave_map(alone, 2),
    "scan": lambda p: p.scan(lambda carry, item: (carry, item), 0),
    "shuffle": lambda p: p.shuffle(0, window=2),
    "batch": lambda p: p.batch(2).unbatch(),
    "repeat": lambda p: p.repeat(1),
    "take": lambda p: p.take(99),
    "skip": lambda p: p.skip(0),
    "shard": lambda p: p.shard(0, 1),
    "enumerate": lambda p: p.enumerate(),
    "prefetch": lambda p: p.prefetch(1),
    "zip": rs.zip,
    "concatenate": lambda p: rs.concatenate(stream(1), p),
    "mix": lambda p: rs.mix(p, stop="all"),
    "mix cycle": lambda p: rs.mix(p, stop="cycle"),
}


def chain(length: int, add: Chained, source: rs.Pipeline[Any]) -> rs.Pipeline[Any]:
    for _ in range(length):
        source = add(source)
    return source


def levels(value: Any) -> int:
    """How many dicts and lists stand within each other."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return isinstance(value, (dict, list)) + max(map(levels, inner), default=0)


@pytest.mark.parametrize("name", CHAINED)
@pytest.mark.parametrize("source", [stream(3), rs.range(3)], ids=["stream", "range"])
def test_a_state_is_as_deep_as_its_stages_say(name: str, source: rs.Pipeline[Any]) -> None:
    pipeline = chain(5, CHAINED[name], source)
    if name == "shuffle" and not source.random_access:
        pipeline = chain(3, CHAINED[name], source)  # how often it takes states grows with each
    deepest = 0
    with iter(pipeline) as iterator:
        for _ in range(9):
            deepest = max(deepest, levels(iterator.get_state()["pipeline"]))
            next(iterator, None)
    said = state_levels(pipeline.stage)
    # An interleave is as deep as it can be only where an outer one opens an item within an inner.
    assert deepest <= said if name == "interleave" else deepest == said


def test_stages_before_one_that_looks_up_by_index_add_no_level() -> None:
    pipeline = chain(380, CHAINED["map"], rs.range(9)).shuffle(0)
    assert state_levels(pipeline.stage) == 1
    assert sorted(pipeline) == list(range(9))


@pytest.mark.parametrize(
    "name", ["filter", "take", "flat_map", pytest.param("repeat", marks=pytest.mark.deep)]
)
def test_two_hundred_stages_are_saved_and_resumed(name: str) -> None:
    pipeline = chain(200, CHAINED[name], stream(9))
    store = rs.Memory()
    with rs.Checkpointer(store, rs.EverySteps(1)) as checkpointer:
        first = list(islice(checkpointer.resume(pipeline), 4))
    with rs.Checkpointer(store, rs.EverySteps(1)) as checkpointer:
        assert first + list(checkpointer.resume(pipeline)) == list(range(9))


def test_the_deepest_pipeline_is_saved_and_a_deeper_one_refused_when_its_pass_begins() -> None:
    opened = []

    def source() -> list[int]:
        opened.append(True)
        return [1, 2]

    deepest = chain((MOST_LEVELS - 2) // 2, rs.zip, rs.from_iterable(source).filter(bool))
    with iter(deepest) as iterator:
        next(iterator)
        state = rs.loads(rs.dumps(iterator.get_state()))
    assert len(list(deepest.resume(state))) == 1
    opened.clear()
    deeper = deepest.filter(bool)
    begins: list[Callable[[], Any]] = [
        lambda: iter(deeper),
        lambda: deeper.start(3),
        lambda: deeper.resume(state),
        lambda: rs.Checkpointer(rs.Memory(), rs.EverySteps(1)).resume(deeper),
    ]
    for begin in begins:
        with pytest.raises(rs.InvalidArgument, match="at most 350 levels deep, got 351"):
            begin()
    assert not opened
