"""A model trained by FSDP2 goes on with any number of ranks, at the loss where it was."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from examples.lives import Program, trained  # noqa: E402
from torch_adapter.processes import gloo  # noqa: E402

DOCUMENTS = 200
# Optimizers import the last of these when they are first used.
PRELOADED = ("torch.distributed.checkpoint", "torch.distributed.fsdp", "torch._dynamo")


def losses(folder: Path) -> dict[int, list[float]]:
    """The loss of each step on each rank, in the run that counts."""
    lines = [json.loads(line) for line in (folder / "trained.jsonl").read_text().splitlines()]
    last = {(line["step"], line["rank"]): line["loss"] for line in lines if "step" in line}
    steps = sorted({step for step, _ in last})
    return {step: [loss for (at, _), loss in last.items() if at == step] for step in steps}


def result(folder: Path) -> Any:
    """What the program was trained on, and its losses."""
    return trained(folder), losses(folder)


def train(folder: Path, ranks: int, steps: int) -> None:
    """Train up to so many steps on ranks that are forks."""
    folder.mkdir(exist_ok=True)
    program = "examples.fsdp_dcp"
    code = f"import {program} as program; program.train({DOCUMENTS}, {steps}, every=4)"
    gloo(ranks, code, folder, preloaded=(program, *PRELOADED))


def test_kills_at_any_moments_leave_the_same_losses(tmp_path: Path) -> None:
    arguments = ("--documents", f"{DOCUMENTS}", "--steps", "5", "--every", "2")
    program = Program("fsdp_dcp.py", *arguments, preloaded=PRELOADED)
    program.check_kills(tmp_path, result, runs=1, kills=1)


def test_five_steps_and_five_are_ten_on_as_many_ranks_and_on_others(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    train(whole, 2, 10)
    by_rank = losses(whole)
    assert sorted(by_rank) == [*range(1, 11)]
    assert all(len(set(of_ranks)) == 1 for of_ranks in by_rank.values())
    expected = {step: of_ranks[0] for step, of_ranks in by_rank.items()}
    assert expected[10] < expected[1] - 0.5, "it learns"

    train(tmp_path / "half", 2, 5)
    shutil.copytree(tmp_path / "half", tmp_path / "others")
    train(tmp_path / "half", 2, 10)
    assert losses(tmp_path / "half") == by_rank

    others = tmp_path / "others"
    for ranks, steps in ((3, 8), (1, 10)):
        train(others, ranks, steps)
    of_others = losses(others)
    assert [len(of_others[step]) for step in range(1, 11)] == [2] * 5 + [3] * 3 + [1] * 2
    for step, of_ranks in of_others.items():
        assert of_ranks == pytest.approx([expected[step]] * len(of_ranks), rel=1e-4)
    rows_of = {path: trained(path) for path in (whole, others)}
    for step in expected:
        whole_rows, other_rows = (
            sorted(row for rows in rows_of[path][step] for row in rows) for path in (whole, others)
        )
        assert whole_rows == other_rows, f"step {step}"
        assert len(set(whole_rows)) == 12
