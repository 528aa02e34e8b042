"""The messages that the page on troubleshooting has as headings are those of the code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from support.command import ROOT

WRITTEN = re.compile(r"^### `(.+)`$", re.MULTILINE)


def messages() -> Iterator[str]:
    """Each string of the library, with … for what is filled in."""
    for path in (ROOT / "resumable").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        constants = {
            node.target.id: node.value.value
            for node in tree.body
            if isinstance(node, ast.AnnAssign)
            and isinstance(node.target, ast.Name)
            and isinstance(node.value, ast.Constant)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                yield "".join(written(part, constants) for part in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def written(part: ast.expr, constants: dict[str, Any]) -> str:
    if isinstance(part, ast.Constant):
        return str(part.value)
    named = isinstance(part, ast.FormattedValue) and isinstance(part.value, ast.Name)
    return str(constants.get(part.value.id, "…")) if named else "…"  # type: ignore[attr-defined]


def test_every_heading_is_a_message_of_the_library() -> None:
    text = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    headings = WRITTEN.findall(text)
    assert len(headings) > 20
    known = [*messages()]
    for heading in headings:
        # What a heading fills in may be several values, or a part of the message of another function.
        pieces = [piece for piece in heading.split("…") if len(piece.strip(" .:;,")) > 7]
        assert pieces, heading
        for piece in pieces:
            assert any(piece.strip() in message for message in known), f"{heading!r}: {piece!r}"
