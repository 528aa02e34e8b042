"""Each question has one answer in SQLite, whatever happened to the job."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from examples.lives import Program
from support.tiers import examples

import resumable as rs

QUESTIONS, OPEN = 120, 8
PROGRAM = Program("answers_to_sqlite.py", "--questions", str(QUESTIONS), "--open", str(OPEN))


def answers(folder: Path) -> tuple[list[Any], rs.LeaseCounts]:
    """The answers, and the counts of the state."""
    database = sqlite3.connect(folder / "answers.sqlite")
    try:
        rows = database.execute("select * from answers order by 1").fetchall()
        ((state,),) = database.execute("select state from position").fetchall()
    finally:
        database.close()
    leases = rs.Leases(rs.range(QUESTIONS).shuffle(seed=0), state=rs.loads(state))
    return rows, leases.counts


def test_kills_at_any_moments_leave_each_answer_once(tmp_path: Path) -> None:
    runs = max(3, examples() // 3)
    PROGRAM.check_kills(tmp_path, answers, runs=runs)
    rows, counts = answers(tmp_path / "whole")
    assert [number for number, _ in rows] == list(range(QUESTIONS))
    assert counts == (QUESTIONS, 0, 0)
    for run in range(runs):
        calls = len((tmp_path / f"{run}" / "calls.txt").read_text().splitlines())
        assert QUESTIONS <= calls <= QUESTIONS + 4 * OPEN  # at most what was open at each kill
