"""The tests named by the tables of what the originals promise, and do, are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tests" / "tf_adapter"


def test_each_promise_of_an_original_has_a_test() -> None:
    tables = re.findall(r"(?:^\|.*\n)+", (FOLDER / "README.md").read_text(), re.MULTILINE)
    rows = [row for table in tables for row in table.splitlines()[2:]]
    assert len(rows) >= 30
    there = {
        name
        for path in FOLDER.glob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    named = [re.findall(r"`(test_\w+)`", row.split("|")[4]) for row in rows]
    assert all(named)
    assert {name for names in named for name in names} <= there
