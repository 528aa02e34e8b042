"""The short forms of the long campaigns; each runs in a process of its own, since it forks."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import run_python

CAMPAIGNS = Path(__file__).parents[1] / "campaigns"


def output_of(name: str, *arguments: str) -> str:
    done = run_python(str(CAMPAIGNS / name), *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_kills_at_random_moments_damage_and_lose_nothing() -> None:
    assert "damaged=0, lost=0, wrong=0" in output_of("kills.py", "--kills", "150")


def test_signals_at_random_moments_leave_a_checkpoint_of_the_last_finished_step() -> None:
    assert "70 signals" in output_of("preemptions.py", "--signals", "70")


@pytest.mark.parametrize("locks", [[], ["--no-locks"]], ids=["locks", "none"])
def test_of_two_writers_neither_replaces_what_the_other_has_saved(locks: list[str]) -> None:
    told = output_of("two_writers.py", "--seconds", "2", *locks)
    assert "replaced=0, disordered=0, damaged=0" in told
    assert "'saved'" in told
