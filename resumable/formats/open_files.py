"""Bytes of files by offset, through a bounded cache of open files."""

# Small files are kept whole, up to a budget of bytes; larger ones are mapped into memory, so a
# file of gigabytes is never read as a whole. The cache belongs to the process, not to a stage:
# a stage stays a description that can be pickled.

from __future__ import annotations

import mmap
import os
from collections import OrderedDict
from threading import Lock
from typing import Final, TypeAlias

from ..errors import MalformedItem

FileData: TypeAlias = "bytes | mmap.mmap"

SMALL: Final = 1 << 20
SMALL_BUDGET: Final = 1 << 26
MOST_MAPS: Final = 64

_lock = Lock()
_small: OrderedDict[tuple[str, int, int], bytes] = OrderedDict()
_maps: OrderedDict[tuple[str, int, int], mmap.mmap] = OrderedDict()
_small_bytes = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: globals().update(_lock=Lock()))


def file_data(path: str, size: int, mtime_ns: int) -> FileData:
    """The content of ``path``, which must have the given size in bytes and mtime.

    Raises:
      MalformedItem: if the file has changed since.
      OSError: if it cannot be read.
    """
    key = (path, size, mtime_ns)
    with _lock:
        if key in _small:
            _small.move_to_end(key)
            return _small[key]
        mapped = _maps.get(key)
        if mapped is not None:
            _maps.move_to_end(key)
    if mapped is None:
        return _open(key)
    # Reading a map beyond the end of a file cut short would kill the process.
    _check_unchanged(os.stat(path), key)
    return mapped


def _check_unchanged(status: os.stat_result, key: tuple[str, int, int]) -> None:
    if (status.st_size, status.st_mtime_ns) != key[1:]:
        raise MalformedItem(f"{key[0]} changed since the pipeline was built; build it again")


def _open(key: tuple[str, int, int]) -> FileData:
    global _small_bytes
    path, size, _ = key
    with open(path, "rb") as file:
        _check_unchanged(os.fstat(file.fileno()), key)
        if size > SMALL:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            with _lock:
                _maps[key] = mapped
                while len(_maps) > MOST_MAPS:
                    _maps.popitem(last=False)
            return mapped
        data = file.read()
    with _lock:
        if key not in _small:
            _small[key] = data
            _small_bytes += len(data)
        while _small_bytes > SMALL_BUDGET:
            _small_bytes -= len(_small.popitem(last=False)[1])
    return data
