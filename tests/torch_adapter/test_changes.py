"""Weights and inputs of a mix change between two runs of a loader, which go on exactly or are refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import chain, islice
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from hypothesis import assume, given, reject  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from resumable_torch import (  # noqa: E402
    PartitionedState,
    PipelineDataset,
    ResumableBatchSampler,
    ResumableDataLoader,
    ResumableSampler,
)
from support.advised import advised  # noqa: E402
from support.changed_graphs import Graph, Program, changes  # noqa: E402
from torch.utils.data import DataLoader  # noqa: E402
from torch_adapter.data import Rows, plain, row  # noqa: E402

import resumable as rs  # noqa: E402
from resumable.testing.comparing import assert_same  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")

Weights = Mapping[int, Mapping[str, int]]
BEFORE: Weights = {0: {"web": 3, "code": 1}}
STARTS = {"web": 0, "code": 100, "math": 200}
BATCH_SIZE = 3


def numbers_from(start: int) -> rs.Pipeline[int]:
    return rs.from_iterable(lambda: iter(range(start, start + 40)))


def mixed(weights: Weights, *, as_stream: bool = False) -> rs.Pipeline[Any]:
    """A mix of those inputs that have weights."""
    names = [name for name in STARTS if any(name in each for each in weights.values())]
    if as_stream:
        return rs.mix({name: numbers_from(STARTS[name]) for name in names}, weights=weights)
    inputs = {
        name: rs.range(STARTS[name], STARTS[name] + 40).shuffle(number)
        for number, name in enumerate(names)
    }
    return rs.mix(inputs, weights=weights, seed=1)


def in_loader(weights: Weights, workers: int) -> Any:
    return ResumableDataLoader(
        PipelineDataset(mixed(weights).map(row)), batch_size=BATCH_SIZE, num_workers=workers
    )


def of_stream(weights: Weights, workers: int) -> Any:
    stream = mixed(weights, as_stream=True).map(row).prefetch(2)
    return ResumableDataLoader(PipelineDataset(stream), batch_size=BATCH_SIZE, num_workers=workers)


def by_sampler(weights: Weights, workers: int) -> Any:
    sampler = ResumableSampler(mixed(weights))
    return ResumableDataLoader(Rows(300), BATCH_SIZE, sampler=sampler, num_workers=workers)


def by_batch_sampler(weights: Weights, workers: int) -> Any:
    sampler = ResumableBatchSampler(mixed(weights), BATCH_SIZE)
    return ResumableDataLoader(Rows(300), batch_sampler=sampler, num_workers=workers)


LOADERS: Mapping[str, Callable[[Weights, int], Any]] = {
    "pipeline": in_loader,
    "stream": of_stream,
    "sampler": by_sampler,
    "batch sampler": by_batch_sampler,
}


@pytest.mark.parametrize("kind", LOADERS)
@pytest.mark.parametrize("workers", [(0, 2), (2, 0)], ids=str)
def test_a_loader_goes_on_with_what_the_error_says_to_write(
    kind: str, workers: tuple[int, int]
) -> None:
    make, entering = LOADERS[kind], {"web": 1, "math": 2}
    loader = make(BEFORE, workers[0])
    passed = list(map(plain, islice(loader, 5)))
    state = loader.state_dict()
    with pytest.raises(rs.StateMismatch, match=r"items before 1[56] were read") as refused:
        make({0: {"code": 1}, 1: entering}, workers[1]).load_state_dict(state)
    told = advised(refused.value)
    assert told is not None
    # What the workers have read ahead was not consumed, so it may change.
    assert told == {**BEFORE, 15 + (kind == "stream"): entering}
    changed = make(told, workers[1])
    changed.load_state_dict(state)
    passed += map(plain, islice(changed, 3))
    again = make({**told, 30: {"code": 1}}, workers[0])  # another change, further ahead
    again.load_state_dict(changed.state_dict())
    passed += map(plain, again)
    assert passed == list(map(plain, make({**told, 30: {"code": 1}}, 0)))


def test_a_plain_loader_counts_what_was_consumed_before_a_change() -> None:
    sampler = ResumableSampler(mixed(BEFORE))
    batches = list(islice(DataLoader(Rows(300), BATCH_SIZE, sampler=sampler), 4))
    state = sampler.state_dict(consumed=4 * BATCH_SIZE)
    with pytest.raises(rs.StateMismatch, match="items before 12 were read"):
        ResumableSampler(mixed({**BEFORE, 11: {"math": 1}})).load_state_dict(state)
    again = ResumableSampler(mixed({**BEFORE, 12: {"math": 1}}))
    again.load_state_dict(state)
    batches += DataLoader(Rows(300), BATCH_SIZE, sampler=again)
    expected = ResumableSampler(mixed({**BEFORE, 12: {"math": 1}}))
    assert [number for batch in batches for number in batch[:, 0].tolist()] == list(expected)


def test_partitions_of_several_ranks_change_together() -> None:
    def loader_of(weights: Weights, rank: int, ranks: int, workers: int) -> Any:
        names = [name for name in STARTS if any(name in each for each in weights.values())]
        sources = {name: rs.range(STARTS[name], STARTS[name] + 40) for name in names}
        parts = rs.partition(sources, 4, lambda **own: rs.mix(own, weights=weights).map(int))
        dataset = PipelineDataset(parts.shard(rank, ranks))
        return ResumableDataLoader(dataset, batch_size=None, num_workers=workers)

    delivered: list[int] = []
    states: dict[str, bytes] = {}
    for rank in range(2):
        loader = loader_of(BEFORE, rank, 2, 1 + rank)
        delivered += islice(loader, 9)
        states.update(PartitionedState(loader).state_dict())
    # The partition that is furthest has handed out five items.
    early, late = ({**BEFORE, first: {"web": 1, "math": 1}} for first in (4, 5))
    with pytest.raises(rs.StateMismatch, match="items before 5 were read"):
        PartitionedState(loader_of(early, 0, 1, 0)).load_state_dict(states)
    loaders = [loader_of(late, rank, 4, 0) for rank in range(4)]
    for loader in loaders:
        PartitionedState(loader).load_state_dict(states)
    delivered += chain(*loaders)
    assert sorted(delivered) == sorted(loader_of(late, 0, 1, 0))


@given(change=changes(), count=st.integers(0, 20), epoch=st.integers(0, 2))
def test_a_loader_accepts_a_changed_graph_only_where_it_delivers_what_it_would_from_nothing(
    change: tuple[Graph, Program, Program], count: int, epoch: int
) -> None:
    graph, old, new = change

    def made(program: Program) -> Any:
        data: Any = PipelineDataset(graph.made(program))
        loader: Any = ResumableDataLoader(data, batch_size=None)
        loader.set_epoch(epoch)
        return loader

    try:
        assume(len(list(islice(made(old), count + 1))) > count)  # else the next epoch follows
        passed_loader = made(old)
        passed = list(islice(passed_loader, count))
        expected = list(islice(made(new), count + 60))
    except (rs.InvalidArgument, rs.InvalidType, rs.MalformedItem):
        reject()
    changed = made(new)
    with suppress(rs.StateMismatch):
        changed.load_state_dict(passed_loader.state_dict())
        assert_same(passed + list(islice(changed, 60)), expected, str(new))
