"""What one rank of TRL's `SFTTrainer` does, on documents that are packed in partitions."""

from __future__ import annotations

import json
import os
import signal
import warnings
from pathlib import Path
from typing import Any

import torch

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import datasets
    import tokenizers
    import transformers
    from resumable_torch.transformers import ResumeInput
    from trl import SFTConfig, SFTTrainer  # type: ignore[attr-defined]

from resumable_torch import PipelineDataset, ResumableDataLoader
from torch_adapter.processes import meet

import resumable as rs

__all__ = ["STEPS", "example", "rows", "train"]

STEPS = 8
ITEMS = 4
"""Rows in an optimizer step."""
LETTERS = "abcdefgh"
TEXTS = [" ".join(LETTERS[: 1 + n * n % 8]) for n in range(60)]
VOCABULARY = {"<pad>": 0, "<eos>": 1} | {letter: n for n, letter in enumerate(LETTERS, 2)}


def tokenizer() -> Any:
    """One that knows a few letters."""
    splitter = tokenizers.Tokenizer(tokenizers.models.WordLevel(VOCABULARY))
    splitter.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    fast: Any = transformers.PreTrainedTokenizerFast
    return fast(tokenizer_object=splitter, pad_token="<pad>", eos_token="<eos>")


def model() -> Any:
    """A small one, the same each time."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
    )
    return transformers.LlamaForCausalLM(config)


def example(row: dict[str, Any]) -> dict[str, Any]:
    """A packed row as the model takes it."""
    tokens, positions = (torch.from_numpy(row[key]).long() for key in ("tokens", "positions"))
    begins = torch.from_numpy((row["positions"] == 0) | (row["segment_ids"] == 0))
    return {
        "input_ids": tokens,
        "position_ids": positions,
        "labels": tokens.masked_fill(begins, -100),
    }


def rows(rank: int, ranks: int) -> rs.Pipeline[Any]:
    """The rows of a rank, without an end."""

    def packed(part: rs.Pipeline[Any]) -> rs.Pipeline[Any]:
        return part.map(tokenise).pack(16, eos=1, group=8).map(example).repeat()

    known = tokenizer()

    def tokenise(text: str) -> list[int]:
        found: list[int] = known(text)["input_ids"]
        return found

    return rs.from_sequence(TEXTS).shuffle(seed=0).partition(4, packed).shard(rank, ranks)


class Trainer(SFTTrainer):
    """One that trains on the batches of a loader."""

    def __init__(self, arguments: Any, batches: ResumableDataLoader[Any]) -> None:
        unused = datasets.Dataset.from_dict({"input_ids": [[0]]})
        super().__init__(
            model(),
            arguments,
            train_dataset=unused,
            processing_class=tokenizer(),
            callbacks=[ResumeInput(batches)],
        )
        self.batches = batches

    def get_train_dataloader(self) -> Any:
        return self.batches


class KillAt(transformers.TrainerCallback):
    """Kills the process at a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == self.step:
            os.kill(os.getpid(), signal.SIGKILL)


def train(folder: str, ranks: int, until: int) -> None:
    """Train from the last checkpoint to the end, or be killed at step ``until``."""
    place = Path(folder)
    rank = meet(place, ranks)
    arguments = SFTConfig(
        folder,
        max_steps=STEPS,
        per_device_train_batch_size=ITEMS // ranks,
        learning_rate=0.01,
        save_strategy="steps",
        save_steps=3,
        logging_steps=1,
        ignore_data_skip=True,
        dataset_kwargs={"skip_prepare_dataset": True},
        activation_checkpointing=False,
        bf16=False,
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
    )
    batches: ResumableDataLoader[Any] = ResumableDataLoader(
        PipelineDataset(rows(rank, ranks)), ITEMS // ranks
    )
    trainer = Trainer(arguments, batches)
    trainer.add_callback(KillAt(until))
    saved = any(place.glob("checkpoint-*"))
    if ranks > 1:
        torch.distributed.barrier()  # before another rank can save
    trainer.train(resume_from_checkpoint=saved or None)
    losses = [line["loss"] for line in trainer.state.log_history if "loss" in line]
    (place / f"losses-{ranks}-{rank}.json").write_text(json.dumps(losses))
