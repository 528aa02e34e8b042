"""Train an image classifier on tar shards with Lightning, and resume it in the middle of an epoch.

    python images_lightning.py                  # 20,000 images, which it writes first
    python images_lightning.py --images 200 --workers 0

The images lie in tar archives, as WebDataset writes them, and are shuffled across all of them. The
state of the loader is in Lightning's own checkpoints. Each image is augmented by random numbers that
belong to its place in the run. So a run that was killed ends with the same weights, bit for bit.
"""

from __future__ import annotations

import argparse
import io
import os
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning.pytorch import LightningModule, Trainer, seed_everything
from lightning.pytorch.callbacks import ModelCheckpoint
from PIL import Image
from resumable_torch import PipelineDataset, ResumableDataLoader

import resumable as rs

SIDE = 24
CLASSES = 4
SHARDS = 8


def samples(folder: Path) -> rs.Pipeline[Any]:
    """Images as tensors of shape (1, SIDE, SIDE), and their classes."""
    return (
        rs.tar(f"{folder}/*.tar", decode={"png": rs.decoders.image, "cls": int})
        .shuffle(seed=0)  # all images of all shards, another order in each epoch
        .random_map(augment, seed=0)
    )


def augment(sample: dict[str, Any], rng: np.random.Generator) -> tuple[torch.Tensor, int]:
    """Shift the image by up to two pixels, and change its brightness."""
    pixels = sample["png"][..., 0].astype(np.float32) / 255
    down, right = rng.integers(-2, 3, 2)
    pixels = np.roll(pixels, (down, right), (0, 1)) * rng.uniform(0.7, 1.3)
    return torch.from_numpy(pixels.astype(np.float32))[None], sample["cls"]


class Classifier(LightningModule):
    """Two convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(1, 8, 3, stride=2),
            torch.nn.ReLU(),
            torch.nn.Conv2d(8, 16, 3, stride=2),
            torch.nn.ReLU(),
            torch.nn.Flatten(),
            torch.nn.LazyLinear(CLASSES),
        )
        self.layers(torch.zeros(1, 1, SIDE, SIDE))

    def on_train_start(self) -> None:
        print(f"starting after step {self.global_step:,}", flush=True)

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        images, classes = batch
        loss = torch.nn.functional.cross_entropy(self.layers(images), classes)
        self.log("loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main() -> None:
    """Write the shards if they are not there, and train."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--images", type=int, default=20_000, help="size of the data set")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--every", type=int, default=50, help="steps between checkpoints")
    parser.add_argument("--workers", type=int, default=2, help="processes that load images")
    options = parser.parse_args()

    shards = Path(f"shards-{options.images}")
    write_shards(shards, options.images)
    seed_everything(0)
    loader: ResumableDataLoader[Any] = ResumableDataLoader(
        PipelineDataset(samples(shards)), options.batch_size, num_workers=options.workers
    )
    checkpoints = ModelCheckpoint(
        "run", save_last=True, every_n_train_steps=options.every, enable_version_counter=False
    )
    # Not max_epochs: resumed twice at the ends of epochs, Lightning 2.6 counts one epoch too few.
    steps = options.epochs * len(loader)
    trainer = Trainer(max_steps=steps, callbacks=[checkpoints], accelerator="cpu", logger=False)
    model = Classifier()
    trainer.fit(model, loader, ckpt_path="last")  # from the last checkpoint, or the start
    torch.save(model.state_dict(), "classifier.pt")
    print(f"{trainer.global_step:,} steps")


def write_shards(folder: Path, images: int) -> None:
    """Some images: bars in four directions, the same every time, in shards that are whole or not there."""
    folder.mkdir(exist_ok=True)
    down, right = np.mgrid[:SIDE, :SIDE]
    distances = [down, right, (down + right) / 2, (down - right) / 2 + SIDE / 2]
    for shard in range(SHARDS):
        path = folder / f"{shard:04d}.tar"
        if path.exists():
            continue
        rng = np.random.default_rng(shard)
        unfinished = path.with_suffix(".part")
        with tarfile.open(unfinished, "w") as tar:
            for number in range(shard, images, SHARDS):
                label = int(rng.integers(CLASSES))
                pixels = rng.uniform(0, 100, (SIDE, SIDE))
                pixels += 155 * (abs(distances[label] - rng.uniform(6, SIDE - 6)) < 2)
                image = io.BytesIO()
                Image.fromarray(pixels.astype(np.uint8)).save(image, "png")
                for extension, data in (("png", image.getvalue()), ("cls", b"%d" % label)):
                    member = tarfile.TarInfo(f"{number:06d}.{extension}")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))
        os.replace(unfinished, path)


if __name__ == "__main__":
    main()
