"""The last lines of a growing file, read from its end."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Final, TypeVar

from .files import open_regular_file

T = TypeVar("T")

AT_FIRST: Final = 1 << 14
AT_MOST: Final = 1 << 22
"""Largest number of bytes read from the end of a file."""


def last_lines(path: Path, count: int, parse: Callable[[bytes], T | None]) -> list[T]:
    """The last ``count`` valid lines, in order; fewer if the end of the file holds fewer.

    A line being written, cut short or damaged does not hide the other lines.

    Args:
      path: of the file.
      count: of lines.
      parse: returns the value of a line; None for an invalid line.

    Raises:
      OSError: if the file cannot be read, or is no regular file.
    """
    with open_regular_file(path) as file:
        length = os.fstat(file.fileno()).st_size
        size = AT_FIRST
        while True:
            start = max(length - size, 0)
            file.seek(start)
            lines = file.read(length - start).split(b"\n")
            if start:
                del lines[0]  # a line begun before `start`
            parsed = (meaning for line in reversed(lines) if (meaning := parse(line)) is not None)
            found = list(islice(parsed, count))[::-1]
            if len(found) == count or not start or size >= AT_MOST:
                return found
            size *= 4
