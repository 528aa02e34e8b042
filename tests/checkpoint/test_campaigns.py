"""The short forms of the long campaigns; each runs in a process of its own, since it forks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CAMPAIGNS = Path(__file__).parents[1] / "campaigns"


def run(name: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, str(CAMPAIGNS / name), *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_kills_at_random_moments_damage_and_lose_nothing() -> None:
    assert "damaged=0, lost=0, wrong=0" in run("kills.py", "--kills", "150")


def test_signals_at_random_moments_leave_a_checkpoint_of_the_last_finished_step() -> None:
    assert "70 signals" in run("preemptions.py", "--signals", "70")
