"""Compare the torch adapter with torch's own sampler and torchdata's loader, in one run."""

# python benchmarks/workloads/scripts/torch_cost.py, with torch and torchdata installed

from __future__ import annotations

import gc
import pickle
import platform
import resource
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice, permutations
from statistics import median
from typing import Any

import numpy as np
import torch
from resumable_torch import ResumableDataLoader, ResumableSampler
from torch.utils.data import DataLoader, Dataset, RandomSampler
from torchdata.stateful_dataloader import StatefulDataLoader

ROUNDS = 8  # each with all six orders
ROWS = 40_000
BATCH = 64
HUGE = 10**8


class Images(Dataset[Any]):
    """Rows of 3 x 16 x 16 bytes."""

    def __init__(self) -> None:
        self.pixels = torch.zeros((ROWS, 3, 16, 16), dtype=torch.uint8)

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, index: int) -> Any:
        return self.pixels[index], index


def seconds(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """The time of one call."""
    began = clock()
    work()
    return clock() - began


def consume(loader: Any) -> int:
    """Run one epoch; returns the number of batches."""
    return sum(1 for _ in loader)


def epochs(workers: int) -> None:
    """Time interleaved epochs; without workers by processor time, which is steadier."""
    clock = time.perf_counter if workers else time.process_time
    images = Images()
    options: dict[str, Any] = {"batch_size": BATCH, "num_workers": workers}
    if workers:
        options["persistent_workers"] = True
    loaders = {
        "torch": DataLoader(images, sampler=RandomSampler(images), **options),
        "resumable": ResumableDataLoader(images, shuffle=True, **options),
        "torchdata": StatefulDataLoader(images, sampler=RandomSampler(images), **options),
    }
    for loader in loaders.values():
        consume(loader)
    times: dict[str, list[float]] = {name: [] for name in loaders}
    # Each loader follows every other equally often, and has no garbage of it to collect.
    for _ in range(ROUNDS):
        for order in permutations(loaders):
            for name in order:
                gc.collect()
                times[name].append(seconds(partial(consume, loaders[name]), clock))
    for name in ("resumable", "torchdata"):
        ratios = [ours / theirs for ours, theirs in zip(times[name], times["torch"], strict=True)]
        low, high = np.quantile(ratios, [0.25, 0.75])
        # Other work on the machine only adds time; the fastest rounds have the least of it.
        least = np.quantile(times[name], 0.1) / np.quantile(times["torch"], 0.1)
        print(
            f"W={workers} {name:10} {median(ratios):.3f} x DataLoader with RandomSampler "
            f"(quartiles {low:.3f} to {high:.3f}), medians "
            f"{median(times[name]) / median(times['torch']):.3f} x, fastest tenths {least:.3f} x"
        )


def starts() -> None:
    """Time the first sample of an epoch of 10^8."""

    def first(sampler: Iterator[int]) -> int:
        return next(iter(sampler))

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    sampler = ResumableSampler(HUGE, shuffle=True)
    ours = median(seconds(lambda: first(iter(sampler))) for _ in range(5))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    theirs = seconds(lambda: first(iter(RandomSampler(range(HUGE)))))
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        f"first sample of 10^8: resumable {1e3 * ours:.2f} ms and {(after - before) / 1024:.0f} MB, "
        f"RandomSampler {1e3 * theirs:.0f} ms and {(most - after) / 1024:.0f} MB"
    )


def states(workers: int) -> None:
    """Time a state after each of 150 batches."""
    images = Images()
    for name, kind, options in (
        ("resumable", ResumableDataLoader, {"shuffle": True}),
        ("torchdata", StatefulDataLoader, {"sampler": RandomSampler(images)}),
    ):
        loader: Any = kind(images, batch_size=BATCH, num_workers=workers, **options)
        times, again, sizes = [], [], []
        for _ in islice(loader, 150):
            times.append(seconds(loader.state_dict))
            again.append(seconds(loader.state_dict))
            sizes.append(len(pickle.dumps(loader.state_dict())))
        print(
            f"W={workers} {name:10} state_dict {1e6 * median(times):.1f} µs (fastest tenth "
            f"{1e6 * np.quantile(times, 0.1):.1f}), at once again {1e6 * median(again):.1f} µs, "
            f"{max(sizes)} bytes pickled"
        )


def main() -> None:
    """Print every figure."""
    torch.set_num_threads(1)
    print(f"Python {platform.python_version()}, torch {torch.__version__}, NumPy {np.__version__}")
    for workers in (0, 2):
        epochs(workers)
    starts()
    for workers in (0, 2):
        states(workers)


if __name__ == "__main__":
    main()
