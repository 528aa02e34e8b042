"""Ranks: torch.distributed.checkpoint, a rank killed, and another number of ranks on resume."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from resumable_torch import ResumableDistributedSampler  # noqa: E402
from torch_adapter.data import Rows  # noqa: E402
from torch_adapter.processes import torchrun  # noqa: E402
from torch_adapter.ranks import EPOCHS, GLOBAL_BATCH, LENGTH  # noqa: E402

import resumable as rs  # noqa: E402

MODULE = "torch_adapter.ranks"


def global_order() -> list[list[int]]:
    """The global batches of each epoch."""
    batches = []
    for epoch in range(EPOCHS):
        order = list(rs.range(LENGTH).shuffle(3).start(epoch))
        batches += [order[at : at + GLOBAL_BATCH] for at in range(0, LENGTH, GLOBAL_BATCH)]
    return batches


@pytest.mark.parametrize("way", ["sync", "async"])
def test_two_ranks_save_and_three_load(way: str, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    assert torchrun(2, MODULE, "save", checkpoint, 3, way) == 0
    assert torchrun(3, MODULE, "load", checkpoint, tmp_path) == 0
    found = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(3)]
    assert all(one["weights"] == [3.0] * 4 for one in found)
    (last,) = zip(*(one["rest"] for one in found), strict=True)
    assert [row for turn in zip(*last, strict=True) for row in turn] == global_order()[3]


def test_training_goes_on_with_other_numbers_of_ranks_after_kills(tmp_path: Path) -> None:
    assert torchrun(3, MODULE, "train", tmp_path, 3) != 0
    assert torchrun(2, MODULE, "train", tmp_path, 8) != 0
    assert torchrun(4, MODULE, "train", tmp_path, -1) == 0
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    steps = {line["step"]: line for line in lines}  # the last attempt at a step counts
    assert sorted(steps) == list(range(1, len(global_order()) + 1))
    assert [steps[step]["rows"] for step in sorted(steps)] == global_order()
    assert len({line["world"] for line in lines}) == 3
    for epoch in range(EPOCHS):
        rows = [row for line in steps.values() if line["epoch"] == epoch for row in line["rows"]]
        assert sorted(rows) == list(range(LENGTH))


def test_it_stands_in_for_the_sampler_of_torch() -> None:
    from torch.utils.data import DistributedSampler

    rows = Rows(14)
    for shuffle in (False, True):
        for drop_last in (False, True):
            for world in (1, 3, 4):
                taken: list[int] = []
                for rank in range(world):
                    ours = ResumableDistributedSampler(rows, world, rank, shuffle, 7, drop_last)
                    theirs: Any = DistributedSampler(rows, world, rank, shuffle, 7, drop_last)
                    ours.set_epoch(1)
                    theirs.set_epoch(1)
                    assert len(ours) == len(theirs) == ours.num_samples
                    assert ours.total_size == theirs.total_size
                    assert (ours.rank, ours.num_replicas) == (rank, world)
                    taken += ours
                    if not shuffle and not drop_last:
                        assert list(ours)[: 14 // world] == list(theirs)[: 14 // world]
                assert set(taken) == set(range(14)) or drop_last
                assert len(set(taken)) >= 14 // world * world
    with pytest.raises(rs.InvalidArgument, match=r"num_replicas and rank must be given"):
        ResumableDistributedSampler(rows)
    with pytest.raises(rs.InvalidArgument, match=r"index must be below count=2, got 2"):
        ResumableDistributedSampler(rows, 2, 2)
