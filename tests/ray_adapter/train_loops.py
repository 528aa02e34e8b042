"""What the workers of Ray Train do in the tests: their model is the list of all that it was trained on."""

from __future__ import annotations

import json
import os
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

import ray.train
import resumable_ray
from ray.train import Checkpoint, CheckpointConsistencyMode, CheckpointUploadMode

import resumable as rs

__all__ = ["PARTS", "in_partitions", "phases_in", "train"]

PARTS = 6


def in_partitions(rank: int, ranks: int) -> rs.Pipeline[Any]:
    """Each partition keeps as many, since Ray waits until all workers have reported as often."""
    numbers = rs.range(180).partition(PARTS, lambda part: part.filter(is_kept))
    return numbers.shard(rank, ranks).batch(2).prefetch(2)


def is_kept(number: int) -> bool:
    return number // PARTS % 3 > 0


def train(config: dict[str, Any]) -> None:
    """Train from where Ray says, and report at every second batch.

    Args:
      config: ``results``, a folder for the models at the end; ``stop``, the step before which this ends; ``kill``,
        the step at which rank 1 is killed the first time; ``wait``, that at which two workers wait to become more.
    """
    context = ray.train.get_context()
    rank, workers = context.get_world_rank(), context.get_world_size()
    results = Path(config["results"])
    checkpoint = ray.train.get_checkpoint()
    before = [] if checkpoint is None else phases_in(Path(checkpoint.path))
    now: list[list[int]] = []
    loop = resumable_ray.resume(in_partitions(rank, workers))
    for batch in loop:
        if config.get("stop") == loop.step:
            return
        now.append(batch.tolist())
        if config.get("kill") == loop.step and rank == 1:
            mark = results / "killed"
            if not mark.exists():
                committed()  # which happens some time after a report
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
        if loop.step % 2 == 0:
            folder = Path(tempfile.mkdtemp())
            (folder / f"model-{rank}").write_text(json.dumps({"before": before, "now": now}))
            model = Checkpoint.from_directory(folder)
            resumable_ray.report(
                {"step": loop.step}, loop, model, checkpoint_upload_mode=CheckpointUploadMode.ASYNC
            )
        if config.get("wait") == loop.step and workers == 2:
            committed()
            (results / f"waits-{rank}").touch()
            while True:  # until Ray ends this process
                time.sleep(0.05)
    (results / f"model-{rank}").write_text(json.dumps({"before": before, "now": now}))


def committed() -> None:
    """Wait until Ray has committed all that this worker has reported."""
    ray.train.get_all_reported_checkpoints(CheckpointConsistencyMode.COMMITTED)


def phases_in(folder: Path) -> list[list[list[list[int]]]]:
    """What the model of ``folder`` was trained on: the batches of each worker, in each attempt."""
    models = [json.loads(path.read_text()) for path in sorted(folder.glob("model-*"))]
    return [*models[0]["before"], [model["now"] for model in models]]
