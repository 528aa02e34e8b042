"""What one rank of a `Trainer` of transformers does."""

from __future__ import annotations

import json
import os
import signal
import warnings
from pathlib import Path
from typing import Any, Final

import torch

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import transformers
    from resumable_torch.transformers import ResumeInput

from resumable_torch import PipelineDataset, ResumableDataLoader
from torch_adapter.processes import meet

import resumable as rs

__all__ = ["PARTITIONS", "PIPELINES", "train"]

ITEMS = 48
EPOCHS = 3
PARTITIONS = 12


def row(number: int) -> dict[str, Any]:
    """What the model gets of an item."""
    return {"rows": torch.tensor([number, 1], dtype=torch.float64)}


def sharded(rank: int, ranks: int) -> rs.Pipeline[int]:
    """Numbers that are dealt out one by one."""
    return rs.range(ITEMS).shuffle(3).shard(rank, ranks)


def owned(rank: int, ranks: int) -> rs.Pipeline[int]:
    """The same numbers in partitions that ranks own."""
    parts = rs.range(ITEMS).shuffle(3).partition(PARTITIONS, lambda part: part.map(int))
    return parts.shard(rank, ranks, uneven="drop")


def repeated(rank: int, ranks: int) -> rs.Pipeline[int]:
    """The numbers again and again."""
    return rs.range(ITEMS).shuffle(3).repeat().shard(rank, ranks)


def endless(rank: int, ranks: int) -> rs.Pipeline[int]:
    """Numbers that never end, in partitions that ranks own."""
    parts = rs.range(100).shuffle(3).partition(PARTITIONS, endless_part)
    return parts.shard(rank, ranks)


def endless_part(part: rs.Pipeline[int]) -> rs.Pipeline[int]:
    """The numbers of a partition."""
    return part.filter(lambda number: number % 5).repeat()


PIPELINES: Final = {"sharded": sharded, "repeated": repeated, "owned": owned, "endless": endless}
"""What a rank has of each kind."""


class Model(torch.nn.Module):
    """A line through the numbers, which keeps what it has seen."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(2, 1, dtype=torch.float64)
        self.seen: list[int] = []

    def forward(self, rows: Any) -> Any:
        self.seen += rows[:, 0].int().tolist()
        return {"loss": ((self.layer(rows / 100) - 1) ** 2).mean()}


class Trainer(transformers.Trainer):
    """One that trains on the batches of a loader."""

    def __init__(self, model: Any, arguments: Any, batches: ResumableDataLoader[Any]) -> None:
        super().__init__(model, arguments, callbacks=[ResumeInput(batches)])
        self.batches = batches

    def get_train_dataloader(self) -> Any:
        return self.batches


class Watch(transformers.TrainerCallback):
    """Writes down the items of each optimizer step, and kills the process at one of them."""

    def __init__(self, log: Path, until: int) -> None:
        self.log = log
        self.until = until

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        seen = kwargs["model"].seen
        line = {"step": state.global_step, "epoch": state.epoch, "items": seen.copy()}
        seen.clear()
        with self.log.open("a") as log:
            print(json.dumps(line), file=log)
        if state.global_step == self.until:
            os.kill(os.getpid(), signal.SIGKILL)


def trainer(
    folder: Path, kind: str, ranks: int, batch_size: int, accumulation: int, steps: int
) -> Any:
    """The trainer of this rank; with ``steps``, it trains so many instead of epochs."""
    rank = meet(folder, ranks)
    arguments = transformers.TrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=batch_size,
        gradient_accumulation_steps=accumulation,
        num_train_epochs=EPOCHS,
        max_steps=steps or -1,
        save_strategy="steps",
        save_steps=2,
        learning_rate=0.1,
        ignore_data_skip=True,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        remove_unused_columns=False,
    )
    pipeline = PIPELINES[kind](rank, ranks)
    batches: ResumableDataLoader[Any] = ResumableDataLoader(
        PipelineDataset(pipeline.map(row)), batch_size
    )
    return Trainer(Model(), arguments, batches)


def train(
    folder: str, kind: str, ranks: int, batch_size: int, accumulation: int, steps: int, until: int
) -> None:
    """Train from the last checkpoint to the end, or be killed at step ``until``."""
    place = Path(folder)
    made = trainer(place, kind, ranks, batch_size, accumulation, steps)
    rank = made.args.process_index
    made.add_callback(Watch(place / f"log-{ranks}-{rank}.jsonl", until))
    saved = any(place.glob("checkpoint-*"))
    if ranks > 1:
        torch.distributed.barrier()  # before another rank can save
    try:
        made.train(resume_from_checkpoint=saved or None)
    except rs.InvalidArgument as error:
        (place / f"refused-{rank}").write_text(str(error))
        return
    found = {
        "steps": made.state.global_step,
        "weights": [part.flatten().tolist() for part in made.model.parameters()],
    }
    (place / f"ended-{rank}.json").write_text(json.dumps(found))
