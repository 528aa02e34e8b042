"""The width of text, for breaking lines before drawing."""

from __future__ import annotations

import unicodedata
from typing import Final

ELLIPSIS: Final = "…"


def width(text: str) -> int:
    """The columns that ``text`` takes in a font of equal letters.

    >>> width("abc"), width("漢字")
    (3, 4)
    """
    return sum(map(_width, text))


def _width(letter: str) -> int:
    if unicodedata.combining(letter):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def cut(text: str, columns: int) -> str:
    """``text``, or its beginning and an ellipsis if wider than ``columns``."""
    if width(text) <= columns:
        return text
    return _head(text, columns - 1) + ELLIPSIS


def wrap(text: str, columns: int, most: int) -> list[str]:
    """``text`` in at most ``most`` lines of up to ``columns`` >= 3; broken at spaces if possible.

    >>> wrap("seed=0, window=1000", 10, 3)
    ['seed=0,', 'window=100', '0']
    """
    lines: list[str] = []
    rest = " ".join(text.split())
    while rest and len(lines) < most - 1:
        line = _line(rest, columns)
        lines.append(line)
        rest = rest[len(line) :].lstrip()
    return [*lines, cut(rest, columns)] if rest else lines


def _line(text: str, columns: int) -> str:
    if width(text) <= columns:
        return text
    head = _head(text, columns + 1)
    until, space, _ = head.rpartition(" ")
    return until if space and until else _head(text, columns)


def _head(text: str, columns: int) -> str:
    """The longest beginning of ``text`` up to this width, with at least one letter."""
    taken = 0
    for place, letter in enumerate(text):
        taken += _width(letter)
        if taken > columns and place:
            return text[:place]
    return text
