"""Expand braces in a path, as shells do: ``train-{000..019}.tar`` is twenty paths."""

# Braces around neither a list nor a sequence stay unchanged, as in bash. No character escapes a
# brace: a pattern with ``?`` instead of a brace names a file with a brace in its name.

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice, pairwise
from typing import Final

from ...errors import InvalidArgument, shorten

MOST_PATHS: Final = 1_000_000
MOST_DIGITS: Final = 18

_NUMBERS: Final = re.compile(r"(-?\d+)\.\.(-?\d+)(?:\.\.(-?\d+))?", re.ASCII)
_LETTERS: Final = re.compile(r"([a-z])\.\.([a-z])(?:\.\.(-?\d+))?", re.ASCII)
_CAPITALS: Final = re.compile(r"([A-Z])\.\.([A-Z])(?:\.\.(-?\d+))?", re.ASCII)


def expanded(path: str) -> list[str]:
    """The paths that ``path`` stands for, in order; only ``path`` itself without braces to expand.

    Raises:
      InvalidArgument: if there are more than a million paths.

    >>> expanded("{web,books}-{08..10}.tar")
    ['web-08.tar', 'web-09.tar', 'web-10.tar', 'books-08.tar', 'books-09.tar', 'books-10.tar']
    """
    found = list(islice(_expanded(path), MOST_PATHS + 1))
    if len(found) > MOST_PATHS:
        raise InvalidArgument(f"paths must name at most {MOST_PATHS} files, got {shorten(path)}")
    return found


def _expanded(text: str) -> Iterator[str]:
    for opening in (at for at, character in enumerate(text) if character == "{"):
        commas, closing = _inside(text, opening)
        if closing is None:
            continue
        choices = _choices(text, [opening, *commas, closing])
        if choices is not None:
            before, after = text[:opening], text[closing + 1 :]
            for choice in choices:
                for rest in _expanded(after):
                    yield f"{before}{choice}{rest}"
            return
    yield text


def _inside(text: str, opening: int) -> tuple[list[int], int | None]:
    """The commas and the closing brace for the brace at ``opening``; None if it is not closed."""
    depth, commas = 0, list[int]()
    for at in range(opening, len(text)):
        character = text[at]
        depth += (character == "{") - (character == "}")
        if not depth:
            return commas, at
        if depth == 1 and character == ",":
            commas.append(at)
    return commas, None


def _choices(text: str, bounds: list[int]) -> Iterable[str] | None:
    """The expansions of the braces and commas at ``bounds``; None if they stay unchanged."""
    parts = [text[start + 1 : stop] for start, stop in pairwise(bounds)]
    if len(parts) > 1:
        return (choice for part in parts for choice in _expanded(part))
    return _sequence(parts[0])


def _sequence(text: str) -> Iterable[str] | None:
    """The members of ``3..5`` or ``a..e``, optionally with a step; None for other text."""
    if found := _NUMBERS.fullmatch(text):
        first, last, step = found.groups()
        if max(map(len, filter(None, found.groups()))) > MOST_DIGITS:
            return None
        padded = any(re.match(r"-?0\d", end) for end in (first, last))
        width = max(len(first), len(last)) if padded else 0
        return (f"{number:0{width}}" for number in _steps(int(first), int(last), step))
    if found := _LETTERS.fullmatch(text) or _CAPITALS.fullmatch(text):
        first, last, step = found.groups()
        return map(chr, _steps(ord(first), ord(last), step))
    return None


def _steps(first: int, last: int, step: str | None) -> range:
    """The numbers from ``first`` up or down to ``last``, inclusive."""
    by = abs(int(step or 1)) or 1
    return range(first, last + 1, by) if first <= last else range(first, last - 1, -by)
