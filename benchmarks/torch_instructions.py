"""Instructions of the main process for a batch, by loader: a clock's noise is no part of them."""

# python benchmarks/torch_instructions.py, with torch, torchdata and valgrind installed.
# It runs each loader for two numbers of batches; the difference leaves out the start.

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from itertools import islice
from typing import Any

from resumable_torch import ResumableDataLoader
from torch.utils.data import DataLoader, RandomSampler
from torch_cost import BATCH, Images
from torchdata.stateful_dataloader import StatefulDataLoader

FEWER, MORE = 40, 120


def make(name: str, workers: int) -> Any:
    """The loader of that name."""
    images = Images()
    options: dict[str, Any] = {"batch_size": BATCH, "num_workers": workers}
    if name == "resumable":
        return ResumableDataLoader(images, shuffle=True, **options)
    kind = {"torch": DataLoader, "torchdata": StatefulDataLoader}[name]
    return kind(images, sampler=RandomSampler(images), **options)


def instructions(name: str, workers: int, batches: int) -> int:
    """What callgrind counts in a process that draws so many batches."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/%p"]
        command += [sys.executable, __file__, name, str(workers), str(batches)]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        _, printed = process.communicate()
    # Workers, forked, print theirs too.
    found = re.search(rf"^=={process.pid}== Collected : (\d+)", printed, re.MULTILINE)
    if process.returncode or found is None:
        raise RuntimeError(f"valgrind failed with status {process.returncode}: {printed[-2000:]}")
    return int(found[1])


def main() -> None:
    """Print every figure; with arguments, be the process that is measured."""
    if len(sys.argv) > 1:
        name, workers, batches = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
        sum(1 for _ in islice(make(name, workers), batches))
        return
    for workers in (0, 2):
        counts = {}
        for name in ("torch", "resumable", "torchdata"):
            spent = instructions(name, workers, MORE) - instructions(name, workers, FEWER)
            counts[name] = spent / (MORE - FEWER)
            print(
                f"W={workers} {name:10} {counts[name]:,.0f} instructions a batch, "
                f"{counts[name] / counts['torch']:.3f} x"
            )


if __name__ == "__main__":
    main()
