"""The last lines of a file that grows, however long it is."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from .files import open_regular_file

T = TypeVar("T")

AT_FIRST: Final = 1 << 14
AT_MOST: Final = 1 << 22
"""Bytes at the end of a file that are looked at."""


def last_lines(path: Path, count: int, parse: Callable[[bytes], T | None]) -> list[T]:
    """The last ``count`` lines that mean something, in order; fewer if there are no more near the end.

    A line that is being written, was cut short or is damaged does not hide the others.

    Args:
      path: of the file.
      count: of lines.
      parse: what a line means; None if it means nothing.

    Raises:
      OSError: if it cannot be read, or is no regular file.
    """
    with open_regular_file(path) as file:
        length = os.fstat(file.fileno()).st_size
        size = AT_FIRST
        while True:
            start = max(length - size, 0)
            file.seek(start)
            lines = file.read(length - start).split(b"\n")
            if start:
                del lines[0]  # it began before
            found = _last(lines, count, parse)
            if len(found) == count or not start or size >= AT_MOST:
                return found
            size *= 4


def _last(lines: list[bytes], count: int, parse: Callable[[bytes], T | None]) -> list[T]:
    found: list[T] = []
    for line in reversed(lines):
        if len(found) == count:
            break
        meaning = parse(line)
        if meaning is not None:
            found.append(meaning)
    return found[::-1]
