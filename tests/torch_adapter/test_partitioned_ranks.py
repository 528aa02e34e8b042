"""Ranks that own partitions: killed, and resumed with another number of ranks and workers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from resumable_torch import PartitionedState, PipelineDataset, ResumableDataLoader  # noqa: E402
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


@pytest.mark.parametrize("way", ["dcp", "gather"])
def test_training_goes_on_with_other_ranks_and_workers_after_kills(
    way: str, tmp_path: Path
) -> None:
    write_documents(tmp_path)
    (tmp_path / "saved").mkdir()
    assert torchrun(4, MODULE, "train", tmp_path, way, 2, 9) != 0
    assert torchrun(3, MODULE, "train", tmp_path, way, 0, 15) != 0
    assert torchrun(2, MODULE, "train", tmp_path, way, 3, -1) == 0
    check_run(tmp_path)
    assert {step["world"] for step in steps_of(tmp_path)} == {4, 3, 2}


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
