"""Contents of files that the facts of several formats share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

__all__ = ["COUNT", "files_in", "numbered_lines", "short_lists"]

COUNT = 3
"""Files that `removed` of the facts of a format writes."""


def files_in(folder: Path, suffix: str) -> Iterator[Path]:
    """The paths of `COUNT` files."""
    return (folder / f"{number}{suffix}" for number in range(COUNT))


def numbered_lines(number: int, lines: int = 20) -> bytes:
    """Lines of one length, each also a value of JSON."""
    return b"".join(b'"%d %03d"\n' % (number, line) for line in range(lines))


def short_lists(number: int) -> bytes:
    """Nine lines of JSON, and a blank one."""
    return b"".join(b"\n" * (at == 2) + b"[%d, %d]\n" % (number, at) for at in range(9))
