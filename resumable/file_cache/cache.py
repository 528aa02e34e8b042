"""The user's description of a cache: parts of remote files on a local disk."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, final

from ..core.arguments import check_choice, check_int
from ..errors import InvalidArgument, InvalidType, shorten
from ..errors.foreign_words import with_our_words
from .part_file import HEADER

LEAST_PARTS: Final = 4
"""Least number of parts that a cache must have room for."""
SMALLEST_PART: Final = 1 << 16

FOLDER_VARIABLE: Final = "RESUMABLE_CACHE_DIR"
BYTES_VARIABLE: Final = "RESUMABLE_CACHE_BYTES"


@final
@with_our_words
@dataclass(frozen=True)
class FileCache:
    """Keeps parts of remote files on a local disk, for all processes of a machine that use it.

    Parts of files that no living process reads are removed first. Next come parts with an unknown
    next use, the last used first: an epoch uses each item once, so every byte kept over the end of
    an epoch saves a byte in the next. Then come the parts that are needed last by the orders of the
    pipelines in use. The next parts of these orders are fetched ahead.

    Each part is fetched once, by one of the processes, and used only if its checksum is right. The
    cache removes only files that a cache has written, and no process waits for a killed process.
    Files without an ETag or another version, and without a time of their last change, are read
    without the cache.

    Args:
      folder: on a local disk; made if missing.
      max_bytes: limit for all parts and whole copies, with room for at least 4 parts.
      part_bytes: size of a part, from 64 KiB to 64 MiB.
      read_ahead: bytes to fetch ahead, at most a quarter of ``max_bytes``; 0 for none.
      on_full: reaction to a disk that is full or cannot be written to: ``"warn"`` once and continue
        without the cache, or ``"error"``.

    Raises:
      InvalidArgument: if a number is out of range.
      InvalidType: if an argument has the wrong type.
      ReadError: while reading, if the disk is full or cannot be written to, and ``on_full`` is
        ``"error"``.

    >>> cache = rs.FileCache("/tmp/parts", max_bytes=2**30)
    >>> cache.read_ahead
    67108864
    """

    folder: str | os.PathLike[str]
    max_bytes: int
    part_bytes: int = 1 << 20
    read_ahead: int = 1 << 26
    on_full: str = "warn"

    def __post_init__(self) -> None:
        if not isinstance(self.folder, (str, os.PathLike)):
            raise InvalidType(f"folder must be a path, got {shorten(self.folder)}")
        object.__setattr__(self, "folder", os.path.abspath(os.path.expanduser(self.folder)))
        part = check_int("part_bytes", self.part_bytes, minimum=SMALLEST_PART)
        if part > 1 << 26:
            raise InvalidArgument(f"part_bytes must be at most 2**26, got {part}")
        most = check_int("max_bytes", self.max_bytes, minimum=0)
        least = LEAST_PARTS * (part + HEADER.size)
        if most < least:
            fitting = most // LEAST_PARTS - HEADER.size
            smaller = f"; or set part_bytes to at most {fitting}" * (fitting >= SMALLEST_PART)
            raise InvalidArgument(
                f"max_bytes must be at least {least}, room for {LEAST_PARTS} parts of {part} bytes, got "
                f"{most}{smaller}"
            )
        check_int("read_ahead", self.read_ahead, minimum=0)
        check_choice("on_full", self.on_full, ("warn", "error"))

    @property
    def path(self) -> str:
        """The folder, absolute."""
        return os.fspath(self.folder)


def cache_of_environment(environ: Mapping[str, str]) -> FileCache | None:
    """The cache from the variables of the environment; None if both are unset.

    Raises:
      InvalidArgument: if only one of the two variables is set, or a variable is wrong.
    """
    folder, most = environ.get(FOLDER_VARIABLE), environ.get(BYTES_VARIABLE)
    if not folder and not most:
        return None
    if not folder or not most:
        raise InvalidArgument(
            f"{FOLDER_VARIABLE} and {BYTES_VARIABLE} must both be set, or neither"
        )
    if not most.isdecimal():
        raise InvalidArgument(f"{BYTES_VARIABLE} must be a number of bytes, got {shorten(most)}")
    return FileCache(folder, int(most))


def check_cache(cache: Any) -> FileCache | None:
    """``cache``, checked.

    Raises:
      InvalidType: if ``cache`` is neither a `FileCache` nor None.
    """
    if cache is not None and not isinstance(cache, FileCache):
        raise InvalidType(f"cache must be a rs.FileCache or None, got {shorten(cache)}")
    return cache
