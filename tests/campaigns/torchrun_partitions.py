"""Kill a rank of a training that owns partitions, go on with other ranks, and count every document.

Run as `PYTHONPATH=.:tests:adapters python -m campaigns.torchrun_partitions --runs 20`, with PyTorch
installed; the suite runs a short form.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

from torch_adapter.partitioned_ranks import PARTITIONS, check_run, steps_of, write_documents
from torch_adapter.processes import torchrun

MODULE = "torch_adapter.partitioned_ranks"
RANKS = (4, 3, 2, 8)


def run(folder: Path, way: str, rng: random.Random) -> list[int]:
    """One training by each number of ranks in turn; the steps at which a rank was killed."""
    write_documents(folder)
    (folder / "saved").mkdir()
    killed, step = [], 0
    for ranks in RANKS:
        last = ranks == RANKS[-1]
        step += rng.randint(1, 12)
        # Each worker then owns as many partitions, so that the order is the one without workers.
        workers = rng.choice([0, *(n for n in (1, 2, 3) if PARTITIONS // ranks % n == 0)])
        status = torchrun(ranks, MODULE, "train", folder, way, workers, -1 if last else step)
        assert (status == 0) == last, f"{ranks} ranks ended with {status}"
        killed.append(step)
    check_run(folder)
    assert {one["world"] for one in steps_of(folder)} <= set(RANKS)
    return killed[:-1]


def main() -> int:
    """Run the campaign and print what it found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    for number in range(options.runs):
        way = ("dcp", "gather")[number % 2]
        with tempfile.TemporaryDirectory() as folder:
            killed = run(Path(folder), way, rng)
        print(f"{number + 1}: {way}, killed at {killed}, nothing lost or repeated", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
