"""A rank of Fabric, and what it gets of each loader; started by torchrun."""

# python -m torch.distributed.run --nproc-per-node N -m torch_adapter.fabric_ranks FOLDER

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from lightning.fabric import Fabric
from resumable_torch import ResumableBatchSampler, ResumableDataLoader, ResumableDistributedSampler

LENGTH = 100


def set_up(fabric: Fabric, ranks: dict[str, Any]) -> dict[str, Any]:
    """The rows of each loader that ``fabric`` has set up, or the error of its setup."""
    rows: Any = torch.arange(LENGTH)
    orders: dict[str, dict[str, Any]] = {
        "batch sampler": {"batch_sampler": ResumableBatchSampler(rows, 10, shuffle=True)},
        "shuffle": {"batch_size": 10, "shuffle": True},
        "dealt": {"batch_size": 10, "sampler": dealt(rows, ranks)},
        "dealt batches": {"batch_sampler": ResumableBatchSampler(dealt(rows, ranks), 10)},
    }
    found: dict[str, Any] = {}
    for name, options in orders.items():
        try:
            batches: Any = fabric.setup_dataloaders(ResumableDataLoader(rows, **options))
            found[name] = [batch.tolist() for batch in batches]
        except ValueError as error:
            found[name] = str(error)
    return found


def dealt(rows: Any, ranks: dict[str, Any]) -> ResumableDistributedSampler:
    """The part of a rank."""
    return ResumableDistributedSampler(rows, **ranks, seed=1)


def main() -> None:
    """Write down what Fabric makes of the loaders of this rank."""
    fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp")
    fabric.launch()
    found = set_up(fabric, {})
    (Path(sys.argv[1]) / f"{fabric.global_rank}.json").write_text(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
