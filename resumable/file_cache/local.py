"""The readers of this process, one for each cache."""

from __future__ import annotations

import atexit
import os
from typing import Final

from .cache import FileCache
from .reading import CacheReader

_readers: Final[dict[FileCache, CacheReader]] = {}


def reader_of(cache: FileCache) -> CacheReader:
    """The reader of this process for ``cache``."""
    reader = _readers.get(cache)
    if reader is None:
        reader = _readers.setdefault(cache, CacheReader(cache))
    return reader


def _close_all() -> None:
    for reader in list(_readers.values()):
        reader.close()


def _abandon_all() -> None:
    while _readers:
        _readers.popitem()[1].abandon()


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_all)
