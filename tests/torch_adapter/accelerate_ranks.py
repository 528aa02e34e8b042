"""What one rank does that registers its input with Accelerate; started by torchrun."""

# python -m torch.distributed.run --nproc-per-node N -m torch_adapter.accelerate_ranks FOLDER STEPS

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from accelerate import Accelerator  # type: ignore[import-untyped]
from resumable_torch import JoinedState, PartitionedState, PipelineDataset, ResumableDataLoader

import resumable as rs


def numbers() -> rs.Pipeline[int]:
    """The numbers of all ranks."""
    return rs.range(120).shuffle(0).partition(6, lambda part: part.filter(lambda n: n % 3))


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


def main() -> None:
    """Go on where the folder says, for some steps, and save; or to the end."""
    folder, steps = Path(sys.argv[1]), int(sys.argv[2])
    accelerator = Accelerator(cpu=True)
    rank, ranks = accelerator.process_index, accelerator.num_processes
    batches = loader(numbers().shard(rank, ranks))
    accelerator.register_for_checkpointing(JoinedState(batches))
    saved = folder / "saved"
    resumes = saved.exists()
    accelerator.wait_for_everyone()  # before another rank can save
    if resumes:
        accelerator.load_state(str(saved))
    taken = []
    for number in batches:
        taken.append(number)
        if len(taken) == steps:
            accelerator.save_state(str(saved))
            break
    uneven = loader(numbers().shard(rank, ranks).shuffle(0, window=4))
    found = {
        "taken": taken,
        "refused": [
            refused(one, folder / "refused")
            for one in (
                batches,
                PartitionedState(batches),
                PipelineDataset(numbers().shard(rank, ranks)),
                iter(numbers().shard(rank, ranks)),
                uneven,
                iter(numbers().shard(rank, ranks).shuffle(0, window=4)),
            )
        ],
    }
    (folder / f"{ranks}-{rank}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
