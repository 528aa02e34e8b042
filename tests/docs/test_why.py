"""The page that says why names tests that are there."""

from __future__ import annotations

import re

from support.command import ROOT


def test_every_way_to_lose_data_names_a_test_that_is_there() -> None:
    text = (ROOT / "docs" / "why.md").read_text(encoding="utf-8")
    reports = re.findall(r"^- .+:.+\n  (`tests/.+)$", text, re.MULTILINE)
    assert len(reports) >= 16
    for report in reports:
        named = re.findall(r"`(tests/[\w/]+\.py)(?:::(test_\w+))?`", report)
        assert named
        for path, name in named:
            code = (ROOT / path).read_text(encoding="utf-8")
            assert re.search(rf"^ *def {name or 'test_'}", code, re.MULTILINE), f"{path}::{name}"
