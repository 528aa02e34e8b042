"""Copy remote files to a local disk, for packages that read only local files."""

# A copy belongs to the process that made the copy, is shared with forked children, and is removed
# when the process ends.

from __future__ import annotations

import hashlib
import multiprocessing.util
import os
import shutil
import tempfile
from functools import partial
from threading import Lock, RLock
from typing import BinaryIO, Final, NamedTuple

from ...core.home_process import in_forked_children
from ...core.regular_files import replacing
from ...file_cache.reading import reader_of
from .remote import RemoteFile
from .remote_content import LARGEST_RANGE, Span, read_uncached

PIECE: Final = 4 * LARGEST_RANGE
"""Bytes that are requested at the same time, and held in memory until written."""


class _Folder(NamedTuple):
    """The folder with the copies of a process.

    Attributes:
      path: of the folder.
      process: number of the process that made the folder.
      locks: for each copy, by path, a lock that is held while the copy is made.
    """

    path: str
    process: int
    locks: dict[str, Lock]


# The folder of this process, or of a parent process that may have ended.
_folder: _Folder | None = None
_lock = RLock()


@in_forked_children
def _in_child() -> None:
    global _lock, _folder
    _lock = RLock()
    if _folder is not None:
        _folder = _folder._replace(locks={})


class LocalCopy(NamedTuple):
    """A whole copy of a remote file.

    Attributes:
      path: of the copy.
      is_beyond_cache: whether the file has a cache without room for the copy.
    """

    path: str
    is_beyond_cache: bool


def local_copy(file: RemoteFile) -> LocalCopy:
    """A whole copy of ``file`` on a local disk.

    The first use copies the file, and checks that it is unchanged. Later uses return the same copy
    without a request. The copy lies in the cache of the file, for all processes that share the
    cache. Without a cache, or without room, it lies in the folder of `tempfile` for this process.

    Raises:
      MalformedItem: if the file has changed since the pipeline was built.
      ReadError: if the file cannot be read.
      FileNotFoundError: if the file no longer exists.
      OSError: if the copy cannot be written.
    """
    if (cache := file.cache) is not None:
        kept = reader_of(cache).copy_of(file, partial(_write, file))
        if kept is not None:
            return LocalCopy(kept, is_beyond_cache=False)
    folder = _folder_of_process()
    known = f"{file.path}\n{file.size}\n{file.tag}"
    path = os.path.join(folder.path, hashlib.blake2b(known.encode(), digest_size=16).hexdigest())
    with folder.locks.setdefault(path, Lock()):
        if not os.path.exists(path):
            with replacing(path, ".tmp") as opened:
                _write(file, opened)
    return LocalCopy(path, is_beyond_cache=cache is not None)


def _write(file: RemoteFile, opened: BinaryIO) -> None:
    for start in range(0, file.size, PIECE):
        end = min(start + PIECE, file.size)
        cuts = range(start, end, LARGEST_RANGE)
        # Parts in a cache would take the same room again.
        for data in read_uncached([Span(file, cut, min(cut + LARGEST_RANGE, end)) for cut in cuts]):
            opened.write(data)
    # After the last byte, so that all bytes are of one version.
    file.check_unchanged()


def _folder_of_process() -> _Folder:
    global _folder
    with _lock:
        if _folder is None or not os.path.isdir(_folder.path):
            path = tempfile.mkdtemp(prefix="resumable-copies-")
            _folder = _Folder(path, os.getpid(), {})
            # Unlike `atexit`, this also runs at the end of processes of `multiprocessing`.
            multiprocessing.util.Finalize(None, _remove, (_folder,), exitpriority=0)
        return _folder


def _remove(folder: _Folder) -> None:
    if folder.process == os.getpid():
        shutil.rmtree(folder.path, ignore_errors=True)
