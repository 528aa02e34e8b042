"""The walk of an item in CONTRIBUTING.md is the way of an item through the code."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from support.pages import ROOT, blocks

import resumable as rs

PACKAGE = Path(rs.__file__).parent


def walk_on_the_page() -> list[tuple[int, str, str]]:
    """Depth, name and module of each call."""
    page = blocks(ROOT / "CONTRIBUTING.md")
    (text,) = [block.text for block in page if block.text.startswith("PipelineIterator.__next__")]
    lines = re.findall(r"^( *)(\S+) +(\S+)", text, re.MULTILINE)
    return [(len(indent) // 2, name, module) for indent, name, module in lines]


def frames_of(frame: FrameType | None) -> Iterator[tuple[str, str]]:
    """Name and module of each call of the library that leads to ``frame``, innermost first."""
    while frame:
        code, frame = frame.f_code, frame.f_back
        path = Path(code.co_filename)
        if path.is_relative_to(PACKAGE):
            yield code.co_name, path.relative_to(PACKAGE).as_posix()


def test_the_walk_of_an_item_is_that_of_the_code(tmp_path: Path) -> None:
    path = tmp_path / "numbers.jsonl"
    path.write_text("".join(json.dumps(number) + "\n" for number in range(100)))
    calls: list[list[tuple[str, str]]] = []

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            calls.append([*frames_of(frame)])

    iterator = iter(rs.jsonl(path).shuffle(0).map(abs).batch(8))
    sys.setprofile(note)
    try:
        next(iterator)
    finally:
        sys.setprofile(None)
    above: list[tuple[str, str]] = []
    for depth, name, module in walk_on_the_page():
        above[depth:] = [(name.rpartition(".")[2], module)]
        ways = [way for way in calls if way and way[0] == above[-1]]
        assert any(set(above) <= set(way) for way in ways), above[-1]
    assert len(above) >= 3
