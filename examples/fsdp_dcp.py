"""Train a small language model with FSDP2, and save model, optimizer and input in one distributed checkpoint.

    torchrun --nproc-per-node 2 fsdp_dcp.py
    torchrun --nproc-per-node 3 fsdp_dcp.py     # goes on where the two were killed
    python fsdp_dcp.py                          # and so does a single process

`torch.distributed.checkpoint` takes the iterator of the pipeline as it takes the model. Each partition of
the input has a key of its own, so any number of ranks loads those that it then owns. A step has the same
rows on any number of ranks that divides `ROWS` and `PARTITIONS`, so the loss goes on as it would have.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import zlib
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed.checkpoint as dcp
from torch import distributed, nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard
from torch.nn import functional

import resumable as rs

PARTITIONS = 24
ROWS = 12  # of a step, on all ranks together
LENGTH = 48
CHECKPOINTS = Path("checkpoints")
TRAINED = Path("trained.jsonl")
WORDS = ["a", "pipeline", "is", "its", "position", "so", "small", "that", "it", "lies", "beside"]


def pipeline(documents: int, rank: int, ranks: int) -> rs.Pipeline[Any]:
    """The rows of a rank, in batches that are smaller the more ranks there are."""
    if ROWS % ranks:
        raise ValueError(f"the number of ranks must divide {ROWS} rows, got {ranks}")
    lines = rs.lines(file_of(documents)).shuffle(seed=0)
    return lines.partition(PARTITIONS, rows).shard(rank, ranks).batch(ROWS // ranks)


def rows(part: rs.Pipeline[str]) -> rs.Pipeline[Any]:
    """The rows of a partition. They never end, so no rank ends before the others."""
    packed = part.repeat().filter(is_long).map(tokenize).pack(LENGTH + 1, how="concatenate")
    return packed.map(tokens_of)


def is_long(document: str) -> bool:
    """Whether a document is worth training on."""
    return len(document) > 20


def tokenize(document: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Its bytes as tokens."""
    return np.frombuffer(f"{document}\n".encode(), np.uint8).astype(np.int64)


def tokens_of(row: dict[str, Any]) -> Any:
    """The tokens of a row alone."""
    return row["tokens"]


def main() -> None:
    """Write the documents if they are not there, and train from the last checkpoint or the start."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--every", type=int, default=20, help="steps between checkpoints")
    options = parser.parse_args()
    distributed.init_process_group("gloo") if "RANK" in os.environ else alone()
    train(options.documents, options.steps, options.every)
    distributed.destroy_process_group()


def alone() -> None:
    """Be the only rank, without a launcher."""
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)


def train(documents: int, steps: int, every: int) -> None:
    """Train up to so many steps, of which some may have been done before."""
    rank, ranks = distributed.get_rank(), distributed.get_world_size()
    if rank == 0:
        write_documents(documents)
    distributed.barrier()
    torch.manual_seed(0)
    training = Training()
    batches = iter(pipeline(documents, rank, ranks))
    states = {"training": training, "input": batches}
    if path := latest():
        dcp.load(states, checkpoint_id=path)
    if rank == 0:
        print(f"starting after step {batches.step:,}", flush=True)
        note(start=batches.step, ranks=ranks)
    for batch in islice(batches, max(steps - batches.step, 0)):
        loss = training.step(torch.from_numpy(batch))
        note(step=batches.step, rank=rank, loss=loss, rows=digests(batch))
        if batches.step % every == 0 or batches.step == steps:
            save(states, batches.step)
            if rank == 0:
                print(f"step {batches.step:,}: loss {loss:.3f}", flush=True)


class Training:
    """The model and its optimizer, with a state for `torch.distributed.checkpoint`."""

    def __init__(self) -> None:
        self.model = LanguageModel()
        for layer in self.model.layers:
            fully_shard(layer)
        fully_shard(self.model)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-3)

    def step(self, tokens: torch.Tensor) -> float:
        """One step; returns the loss over the rows of all ranks."""
        loss = functional.cross_entropy(self.model(tokens[:, :-1]), tokens[:, 1:].flatten())
        self.optimizer.zero_grad()
        loss.backward()  # FSDP takes the mean over ranks, which have equally many tokens
        self.optimizer.step()
        mean = loss.detach() / distributed.get_world_size()
        distributed.all_reduce(mean)
        return float(mean)

    def state_dict(self) -> dict[str, Any]:
        """The shards of this rank, under names that do not depend on the ranks."""
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` had, as `torch.distributed.checkpoint` has filled it in."""
        set_state_dict(
            self.model,
            self.optimizer,
            model_state_dict=state_dict["model"],
            optim_state_dict=state_dict["optimizer"],
        )


class LanguageModel(nn.Module):
    """Tells the next token from the one at hand and the mean of those before it."""

    def __init__(self, width: int = 32, layers: int = 2) -> None:
        super().__init__()
        self.tokens = nn.Embedding(256, width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(layers))
        self.head = nn.Linear(width, 256)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits of the next tokens, of shape (rows * length, 256)."""
        embedded = self.tokens(tokens)
        counts = torch.arange(1, tokens.shape[1] + 1)[:, None]
        hidden = embedded + embedded.cumsum(1) / counts
        for layer in self.layers:
            hidden = layer(hidden)
        return self.head(hidden.flatten(0, 1))


class Layer(nn.Module):
    """Adds what two linear layers make of each token."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.inner = nn.LayerNorm(width), nn.Linear(width, 2 * width)
        self.outer = nn.Linear(2 * width, width)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """``hidden`` with that, of the same shape."""
        return hidden + self.outer(functional.gelu(self.inner(self.norm(hidden))))


def save(states: dict[str, Any], step: int) -> None:
    """Write a checkpoint that is whole or not there, and remove all but the newest two."""
    unfinished = CHECKPOINTS / "unfinished"
    if distributed.get_rank() == 0:
        shutil.rmtree(unfinished, ignore_errors=True)
    distributed.barrier()
    dcp.save(states, checkpoint_id=unfinished)
    distributed.barrier()
    if distributed.get_rank() == 0:
        shutil.rmtree(place_of(step), ignore_errors=True)
        os.replace(unfinished, place_of(step))
        for old in saved_steps()[:-2]:
            shutil.rmtree(place_of(old))
    distributed.barrier()


def latest() -> Path | None:
    """The newest checkpoint; None if there is none."""
    return next(map(place_of, reversed(saved_steps())), None)


def saved_steps() -> list[int]:
    """The steps that have a checkpoint."""
    return sorted(int(path.name.removeprefix("step-")) for path in CHECKPOINTS.glob("step-*"))


def place_of(step: int) -> Path:
    """The folder of the checkpoint of a step."""
    return CHECKPOINTS / f"step-{step}"


def note(**entry: Any) -> None:
    """Append a line to the record of what was trained on."""
    with TRAINED.open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")


def digests(batch: Any) -> list[int]:
    """A number for each row of a batch."""
    return [zlib.crc32(row.tobytes()) for row in batch]


def file_of(documents: int) -> Path:
    """The file with so many documents."""
    return Path(f"documents-{documents}.txt")


def write_documents(count: int) -> None:
    """Documents of all lengths, the same every time, in a file that is whole or not there."""
    path = file_of(count)
    if path.exists():
        return
    rng, unfinished = random.Random(0), path.with_suffix(".part")
    words = [rng.choices(WORDS, k=rng.randint(1, 12)) for _ in range(count)]
    unfinished.write_text("".join(f"{n}: {' '.join(chosen)}\n" for n, chosen in enumerate(words)))
    os.replace(unfinished, path)


if __name__ == "__main__":
    main()
