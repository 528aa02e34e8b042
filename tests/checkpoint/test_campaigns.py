"""The short forms of the long campaigns; each runs in a process of its own, since it forks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.command import ROOT, run_python
from support.tiers import is_deep

CAMPAIGNS = Path(__file__).parents[1] / "campaigns"


def output_of(name: str, *arguments: str) -> str:
    path = f"{CAMPAIGNS.parent}{os.pathsep}{ROOT}"
    done = run_python(str(CAMPAIGNS / name), *arguments, PYTHONPATH=path)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_kills_at_random_moments_damage_and_lose_nothing() -> None:
    kills = "150" if is_deep() else "30"
    assert "damaged=0, lost=0, wrong=0" in output_of("kills.py", "--kills", kills)


@pytest.mark.parametrize(
    ("kind", "kills"),
    [
        pytest.param("shards", 20, marks=pytest.mark.deep),
        ("partitions", 20 if is_deep() else 12),
        pytest.param("workers", 8, marks=pytest.mark.deep),
    ],
)
def test_ranks_killed_at_random_moments_lose_and_repeat_no_item(kind: str, kills: int) -> None:
    if kind == "workers":
        pytest.importorskip("loky")
    told = output_of("part_kills.py", "--kills", str(kills), "--kind", kind)
    assert "apart=0, lost=0, repeated=0, wrong=0, damaged=0" in told


@pytest.mark.deep
def test_signals_at_random_moments_leave_a_checkpoint_of_the_last_finished_step() -> None:
    signals = "70" if is_deep() else "28"
    assert f"{signals} signals" in output_of("preemptions.py", "--signals", signals)


@pytest.mark.parametrize(
    "locks", [[], pytest.param(["--no-locks"], marks=pytest.mark.deep)], ids=["locks", "none"]
)
def test_of_two_writers_neither_replaces_what_the_other_has_saved(locks: list[str]) -> None:
    told = output_of("two_writers.py", "--seconds", "2" if is_deep() else "1", *locks)
    assert "replaced=0, disordered=0, damaged=0" in told
    assert "'saved'" in told
