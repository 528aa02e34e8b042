"""Train a small GPT with torch DDP, with another number of ranks or workers whenever it starts.

    torchrun --nproc-per-node 2 gpt_ddp.py --workers 2
    torchrun --nproc-per-node 4 gpt_ddp.py              # goes on where the two were killed

Documents of two corpora are filtered, tokenised, packed into rows and mixed in 24 partitions, which
ranks and workers own. So each document is read and tokenised by one of them only, once an epoch, also if
their numbers change in the middle of one; and one row in four is code, on any number of ranks. All ranks
save one checkpoint, without talking to each other.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import zlib
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import distributed, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

import resumable as rs

PARTITIONS = 24  # a multiple of all numbers of ranks, and of ranks times workers
LENGTH = 96
BATCH = 4
MODELS = 4  # more than there may be checkpoints
RUN = Path("run")
TRAINED = Path("trained.jsonl")
WEIGHTS = {"code": 1, "prose": 3}  # rows of each corpus
WORDS = {
    "code": [
        "def",
        "return",
        "for",
        "in",
        "if",
        "else",
        ":",
        "=",
        "+",
        "(",
        ")",
        "[",
        "]",
        "items",
        "state",
    ],
    "prose": [
        "the",
        "state",
        "of",
        "a",
        "pipeline",
        "is",
        "a",
        "position",
        "and",
        "nothing",
        "else",
        "so",
        "it",
        "is",
        "small",
    ],
}


def mixed(**parts: rs.Pipeline[Any]) -> rs.Pipeline[Any]:
    """What each partition does with its part of each corpus."""
    return rs.mix({name: rows(part) for name, part in parts.items()}, weights=WEIGHTS).batch(BATCH)


def rows(part: rs.Pipeline[Any]) -> rs.Pipeline[Any]:
    """Rows of tokens that never end, so no rank ends before the others."""
    return part.repeat().filter(is_long).map(tokenize).pack(LENGTH + 1, group=32)


def is_long(document: dict[str, Any]) -> bool:
    """Whether a document is worth training on."""
    return len(document["text"]) > 24


def tokenize(document: dict[str, Any]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Its bytes as tokens; 0 is left for padding."""
    return np.frombuffer(document["text"].encode(), np.uint8).astype(np.int64)


def main() -> None:
    """Write the documents if they are not there, and train from the last checkpoint or the start."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--documents", type=int, default=20_000, help="of each corpus")
    parser.add_argument("--steps", type=int, default=500, help="of each rank")
    parser.add_argument("--every", type=int, default=50, help="steps between checkpoints")
    parser.add_argument(
        "--workers", type=int, default=0, help="threads of a rank for its partitions"
    )
    options = parser.parse_args()

    distributed.init_process_group("gloo") if "RANK" in os.environ else alone()
    rank, ranks = distributed.get_rank(), distributed.get_world_size()
    if rank == 0:
        write_documents(options.documents)
    distributed.barrier()

    batches = rs.partition(
        corpora(options.documents), PARTITIONS, mixed, workers=options.workers
    ).shard(rank, ranks)
    torch.manual_seed(0)
    model = DistributedDataParallel(GPT())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    saver = SaveModel(model, optimizer)
    with rs.Checkpointer(
        RUN,
        rs.EverySteps(options.every),
        retention=rs.Retention(latest=2),
        listeners=[saver] if rank == 0 else [],  # it has no part of the model that the others lack
        rank=rank,
        ranks=ranks,
    ) as checkpointer:
        loop = checkpointer.resume(batches)
        saver.load(loop.step)
        if rank == 0:
            print(f"starting after step {loop.step:,}", flush=True)
            note(start=loop.step, ranks=ranks)
        for batch in islice(loop, max(options.steps - loop.step, 0)):
            loss = train(model, optimizer, batch)
            note(step=loop.step, rank=rank, rows=digests(batch))
            if rank == 0 and loop.step % options.every == 0:
                print(f"step {loop.step:,}: loss {loss:.3f}", flush=True)
    if rank == 0:
        torch.save(model.module.state_dict(), "gpt.pt")
    distributed.destroy_process_group()


def alone() -> None:
    """Be the only rank, without a launcher."""
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)


class SaveModel(rs.CheckpointListener):
    """Saves model and optimizer under the steps of the input."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self.parts = {"model": model, "optimizer": optimizer}

    def before_save(self, step: int) -> None:
        RUN.mkdir(exist_ok=True)
        unfinished = RUN / "model.part"
        torch.save({name: part.state_dict() for name, part in self.parts.items()}, unfinished)
        os.replace(unfinished, RUN / f"model-{step}.pt")
        saved = sorted(RUN.glob("model-*.pt"), key=os.path.getmtime)
        for old in saved[:-MODELS]:
            old.unlink()

    def load(self, step: int) -> None:
        """Load the model that belongs to a checkpoint of the input; nothing at the start."""
        if step:
            saved = torch.load(RUN / f"model-{step}.pt", weights_only=True)
            for name, part in self.parts.items():
                part.load_state_dict(saved[name])


def train(model: nn.Module, optimizer: torch.optim.Optimizer, batch: dict[str, Any]) -> float:
    """One step; returns the loss."""
    tokens, segments, positions = (
        torch.from_numpy(batch[name]) for name in ("tokens", "segment_ids", "positions")
    )
    # The next token is only to be told within a document.
    known = (segments[:, 1:] == segments[:, :-1]) & (segments[:, 1:] > 0)
    logits = model(tokens[:, :-1], segments[:, :-1], positions[:, :-1])
    loss = functional.cross_entropy(logits[known], tokens[:, 1:][known])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return float(loss)


class GPT(nn.Module):
    """Two layers that attend to earlier tokens of the same document."""

    def __init__(self, width: int = 32, heads: int = 2, layers: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.tokens = nn.Embedding(256, width)
        self.positions = nn.Embedding(LENGTH + 1, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width, heads, 4 * width, dropout=0.0, batch_first=True, norm_first=True
            )
            for _ in range(layers)
        )
        self.head = nn.Linear(width, 256)

    def forward(
        self, tokens: torch.Tensor, segments: torch.Tensor, positions: torch.Tensor
    ) -> torch.Tensor:
        """Logits of the next tokens, of shape (rows, length, 256)."""
        earlier = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool).tril()
        same = segments[:, :, None] == segments[:, None, :]
        hidden = self.tokens(tokens) + self.positions(positions)
        for layer in self.layers:
            hidden = layer(hidden, ~(earlier & same).repeat_interleave(self.heads, 0))
        return self.head(hidden)


def note(**entry: Any) -> None:
    """Append a line to the record of what was trained on."""
    with TRAINED.open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")


def digests(batch: dict[str, Any]) -> list[int]:
    """A number for each row of a batch."""
    return [zlib.crc32(row.tobytes()) for row in batch["tokens"]]


def corpora(documents: int) -> dict[str, rs.Pipeline[Any]]:
    """The documents of each corpus, in an order of its own."""
    paths = {name: file_of(name, documents) for name in WEIGHTS}
    return {name: rs.jsonl(path).shuffle(seed=0) for name, path in paths.items()}


def file_of(corpus: str, documents: int) -> Path:
    """The file with so many documents of a corpus."""
    return Path(f"{corpus}-{documents}.jsonl")


def write_documents(count: int) -> None:
    """Documents of all lengths, the same every time; each file is whole or not there."""
    for name, words in WORDS.items():
        path = file_of(name, count)
        if path.exists():
            continue
        rng = random.Random(0)
        unfinished = path.with_suffix(".part")
        with unfinished.open("w", encoding="utf-8") as file:
            for number in range(count):
                text = " ".join([f"{name} {number}:", *rng.choices(words, k=rng.randint(1, 12))])
                file.write(json.dumps({"text": text}) + "\n")
        os.replace(unfinished, path)


if __name__ == "__main__":
    main()
