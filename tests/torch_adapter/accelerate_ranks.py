"""What one rank does that registers its input with Accelerate."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from accelerate import Accelerator  # type: ignore[import-untyped]

from resumable_torch import JoinedState, PartitionedState, PipelineDataset, ResumableDataLoader
from torch_adapter.processes import meet

import resumable as rs

__all__ = ["partitioned", "sharded", "train"]

Deal = Callable[[int, int], rs.Pipeline[int]]


def sharded(rank: int, ranks: int) -> rs.Pipeline[int]:
    """Numbers that are dealt out one by one."""
    return rs.range(90).shuffle(0).shard(rank, ranks)


def partitioned(rank: int, ranks: int) -> rs.Pipeline[int]:
    """Numbers in partitions that ranks own."""
    parts = rs.range(120).shuffle(0).partition(6, lambda part: part.filter(lambda n: n % 3))
    return parts.shard(rank, ranks)


def loader(pipeline: rs.Pipeline[Any]) -> ResumableDataLoader[Any]:
    """A loader over the items of this rank."""
    return ResumableDataLoader(PipelineDataset(pipeline), None)


def refused(registered: Any, folder: Path) -> str:
    """Why ``registered`` may not be registered."""
    accelerator = Accelerator(cpu=True)
    try:
        accelerator.register_for_checkpointing(registered)
    except rs.ExternalStateError as error:
        return str(error)
    accelerator.save_state(str(folder))
    return ""


def train(folder: str, deal: Deal, ranks: int, steps: int) -> None:
    """Go on where the folder says, for some steps, and save; or to the end."""
    place = Path(folder)
    rank = meet(place, ranks)
    accelerator = Accelerator(cpu=True)
    assert (accelerator.process_index, accelerator.num_processes) == (rank, ranks)
    batches = loader(deal(rank, ranks))
    registered = JoinedState(batches) if deal is partitioned else batches
    accelerator.register_for_checkpointing(registered)
    saved = place / "saved"
    if saved.exists():
        accelerator.load_state(str(saved))
    accelerator.wait_for_everyone()  # before another rank can save
    taken = []
    for number in batches:
        taken.append(int(number))
        if len(taken) == steps:
            accelerator.save_state(str(saved))
            break
    found: dict[str, Any] = {"taken": taken, "refused": []}
    if deal is partitioned:
        own = deal(rank, ranks)
        uneven = own.shuffle(0, window=4)
        ours = batches, PartitionedState(batches), PipelineDataset(own), iter(own)
        theirs = loader(uneven), iter(uneven)
        found["refused"] = [refused(one, place / "refused") for one in (*ours, *theirs)]
    (place / f"{ranks}-{rank}.json").write_text(json.dumps(found))
