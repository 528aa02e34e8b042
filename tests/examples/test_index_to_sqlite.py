"""The index in SQLite has every line once, whatever happened to the job."""

from __future__ import annotations

import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

from examples.lives import Program
from support.tiers import examples

LINES = 400
PROGRAM = Program("index_to_sqlite.py", "--lines", str(LINES), "--batch-size", "40")


def contents(folder: Path) -> dict[str, list[Any]]:
    """All that the tables hold."""
    database = sqlite3.connect(folder / "index.sqlite")
    try:
        return {
            table: database.execute(f"select * from {table} order by 1, 2").fetchall()
            for table in ("words", "places", "position")
        }
    finally:
        database.close()


def test_the_index_has_every_word_of_every_line(tmp_path: Path) -> None:
    assert f"{LINES:,} lines" in PROGRAM.whole(tmp_path / "whole").said
    (corpus,) = (tmp_path / "whole" / f"corpus-{LINES}").glob("*.txt")
    lines = corpus.read_text().splitlines()
    places = [(word, number) for number, line in enumerate(lines) for word in set(line.split())]
    held = contents(tmp_path / "whole")
    assert held["places"] == sorted(places)
    assert held["words"] == sorted(Counter(word for word, _ in places).items())


def test_kills_at_any_moments_neither_lose_nor_repeat_a_line(tmp_path: Path) -> None:
    PROGRAM.check_kills(tmp_path, contents, runs=max(3, examples() // 12))
