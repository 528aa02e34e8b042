"""What one rank does that owns partitions; started by torchrun."""

# python -m torch.distributed.run --nproc-per-node N -m torch_adapter.partitioned_ranks COMMAND FOLDER ...
#
# Documents lie in files of words, one to a line; their numbers are the tokens. They are filtered and
# packed in partitions.

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from resumable_torch import (
    PartitionedState,
    PipelineDataset,
    ResumableDataLoader,
    gather_state,
)
from torch.distributed.algorithms.join import Join
from torch.distributed.checkpoint.state_dict_loader import load as dcp_load
from torch.distributed.checkpoint.state_dict_saver import save as dcp_save

import resumable as rs

DOCUMENTS = 480
PARTITIONS = 24


def write_documents(folder: Path, count: int = DOCUMENTS) -> None:
    """Write ``count`` documents of different lengths into files of different lengths."""
    files = 7
    for number in range(files):
        lines = [f"{document} " * (1 + document % 4) for document in range(number, count, files)]
        (folder / f"{number}.txt").write_text("\n".join(lines) + "\n")


def tokens(line: str) -> list[int]:
    """The tokens of a document: each is 1 + its number."""
    return [1 + int(word) for word in line.split()]


def good(document: list[int]) -> bool:
    """Whether a document is kept."""
    return document[0] % 7 > 0


def packed(part: rs.Pipeline[Any]) -> rs.Pipeline[Any]:
    """The documents of a partition, as rows of eight tokens, which are filled up with zeros."""
    return part.map(tokens).filter(good).pack(8, group=3).map(lambda row: row["tokens"])


def stream(folder: Path, rank: int, ranks: int) -> rs.Pipeline[Any]:
    """The rows of a rank."""
    lines = rs.lines(sorted(map(str, folder.glob("*.txt")))).shuffle(seed=0)
    return lines.partition(PARTITIONS, packed).shard(rank, ranks)


def endless(rank: int, ranks: int) -> rs.Pipeline[int]:
    """Numbers that never end, of a rank."""
    numbers = rs.range(200).shuffle(seed=0)
    return numbers.partition(
        PARTITIONS, lambda part: part.filter(lambda number: number % 5).repeat()
    ).shard(rank, ranks)


def loader(folder: Path, workers: int) -> ResumableDataLoader[Any]:
    """The loader of this rank."""
    pipeline = stream(folder, dist.get_rank(), dist.get_world_size())
    return ResumableDataLoader(PipelineDataset(pipeline), None, num_workers=workers)


def gathered(row: Any) -> list[list[int]] | None:
    """The rows of all ranks at a step; None if none has any."""
    rows: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(rows, None if row is None else row.tolist())
    found = [one for one in rows if one is not None]
    return found or None


def train(folder: Path, way: str, workers: int, until: int) -> None:
    """Train from the last checkpoint to the end; the last rank is killed at step ``until``."""
    rank, world = dist.get_rank(), dist.get_world_size()
    batches = loader(folder, workers)
    saved = sorted((folder / "saved").glob("step-*"))
    step = 0
    if saved:
        step = int(saved[-1].name.removeprefix("step-"))
        if way == "dcp":
            dcp_load({"input": PartitionedState(batches)}, checkpoint_id=saved[-1])
        else:
            batches.load_state_dict(torch.load(saved[-1], weights_only=True))
    iterator = iter(batches)
    while (rows := gathered(next(iterator, None))) is not None:
        step += 1
        if rank == 0:
            with (folder / "log.jsonl").open("a") as log:
                print(json.dumps({"step": step, "world": world, "rows": rows}), file=log)
        if step == until and rank == world - 1:
            os.kill(os.getpid(), signal.SIGKILL)
        part, place = folder / f"saving-{step:06}", folder / "saved" / f"step-{step:06}"
        if way == "dcp":
            dcp_save({"input": PartitionedState(batches)}, checkpoint_id=part)
        else:
            state = gather_state(batches)
            if rank == 0:
                torch.save(state, part)
        dist.barrier()
        if rank == 0:
            os.replace(part, place)
        dist.barrier()


def join(folder: Path) -> None:
    """Train a model over ranks that end at different steps, each with its own gradients."""
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    steps = 0
    with Join([model]):
        for row in loader(folder, 0):
            optimizer.zero_grad()
            model(torch.as_tensor(row).float()).sum().backward()
            optimizer.step()
            steps += 1
    weights = [part.flatten().tolist() for part in model.parameters()]
    found = {"steps": steps, "weights": weights}
    (folder / f"{dist.get_rank()}.json").write_text(json.dumps(found))


def steps_of(folder: Path) -> list[dict[str, Any]]:
    """The last attempt at each step."""
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    steps = {line["step"]: line for line in lines}
    assert sorted(steps) == list(range(1, len(steps) + 1))
    return [steps[step] for step in sorted(steps)]


def check_run(folder: Path) -> None:
    """Every document came once, and in order as long as no partition had ended."""
    steps = steps_of(folder)
    seen = [token for step in steps for row in step["rows"] for token in row if token]
    expected = [[1 + number] * (1 + number % 4) for number in range(DOCUMENTS)]
    assert sorted(seen) == [token for text in expected if good(text) for token in text]
    with iter(stream(folder, 0, 1)) as whole:
        compared = 0
        for step in steps:
            rows = [row.tolist() for row in whole.pull(len(step["rows"]))]
            if any(whole.get_state()["pipeline"]["ended"]):
                break
            assert sorted(step["rows"]) == sorted(rows)
            compared += 1
    assert compared > len(steps) / 2


def main() -> None:
    """Do what the command line says."""
    dist.init_process_group("gloo")
    command, folder, *more = sys.argv[1:]
    if command == "train":
        way, workers, until = more
        train(Path(folder), way, int(workers), int(until))
    else:
        join(Path(folder))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
