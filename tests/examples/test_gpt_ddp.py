"""A GPT trained by torch DDP sees each document once an epoch, whatever happened to its ranks."""

from __future__ import annotations

import os
import runpy
import signal
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path
from typing import IO, Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from examples.lives import PATIENCE, ROOT, Program, trained  # noqa: E402
from support.command import WITH_ADAPTERS  # noqa: E402
from torch_adapter.processes import be_agent, start  # noqa: E402

import resumable as rs  # noqa: E402
from examples import gpt_ddp  # noqa: E402

PROGRAM = ROOT / "examples" / "gpt_ddp.py"
SIZES = ("--documents", "200", "--every", "3")


def result(folder: Path) -> Any:
    """The weights that the program wrote at its end, and what it was trained on."""
    saved = torch.load(folder / "gpt.pt", weights_only=True)
    return {name: weight.tolist() for name, weight in saved.items()}, trained(folder)


def test_kills_at_any_moments_leave_the_same_weights(tmp_path: Path) -> None:
    program = Program("gpt_ddp.py", *SIZES, "--steps", "8", preloaded=("torch",))
    program.check_kills(tmp_path, result, runs=1, kills=3)


def test_ranks_and_workers_may_change_after_each_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lives = [
        (2, 2, 9),
        (1, 3, 8),
        (4, 0, None),
    ]  # ranks, workers of each, and entries before the kill
    for ranks, workers, entries in lives:
        launch(tmp_path, ranks, workers, entries)
    got = trained(tmp_path)
    assert sorted(got) == [*range(1, 17)]
    counts = [len(rows) for _, rows in sorted(got.items())]
    assert sorted(set(counts)) == [1, 2, 4], "each of the three lives counts"
    monkeypatch.chdir(tmp_path)
    order = iter(rs.partition(gpt_ddp.corpora(200), gpt_ddp.PARTITIONS, gpt_ddp.mixed))
    for step, rows in sorted(got.items()):
        batches = list(islice(order, len(rows)))
        # Every batch of four rows has one of code and three of prose.
        assert {code_rows(batch) for batch in batches} == {1}, f"step {step}"
        expected = [gpt_ddp.digests(batch) for batch in batches]
        assert sorted(rows) == sorted(expected), f"step {step}"


def code_rows(batch: dict[str, Any]) -> int:
    """How many rows of ``batch`` have documents of the corpus of code."""
    return sum(row.astype("uint8").tobytes().startswith(b"code ") for row in batch["tokens"])


def launch(folder: Path, ranks: int, workers: int, entries: int | None) -> None:
    """Run the program on ranks; kill one of them when the program has noted so many ``entries``.

    The command of torchrun starts a single rank. Several ranks are forks, as by the agent of torchrun, since each
    interpreter would import torch again.
    """
    words = [*SIZES, "--steps", "16", "--workers", str(workers)]
    path = os.pathsep.join([str(ROOT), str(ROOT / "adapters"), os.environ.get("PYTHONPATH", "")])
    environment = {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    log, record = folder / "said.log", folder / "trained.jsonl"
    before = len(record.read_text().splitlines()) if record.exists() else 0
    with log.open("w") as said:
        process = started(folder, ranks, words, environment, said)
        try:
            ends = time.monotonic() + PATIENCE
            while entries is not None and time.monotonic() < ends and process.poll() is None:
                if record.exists() and len(record.read_text().splitlines()) >= before + entries:
                    os.kill(a_rank_of(process.pid), signal.SIGKILL)
                    break
                time.sleep(0.01)
            status = process.wait(PATIENCE)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            if process.stdin is not None:
                process.stdin.close()
    assert (status == 0) == (entries is None), log.read_text()


def started(
    folder: Path, ranks: int, words: list[str], environment: dict[str, str], said: IO[str]
) -> Any:
    """The launcher of the ranks."""
    if ranks > 1:
        code = f"from {__name__} import run_agent; run_agent({ranks}, {words!r})"
        preloaded = ("torch_adapter.processes", "torch.distributed.launcher.api", __name__)
        return start(code, said, environment | {"PYTHONPATH": WITH_ADAPTERS}, preloaded, folder)
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks)),
            *("--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"),
            *(str(PROGRAM), *words),
        ],
        cwd=folder,
        env=os.environ | environment,
        stdout=said,
        stderr=said,
        start_new_session=True,
    )


def run_agent(ranks: int, words: list[str]) -> None:
    """What the command of torchrun does with the program, in this process and forks of it."""
    be_agent(ranks, __name__, words)


def main() -> None:
    """Run the program in a fork of the agent, with the arguments of the fork."""
    runpy.run_path(str(PROGRAM), run_name="__main__")


def a_rank_of(launcher: int) -> int:
    """The process of a rank."""
    children = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
    ranks = [
        int(child)
        for child in children
        if b"resource_tracker" not in Path(f"/proc/{child}/cmdline").read_bytes()
    ]
    return max(ranks)
