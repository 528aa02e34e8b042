"""Find the files that paths and patterns name: braces first, as in shells, then ``*`` and its like."""

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
    """The URL of a file that was found, which is no pattern, whatever characters it has."""

    __slots__ = ()


def found_files(paths: Paths, is_left_out: Callable[[str], bool]) -> list[str]:
    """The files that ``paths`` name; the matches of a pattern are sorted.

    Args:
      paths: a path, a pattern, or several of them.
      is_left_out: whether a match of a pattern is no data, by its path.

    Raises:
      InvalidArgument: if a pattern matches nothing, or there is no path.
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
    """The error that no file has the name ``path``, which may have a range of records at its end, as for TFDS."""
    message = f"paths must match at least one file, got {path!r}"
    if records := RANGE_OF_RECORDS.search(path):
        first, stop = map(int, records.groups())
        message += (
            f"; for its records {first} to {stop}, pass {path[: records.start()]!r}, and add "
            f".skip({first}).take({max(stop - first, 0)})"
        )
    return InvalidArgument(message)


def _expanded_unless_there(path: str) -> list[str]:
    """The paths that ``path`` stands for by its braces, unless a file has them in its name."""
    if "{" not in path or os.path.lexists(os.path.expanduser(path)):
        return [path]
    return expanded(path)


def repeatable(paths: Paths) -> Paths:
    """``paths`` as they are shown, or a list of them if they can be iterated only once.

    Raises:
      InvalidArgument: if there is none.
      InvalidType: if ``paths`` are not paths.
    """
    return paths if isinstance(paths, (str, os.PathLike)) else given_paths(paths)


def given_paths(paths: Paths) -> list[str]:
    """The paths and patterns in ``paths``, at least one, out of all lists in it.

    Raises:
      InvalidArgument: if there is none.
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
    """``path``, without the query if it is a URL."""
    return path.split("?")[0] if is_remote(path) else path


def file_name(path: str) -> str:
    """The last part of ``path``; the query of a URL is no part of it."""
    return without_query(path).rpartition("/")[2] if is_remote(path) else os.path.basename(path)
