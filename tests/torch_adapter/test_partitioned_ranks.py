"""Ranks that own partitions: killed, and resumed with another number of ranks and workers."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from resumable_torch import (  # noqa: E402
    JoinedState,
    PartitionedState,
    PipelineDataset,
    ResumableDataLoader,
    gather_state,
)
from resumable_torch.cursor import KEY  # noqa: E402
from torch_adapter.partitioned_ranks import (  # noqa: E402
    PARTITIONS,
    check_run,
    steps_of,
    stream,
    write_documents,
)
from torch_adapter.processes import torchrun  # noqa: E402

import resumable as rs  # noqa: E402

MODULE = "torch_adapter.partitioned_ranks"


@pytest.mark.parametrize(("way", "worlds"), [("dcp", (4, 3)), ("gather", (3,))])
def test_training_goes_on_with_other_ranks_and_workers_after_kills(
    way: str, worlds: tuple[int, ...], tmp_path: Path
) -> None:
    write_documents(tmp_path)
    (tmp_path / "saved").mkdir()
    for world, workers, last in zip(worlds, (2, 0), (9, 15), strict=False):
        assert torchrun(world, MODULE, "train", tmp_path, way, workers, last) != 0
    assert torchrun(2, MODULE, "train", tmp_path, way, 3, -1) == 0
    check_run(tmp_path)
    assert {step["world"] for step in steps_of(tmp_path)} == {*worlds, 2}


def test_ranks_that_end_at_different_steps_join(tmp_path: Path) -> None:
    write_documents(tmp_path, 60)
    assert torchrun(2, MODULE, "join", tmp_path) == 0
    found = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    expected = [sum(1 for _ in stream(tmp_path, rank, 2)) for rank in range(2)]
    assert [one["steps"] for one in found] == expected
    assert expected[0] != expected[1]
    assert found[0]["weights"] == found[1]["weights"]


def loader(pipeline: Any) -> Any:
    return ResumableDataLoader(PipelineDataset(pipeline), None)


def keys(count: int, rank: int, ranks: int) -> list[str]:
    return [f"partition/{number:05}" for number in range(rank, count, ranks)]


def test_each_partition_has_a_key_of_its_own(tmp_path: Path) -> None:
    write_documents(tmp_path)
    ranks = [loader(stream(tmp_path, rank, 4)) for rank in range(4)]
    saved: dict[str, bytes] = {}
    for rank, one in enumerate(ranks):
        iterator = iter(one)
        for _ in range(7):
            next(iterator)
        state = PartitionedState(one).state_dict()
        assert [*state] == keys(PARTITIONS, rank, 4)
        saved |= state
    states = [rs.loads(one.state_dict()[KEY]) for one in ranks]
    for rank in range(3):
        again = loader(stream(tmp_path, rank, 3))
        wanted = {key: saved[key] for key in PartitionedState(again).state_dict()}
        PartitionedState(again).load_state_dict(wanted)
        merged = loader(stream(tmp_path, rank, 3))
        merged.load_state_dict({KEY: rs.dumps(rs.merge_states(states))})
        assert again.state_dict() == merged.state_dict()
        wanted.popitem()
        with pytest.raises(rs.StateMismatch, match="which this rank needs"):
            PartitionedState(again).load_state_dict(wanted)


def test_several_partitions_and_none_are_saved_by_the_same_words() -> None:
    one = rs.range(30).partition(4, lambda part: part.batch(2))
    other = rs.range(30).partition(6, lambda part: part.filter(bool).batch(3))
    for pipeline in (rs.mix(one, other, weights=[1, 2], seed=0), rs.zip(one, other)):
        source = loader(pipeline.map(repr))
        iterator = iter(source)
        for _ in range(5):
            next(iterator)
        state = PartitionedState(source).state_dict()
        assert [*state] == keys(6, 0, 1)
        again = loader(pipeline.map(repr))
        PartitionedState(again).load_state_dict(state)
        assert again.state_dict() == source.state_dict()
        assert list(again) == list(iterator)
    plain = loader(rs.range(9))
    next(iter(plain))
    assert PartitionedState(plain).state_dict() == plain.state_dict()
    again = loader(rs.range(9))
    PartitionedState(again).load_state_dict(plain.state_dict())
    assert list(again) == list(range(1, 9))


@pytest.mark.parametrize("made", [loader, iter])
def test_a_state_that_is_of_one_rank_has_a_key_of_its_own(made: Any) -> None:
    def own(rank: int) -> rs.Pipeline[int]:
        return rs.range(100).shard(rank, 2).filter(lambda number: number % 7 > 0)

    saved: dict[str, bytes] = {}
    rests = []
    for rank in range(2):
        source = made(own(rank))
        items = iter(source)
        assert len(list(islice(items, 5))) == 5
        saved |= PartitionedState(source).state_dict()
        rests.append(list(items))
    assert [*saved] == ["rank/00000-of-00002", "rank/00001-of-00002"]
    for rank, rest in enumerate(rests):
        again = made(own(rank))
        wanted = {key: saved[key] for key in PartitionedState(again).state_dict()}
        PartitionedState(again).load_state_dict(wanted)
        assert list(again) == rest


def split_at(steps: dict[int, int], ranks: int = 2, count: int = 4) -> dict[str, bytes]:
    """The partitions of ranks that have taken so many items, by the number of the rank."""
    saved: dict[str, bytes] = {}
    for rank, taken in steps.items():
        with iter(uneven(count).shard(rank, ranks)) as iterator:
            assert len(iterator.pull(taken)) == taken
            saved |= PartitionedState(iterator).state_dict()
    return saved


def uneven(count: int) -> Any:
    """Partition ``k`` has ``3 * k + 3`` items."""
    return rs.range(60).partition(
        count, lambda part: part.filter(lambda n: n // count <= 3 * (n % count) + 2)
    )


def test_partitions_of_different_steps_are_refused_unless_their_rank_has_ended() -> None:
    pipeline = uneven(4)
    lengths = [len(list(pipeline.shard(rank, 2))) for rank in range(2)]
    assert lengths == [12, 18]
    for steps in ({0: 5, 1: 7}, {0: 11, 1: 18}):
        with (
            iter(pipeline) as iterator,
            pytest.raises(rs.StateMismatch, match=f"at step {steps[0]}"),
        ):
            PartitionedState(iterator).load_state_dict(split_at(steps))
    with iter(pipeline) as iterator:
        PartitionedState(iterator).load_state_dict(split_at({0: 12, 1: 14}))
        assert len(list(iterator)) == 4
    with iter(pipeline.shard(1, 2)) as iterator:  # which needs none of the others
        PartitionedState(iterator).load_state_dict(split_at({0: 5, 1: 7}))
        assert len(list(iterator)) == 18 - 7
    with iter(pipeline.take(30)) as iterator:  # it holds items of all: not looked into
        state = PartitionedState(iterator).state_dict()
        PartitionedState(iterator).load_state_dict(state)


def test_an_iterator_has_a_state_by_torchs_names() -> None:
    pipeline = uneven(4)
    with iter(pipeline) as iterator, iter(pipeline) as again:
        iterator.pull(5)
        assert rs.loads(gather_state(iterator)[KEY]) == iterator.get_state()
        for kind in (JoinedState, PartitionedState):
            kind(again).load_state_dict(kind(iterator).state_dict())
            assert again.get_state() == iterator.get_state()
            with pytest.raises(rs.StateMismatch, match="must be a dict"):
                kind(again).load_state_dict({KEY: b"", "other": b""})
    for rank_alone in (rs.range(40).shard(1, 2).filter(bool), pipeline.shard(1, 2), rs.range(40)):
        with iter(rank_alone) as iterator:
            iterator.skip(3)
            source = loader(rank_alone)
            PartitionedState(source).load_state_dict(iterator.state_dict())
            iterator.skip(1)
            iterator.load_state_dict(source.state_dict())
            assert list(source) == list(iterator)
    takers: tuple[Any, ...] = (JoinedState, PartitionedState, gather_state)
    for taker in takers:
        with pytest.raises(rs.InvalidType, match="loader must be a ResumableDataLoader"):
            taker(pipeline)
