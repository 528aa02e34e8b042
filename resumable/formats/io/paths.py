"""Find the files that paths and patterns name: braces first, as in shells, then wildcards."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterable, Set
from itertools import chain
from typing import Final, TypeAlias, final

from ...core.arguments import is_several
from ...errors import InvalidArgument, InvalidType, shorten
from .braces import expanded

RANGE_OF_RECORDS: Final = re.compile(r"\[(\d+):(\d+)\]$")

Paths: TypeAlias = "str | os.PathLike[str] | Iterable[Paths]"


@final
class FoundUrl(str):
    """The URL of a found file: no pattern, whatever the characters."""

    __slots__ = ()


def found_files(paths: Paths, is_left_out: Callable[[str], bool]) -> list[str]:
    """The files that ``paths`` name; the matches of a pattern are sorted.

    Args:
      paths: a path, a pattern, or several paths and patterns.
      is_left_out: whether the path of a match is not data.

    Raises:
      InvalidArgument: if a pattern matches nothing, or no path is given.
      InvalidType: if ``paths`` are not paths.
    """
    found: list[str] = []
    for path in chain.from_iterable(map(_expanded_unless_there, given_paths(paths))):
        text = os.path.expanduser(path)
        if not glob.has_magic(text) or os.path.lexists(text):
            found.append(text)
            continue
        matches = sorted(
            match
            for match in glob.glob(text, recursive=True)
            if os.path.isfile(match) and not is_left_out(match)
        )
        if not matches:
            raise no_match(text)
        found.extend(matches)
    return found


def no_match(path: str) -> InvalidArgument:
    """The error for a ``path`` without files; explains a final range of records, as in TFDS."""
    message = f"paths must match at least one file, got {path!r}"
    if records := RANGE_OF_RECORDS.search(path):
        first, stop = map(int, records.groups())
        message += (
            f"; for its records {first} to {stop}, pass {path[: records.start()]!r}, and add "
            f".skip({first}).take({max(stop - first, 0)})"
        )
    return InvalidArgument(message)


def _expanded_unless_there(path: str) -> list[str]:
    """The paths from the braces in ``path``, unless a file of this very name exists."""
    if "{" not in path or os.path.lexists(os.path.expanduser(path)):
        return [path]
    return expanded(path)


def repeatable(paths: Paths) -> Paths:
    """``paths`` unchanged if they are a single path, else as a list that can be iterated again.

    Raises:
      InvalidArgument: if no path is given.
      InvalidType: if ``paths`` are not paths.
    """
    return paths if isinstance(paths, (str, os.PathLike)) else given_paths(paths)


def given_paths(paths: Paths) -> list[str]:
    """The paths and patterns in ``paths``, at least one; nested lists are flattened.

    Raises:
      InvalidArgument: if no path is given.
      InvalidType: if ``paths`` are not paths.
    """
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    elif hasattr(paths, "read"):
        raise InvalidType(f"paths must be paths, got the open file {shorten(paths)}; pass its path")
    elif isinstance(paths, Set):
        raise InvalidType(f"paths must have an order, got {shorten(paths)}; pass sorted(paths)")
    elif not is_several(paths) or isinstance(paths, (bytes, bytearray)):
        raise InvalidType(f"paths must be a path, a pattern or several, got {shorten(paths)}")
    given: list[str] = []
    for path in paths:
        if isinstance(path, (list, tuple)):
            given += given_paths(path)
        elif isinstance(path, (str, os.PathLike)):
            given.append(os.fspath(path))
        else:
            raise InvalidType(f"paths must hold paths, got {shorten(path)}")
    if not given:
        raise InvalidArgument(f"paths must name at least one file, got {given!r}")
    return given


def is_remote(path: str | os.PathLike[str]) -> bool:
    """Whether ``path`` is a URL."""
    return isinstance(path, str) and "://" in path


def without_query(path: str) -> str:
    """``path``, without the query of a URL."""
    return path.split("?")[0] if is_remote(path) else path


def file_name(path: str) -> str:
    """The last part of ``path``, without the query of a URL."""
    return without_query(path).rpartition("/")[2] if is_remote(path) else os.path.basename(path)
