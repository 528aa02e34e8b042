"""A rank of Lightning that owns partitions; started by torchrun."""

# python -m torch.distributed.run --nproc-per-node N -m torch_adapter.lightning_ranks FOLDER STEPS

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import lightning.pytorch as lightning
import torch
from resumable_torch import PipelineDataset, ResumableDataLoader
from resumable_torch.lightning import ResumeInput
from torch_adapter.partitioned_ranks import endless


class Module(lightning.LightningModule):
    """Records what each step sees, and saves after the last one."""

    def __init__(self, folder: Path, steps: int) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.folder = folder
        self.steps = steps
        self.seen: list[int] = []

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        self.seen.append(int(batch))
        return self.layer(torch.tensor([[float(batch)]]) / 1000).sum()

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        if len(self.seen) == self.steps:
            self.trainer.save_checkpoint(self.folder / "last.ckpt")
            self.trainer.should_stop = True

    def train_dataloader(self) -> Any:
        pipeline = endless(self.trainer.global_rank, self.trainer.world_size)
        return ResumableDataLoader(PipelineDataset(pipeline), None, num_workers=2)

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def main() -> None:
    """Fit for so many steps, from the checkpoint if there is one; the command line names its folder and them."""
    folder, steps = Path(sys.argv[1]), int(sys.argv[2])
    module = Module(folder, steps)
    trainer = lightning.Trainer(
        max_epochs=1,
        accelerator="cpu",
        devices=int(os.environ["LOCAL_WORLD_SIZE"]),
        strategy="ddp",
        use_distributed_sampler=False,
        default_root_dir=folder,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[ResumeInput()],
    )
    path = folder / "last.ckpt"
    trainer.fit(module, ckpt_path=path if path.exists() else None, weights_only=True)
    name = f"{trainer.world_size}-{trainer.global_rank}.json"
    (folder / name).write_text(json.dumps(module.seen))


if __name__ == "__main__":
    main()
