"""What one rank of a distributed run does; started by torchrun."""

# python -m torch.distributed.run --nproc-per-node N -m torch_adapter.ranks COMMAND FOLDER ...

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from resumable_torch import ResumableDataLoader, ResumableDistributedSampler
from torch.distributed.checkpoint.state_dict_loader import load as dcp_load
from torch.distributed.checkpoint.state_dict_saver import async_save
from torch.distributed.checkpoint.state_dict_saver import save as dcp_save
from torch_adapter.data import Rows

LENGTH = 48
GLOBAL_BATCH = 12
EPOCHS = 3


def loader(world: int) -> ResumableDataLoader[Any]:
    """This rank's part of every global batch."""
    rows = Rows(LENGTH)
    sampler = ResumableDistributedSampler(rows, seed=3)
    return ResumableDataLoader(rows, GLOBAL_BATCH // world, sampler=sampler, num_workers=1)


def save(folder: Path, steps: int, *, asynchronous: bool) -> None:
    """Consume ``steps`` batches, then save the loader by torch.distributed.checkpoint."""
    batches = loader(dist.get_world_size())
    iterator = iter(batches)
    for _ in range(steps):
        next(iterator)
    state = {"loader": batches, "weights": torch.full((4,), float(steps))}
    if asynchronous:
        saving = async_save(state, checkpoint_id=folder)
        next(iterator)  # goes on meanwhile
        saving.result()  # type: ignore[union-attr]
    else:
        dcp_save(state, checkpoint_id=folder)
    list(iterator)


def load(folder: Path, out: Path) -> None:
    """Load it and write down the rest of the epoch."""
    batches = loader(dist.get_world_size())
    state: dict[str, Any] = {"loader": batches, "weights": torch.zeros(4)}
    dcp_load(state, checkpoint_id=folder)
    rest = [batch[:, 0].tolist() for batch in batches]
    found = {"rest": rest, "weights": state["weights"].tolist()}
    (out / f"{dist.get_rank()}.json").write_text(json.dumps(found))


def train(folder: Path, until: int) -> None:
    """Train from the last checkpoint to the end; rank 1 is killed at step ``until``."""
    rank, world = dist.get_rank(), dist.get_world_size()
    batches = loader(world)
    names = sorted(folder.glob("step-*.pt"))
    step = 0
    if names:
        saved = torch.load(names[-1], weights_only=True)
        batches.load_state_dict(saved["input"])
        step = saved["step"]
    for _ in range(batches.epoch, EPOCHS):
        for batch in batches:
            seen = [torch.zeros_like(batch) for _ in range(world)]
            dist.all_gather(seen, batch)
            step += 1
            if rank == 0:
                # The ranks were dealt their items in turn.
                rows = torch.stack(seen, dim=1).reshape(-1, 3)[:, 0].tolist()
                line = json.dumps(
                    {"step": step, "world": world, "epoch": batches.epoch, "rows": rows}
                )
                with (folder / "log.jsonl").open("a") as log:
                    log.write(f"{line}\n")
                saved = {"step": step, "input": batches.state_dict()}
                torch.save(saved, folder / f"step-{step:04}.part")
                os.replace(folder / f"step-{step:04}.part", folder / f"step-{step:04}.pt")
            if step == until and rank == world - 1:
                os.kill(os.getpid(), signal.SIGKILL)
            dist.barrier()


def main() -> None:
    """Do what the command line says."""
    dist.init_process_group("gloo")
    command, folder, *more = sys.argv[1:]
    if command == "save":
        save(Path(folder), int(more[0]), asynchronous=more[1] == "async")
    elif command == "load":
        load(Path(folder), Path(more[0]))
    else:
        train(Path(folder), int(more[0]))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
