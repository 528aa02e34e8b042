"""Each prompt is trained on or dropped once, whatever happened to the training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from examples.lives import Program
from support.tiers import examples

import resumable as rs

PROMPTS = 90
PROGRAM = Program("rollouts.py", "--prompts", str(PROMPTS))


def trained(folder: Path) -> Any:
    """The weights, and how many prompts were trained on and dropped."""
    weights, _, state = json.loads((folder / "trained.json").read_text())
    leases = rs.Leases(rs.range(PROMPTS).shuffle(seed=0), state=rs.loads(bytes.fromhex(state)))
    return weights, leases.counts


def test_kills_at_any_moments_train_on_each_prompt_once(tmp_path: Path) -> None:
    PROGRAM.check_kills(tmp_path, trained, runs=max(3, examples() // 3))
    _, counts = trained(tmp_path / "whole")
    assert counts.done + counts.dropped == PROMPTS
    assert counts.dropped > 0
