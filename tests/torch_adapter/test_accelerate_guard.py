"""What keeps the state of rank 0 for all ranks gets it only where all ranks have the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed")

from resumable_torch import PipelineDataset, ResumableDataLoader

import resumable as rs


def state_for_accelerate(pipeline: rs.Pipeline[Any]) -> Any:
    """The ``state_dict`` that a data set gives to the module of Accelerate that saves."""
    asking = {"__name__": "accelerate.checkpointing", "dataset": PipelineDataset(pipeline)}
    return eval("dataset.state_dict()", asking)


def test_a_shard_of_the_lines_of_a_file_has_one_state_for_all_ranks(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text("a\nb\nc\nd\n")
    lines = rs.lines(path).shuffle(0)
    first, second = (state_for_accelerate(lines.shard(rank, 2)) for rank in range(2))
    assert first == second
    with pytest.raises(rs.ExternalStateError, match="takes more items on one rank than on another"):
        state_for_accelerate(lines.shard(0, 2).filter(str.isalpha))
    with pytest.raises(rs.ExternalStateError, match="JoinedState"):
        state_for_accelerate(lines.partition(2, lambda part: part).shard(0, 2))


def test_a_loader_is_not_prepared() -> None:
    accelerate = pytest.importorskip("accelerate", reason="accelerate is not installed")
    accelerator = accelerate.Accelerator(cpu=True)
    for data in ([*range(9)], PipelineDataset(rs.range(9))):
        with pytest.raises(rs.InvalidArgument, match="must not be given to prepare"):
            accelerator.prepare(ResumableDataLoader(data, 3))
