"""SIGKILL of a worker and of the main process: resumed from the last checkpoint, exactly."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch_adapter.data import loader_of, plain  # noqa: E402
from torch_adapter.processes import start  # noqa: E402

EPOCHS = 3
BATCHES = 15

TRAINING = """
import json, os, time
import torch
from torch_adapter.data import loader_of, plain

loader = loader_of(kind, num_workers=workers, persistent_workers=workers > 0)
last = os.path.join(folder, "last.pt")
step = 0
if os.path.exists(last):
    saved = torch.load(last, weights_only=True)
    loader.load_state_dict(saved["input"])
    step = saved["step"]
with open(os.path.join(folder, "log.jsonl"), "a") as log:
    for _ in range(loader.epoch, 3):
        for batch in loader:
            step += 1
            print(json.dumps([step, plain(batch)]), file=log, flush=True)
            torch.save({"step": step, "input": loader.state_dict()}, last + ".part")
            os.replace(last + ".part", last)
            print(step, flush=True)
            time.sleep(0.02)
print("done", flush=True)
"""


@contextmanager
def training(folder: Path, kind: str, workers: int) -> Iterator[tuple[Any, IO[str]]]:
    """The process that trains, and what it says."""
    arguments = f"folder, kind, workers = {str(folder)!r}, {kind!r}, {workers}\n"
    reading, writing = os.pipe()
    with open(reading) as said:
        with open(writing, "w") as output:
            process = start(arguments + TRAINING, output)
        try:
            yield process, said
        finally:
            process.kill()
            process.stdin.close()
            process.wait(60)


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="the system has no /proc")
@pytest.mark.parametrize("victim", ["main", "worker"])
@pytest.mark.parametrize("kind", ["map", "pipeline"])
def test_training_goes_on_after_kills(kind: str, victim: str, tmp_path: Path) -> None:
    rng = random.Random(0)
    for _ in range(10):
        with training(tmp_path, kind, rng.choice([1, 2])) as (process, said):
            steps = [said.readline() for _ in range(rng.randint(1, 6))]
            if "done\n" in steps:
                break
            time.sleep(rng.random() / 30)
            victims = [process.pid] if victim == "main" else children(process.pid)
            for pid in victims[:1]:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            last = said.read().split()
            if process.wait(60) == 0:
                assert "done" in last  # a worker that is killed at the end is remarked upon
                break
    with training(tmp_path, kind, 0) as (process, said):
        assert said.read().split()[-1] == "done"
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    whole: Any = loader_of(kind)
    expected = [plain(batch) for _ in range(EPOCHS) for batch in whole]
    done = dict(lines)
    assert [done[step] for step in range(1, BATCHES + 1)] == json.loads(json.dumps(expected))
    assert all(done[step] == batch for step, batch in lines)  # also what was done twice
