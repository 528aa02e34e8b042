"""Each row of the page on habits names a test that is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROWS = [
    line.strip().strip("|").split(" | ")
    for line in (ROOT / "docs" / "habits.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith(("| habit ", "| --- "))
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0].strip()[:40])
def test_a_habit_is_exact_or_refused_by_a_test(row: list[str]) -> None:
    _, what_happens, tests = row
    assert re.search("exact|refused|as a model|warn", what_happens)
    found = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", tests)
    assert found
    for path, name in found:
        tree = ast.parse((ROOT / path).read_text())
        assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
