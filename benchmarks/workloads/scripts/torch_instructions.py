"""Count the instructions of the main process for a batch of each loader, without a clock."""

# python benchmarks/workloads/scripts/torch_instructions.py, with torch, torchdata and valgrind installed.
# Each loader runs for two numbers of batches; the difference leaves out the start.

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


def instructions(name: str, workers: int, batches: int, states: int = 0) -> int:
    """What callgrind counts in a process that draws ``batches``, with so many states after each."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/%p"]
        command += [sys.executable, __file__, name, str(workers), str(batches), str(states)]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        _, printed = process.communicate()
    # Forked workers print their counts too.
    found = re.search(rf"^=={process.pid}== Collected : (\d+)", printed, re.MULTILINE)
    if process.returncode or found is None:
        raise RuntimeError(f"valgrind failed with status {process.returncode}: {printed[-2000:]}")
    return int(found[1])


def main() -> None:
    """Print every figure; with arguments, run the loader in the process that is measured."""
    if len(sys.argv) > 1:
        name, (workers, batches, states) = sys.argv[1], map(int, sys.argv[2:])
        loader = make(name, workers)
        for _ in islice(loader, batches):
            for _ in range(states):
                loader.state_dict()
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
    for name in ("resumable", "torchdata"):
        without, once = (instructions(name, 0, MORE, states) for states in (0, 1))
        print(f"W=0 {name:10} {(once - without) / MORE:,.0f} instructions a state_dict()")


if __name__ == "__main__":
    main()
