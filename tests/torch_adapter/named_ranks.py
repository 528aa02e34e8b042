"""What one rank does whose iterators `torch.distributed.checkpoint` saves as they are."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict_loader import load as dcp_load
from torch.distributed.checkpoint.state_dict_saver import save as dcp_save

import resumable as rs

COUNT = 180


def kept(number: int) -> bool:
    """Whether a number stays."""
    return number % 7 > 0


def pipelines() -> dict[str, rs.Pipeline[int]]:
    """Pipelines of this rank: their state is that of all ranks, of partitions, and of this rank alone."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    numbers = rs.range(COUNT).shuffle(0)
    return {
        "order": numbers.filter(kept).shard(rank, ranks, uneven="keep"),
        "parts": numbers.partition(12, lambda part: part.filter(kept)).shard(rank, ranks),
        "own": numbers.shard(rank, ranks).filter(kept),
    }


def go_on(before: str | None, steps: int | None, after: str | None) -> None:
    """Load, take so many items of each iterator or all, save, and append what was taken to a file of this rank."""
    iterators = {name: iter(pipeline) for name, pipeline in pipelines().items()}
    if before is not None:
        own: dict[str, Any] = {"own": iterators.pop("own")}
        dcp_load(dict(iterators), checkpoint_id=before)
        try:
            dcp_load(own, checkpoint_id=before)
        except CheckpointException as error:
            assert "Missing key in checkpoint state_dict: own.rank/" in str(error)  # noqa: PT017
        else:
            raise AssertionError("a rank has taken on the state of another one")
        assert own["own"].step == 0
    taken = {name: list(islice(iterator, steps)) for name, iterator in iterators.items()}
    if after is not None:
        dcp_save(dict(iterators), checkpoint_id=after)
        again = {name: iter(pipelines()[name]) for name in iterators}
        dcp_load(dict(again), checkpoint_id=after)
        for name, iterator in iterators.items():
            assert again[name].get_state() == iterator.get_state(), name
    name = f"{dist.get_world_size()}-{dist.get_rank()}.json"
    Path(name).write_text(json.dumps(taken), encoding="utf-8")
