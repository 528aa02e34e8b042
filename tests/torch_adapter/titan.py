"""Data loaders of torchtitan over pipelines, and what one rank does that trains with one of them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from resumable_torch.torchtitan import PipelineDataLoader
from torch.distributed.checkpoint.state_dict import (
    get_optimizer_state_dict,
    set_optimizer_state_dict,
)
from torchtitan.components.checkpoint import CheckpointManager
from torchtitan.components.tokenizer import BaseTokenizer

import resumable as rs
from examples import fsdp_dcp

PARTITIONS = 12
GLOBAL_BATCH = 12
BOS, EOS = 1, 2


class Characters(BaseTokenizer):
    """Each character is its number."""

    def __init__(self) -> None:
        super().__init__()
        self.bos_id, self.eos_id = BOS, EOS

    def encode(self, text: str, *, add_bos: bool = False, add_eos: bool = False) -> list[int]:
        """The numbers of ``text``."""
        return [BOS] * add_bos + [ord(character) for character in text] + [EOS] * add_eos

    def decode(self, token_ids: list[int]) -> str:
        """Their text."""
        return "".join(chr(token) for token in token_ids if token > EOS)

    def get_vocab_size(self) -> int:
        """The number of tokens."""
        return 256


def with_labels(row: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """What torchtitan expects of a row: tokens with their positions in the document, and the next tokens."""
    tokens, positions = row["tokens"], row["positions"]
    first = np.flatnonzero(positions == 0)[:1]
    head = int(first[0]) if len(first) else len(positions)
    # A document that began in the row before begins here anew.
    positions = np.concatenate([positions[:head] - positions[0], positions[head:]])
    return {"input": tokens[:-1], "positions": positions[:-1]}, tokens[1:]


class TextLoader(PipelineDataLoader):
    """Documents of one or more files, packed in partitions."""

    @dataclass(kw_only=True, slots=True)
    class Config(PipelineDataLoader.Config):
        """The files, and their shares in what is delivered."""

        sources: dict[str, float] = field(default_factory=dict)
        partitioned: bool = True

    def build_pipeline(
        self,
        config: Config,
        *,
        tokenizer: Any,
        seq_len: int,
        local_batch_size: int,
        dp_rank: int,
        dp_world_size: int,
    ) -> rs.Pipeline[Any]:
        def encode(document: str) -> Any:
            tokens = tokenizer.encode(document, add_bos=True, add_eos=True)
            return np.asarray(tokens, np.int64)

        def rows(documents: rs.Pipeline[str]) -> rs.Pipeline[Any]:
            epochs = documents.repeat() if config.infinite else documents
            packed = epochs.map(encode).pack(seq_len + 1, how="concatenate")
            return packed.filter(lambda row: row["segment_ids"].all()).map(with_labels)

        def mixed(*parts: rs.Pipeline[str]) -> rs.Pipeline[Any]:
            made = list(map(rows, parts))
            return rs.mix(*made, weights=list(config.sources.values())) if made[1:] else made[0]

        documents = [rs.lines(path).shuffle(0) for path in config.sources]
        if config.partitioned:
            found = rs.partition(documents, PARTITIONS, mixed)
            return found.shard(dp_rank, dp_world_size).batch(local_batch_size)
        return mixed(*documents).shard(dp_rank, dp_world_size).batch(local_batch_size)


class Documents(PipelineDataLoader):
    """The rows of the example with FSDP2."""

    @dataclass(kw_only=True, slots=True)
    class Config(PipelineDataLoader.Config):
        """Nothing more."""

    def build_pipeline(
        self, config: Config, *, dp_rank: int, dp_world_size: int, local_batch_size: int, **_: Any
    ) -> rs.Pipeline[Any]:
        lines = rs.lines(fsdp_dcp.file_of(int(config.dataset))).shuffle(0)
        rows = lines.partition(fsdp_dcp.PARTITIONS, fsdp_dcp.rows)
        pairs = rows.map(lambda tokens: ({"input": tokens[:-1]}, tokens[1:]))
        return pairs.shard(dp_rank, dp_world_size).batch(local_batch_size)


class Optimizers:
    """The optimizer of a model, as torchtitan's container of optimizers has it."""

    def __init__(self, training: fsdp_dcp.Training) -> None:
        self.training = training

    def state_dict(self) -> dict[str, Any]:
        """The shards of this rank."""
        return get_optimizer_state_dict(self.training.model, self.training.optimizer)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take them over."""
        model, optimizer = self.training.model, self.training.optimizer
        set_optimizer_state_dict(model, optimizer, optim_state_dict=state_dict)


class TrainState:
    """What torchtitan's trainer saves of itself."""

    step = 0

    def state_dict(self) -> dict[str, Any]:
        """The step."""
        return {"step": self.step}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on there."""
        self.step = state_dict["step"]


def train(documents: int, steps: int, async_mode: str = "disabled") -> None:
    """Train from torchtitan's last checkpoint up to so many steps, with one after each second step."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    if rank == 0:
        fsdp_dcp.write_documents(documents)
    dist.barrier()
    torch.manual_seed(0)
    training, state = fsdp_dcp.Training(), TrainState()
    loader = Documents.Config(dataset=str(documents)).build(
        dp_world_size=ranks,
        dp_rank=rank,
        tokenizer=None,
        seq_len=fsdp_dcp.LENGTH,
        local_batch_size=GLOBAL_BATCH // ranks,
        snapshot_every_n_steps=2,
    )
    scheduler = torch.optim.lr_scheduler.ConstantLR(training.optimizer, factor=1.0)
    manager = CheckpointManager.Config(
        enable=True, interval=2, keep_latest_k=0, last_save_model_only=False, async_mode=async_mode
    ).build(
        dataloader=loader,
        model_parts=[training.model],
        optimizers=Optimizers(training),
        lr_schedulers=scheduler,
        states={"train_state": state},
        sd_adapter=None,
    )
    manager.load()
    batches = iter(loader)
    while state.step < steps:
        inputs, labels = next(batches)
        state.step += 1
        loss = training.step(torch.cat([inputs["input"], labels[:, -1:]], dim=1))
        line = {"step": state.step, "rank": rank, "ranks": ranks, "loss": loss}
        with Path("losses.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        manager.save(state.step, last_step=state.step == steps)
    manager.maybe_wait_for_saving()
    manager.close()
