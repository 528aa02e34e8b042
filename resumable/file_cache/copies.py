"""Whole copies of remote files in the room of a cache, for packages that read only local files."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO, Final, TypeAlias, final

from ..core.file_locks import close_locked
from .claim import lock_unfinished
from .copy_file import (
    COPY,
    CopyNote,
    check_own_copy,
    checksum_of,
    remove_copy,
    unfinished_copy,
    whole_copy,
)
from .eviction import Eviction
from .part_file import ForeignFile, Identity
from .part_store import DiskFailure, on_disk
from .parts import CachedFile
from .room import NoRoom, Room

PAUSE: Final = 0.02
"""Seconds between two looks at a copy that another process makes."""

STALLED: Final = 60.0
"""Seconds without a new byte after which other processes no longer wait for a copy."""

DISK_IS_FULL: Final = (errno.ENOSPC, errno.EDQUOT)

WriteContent: TypeAlias = Callable[[BinaryIO], None]
"""Writes the content of a file."""


@final
class Copies:
    """The copies in ``folder``, which take room as parts do.

    A copy of a file that a living process reads stays; other copies are removed as a whole.

    Args:
      folder: of the cache.
      most: limit on the bytes of all parts and copies.
      eviction: of this process.
    """

    def __init__(self, folder: str, most: int, eviction: Eviction) -> None:
        self._folder = folder
        self._room = Room(folder, most)
        self._eviction = eviction
        # The identities of copies known to be whole, by path.
        self._checked: dict[str, Identity] = {}

    def path_of(self, file: CachedFile, write: WriteContent) -> str | None:
        """The path of a copy of ``file``, made by ``write`` if missing; None without room.

        The process must have published that it reads the file.

        Raises:
          DiskFailure: if the copy cannot be written.
          Exception: any error of ``write``.
        """
        name = file.content_name
        path = os.path.join(self._folder, name[:2], name + COPY)
        while not self._is_whole(path, file.size):
            try:
                with on_disk():
                    descriptor = lock_unfinished(unfinished_copy(path), check_own_copy)
            except ForeignFile:
                return None
            if descriptor is None:
                if _is_stalled(path):
                    return None
                time.sleep(PAUSE)
                continue
            try:
                if self._is_whole(path, file.size):  # another process has just finished the copy
                    self._give_up(path)
                elif os.path.lexists(path) or not self._made(path, file, descriptor, write):
                    self._give_up(path)
                    return None
            finally:
                close_locked(descriptor)
        return path

    def _made(self, path: str, file: CachedFile, descriptor: int, write: WriteContent) -> bool:
        """Make the copy in the locked unfinished file; False without room, or if it exists."""
        inode = os.fstat(descriptor).st_ino
        victims = self._eviction.look().needed_after(-1)
        try:
            with on_disk():
                os.ftruncate(descriptor, 0)
                CopyNote(inode).write(path)
                self._room.reserve(file.size, victims, lambda: os.ftruncate(descriptor, file.size))
        except NoRoom:
            return False
        try:
            try:
                with open(descriptor, "wb", closefd=False) as unfinished:
                    write(unfinished)
            except OSError as error:
                if error.errno in DISK_IS_FULL:
                    raise DiskFailure from error
                raise
            with on_disk():
                with open(unfinished_copy(path), "rb") as written:
                    checksum, status = checksum_of(written), os.fstat(descriptor)
                CopyNote(inode, status.st_mtime_ns, status.st_size, checksum).write(path)
                if os.path.lexists(path):
                    raise ForeignFile(path)
                os.rename(unfinished_copy(path), path)
        except BaseException as error:
            self._give_up(path)
            self._room.release(file.size)
            if isinstance(error, ForeignFile):  # the file appeared in the meantime
                return False
            raise
        self._checked[path] = (inode, status.st_mtime_ns, status.st_size)
        return True

    def _is_whole(self, path: str, size: int) -> bool:
        """Whether a whole copy exists; a damaged copy is removed."""
        note = whole_copy(path)
        if note is None or note.size != size:
            return False
        if self._checked.get(path) != note.identity:
            try:
                with open(path, "rb") as file:
                    if checksum_of(file) != note.checksum:
                        remove_copy(path)
                        return False
            except OSError:  # the copy has just been removed, or cannot be read
                return False
            self._checked[path] = note.identity
        with suppress(OSError):  # the copy may belong to another user
            os.utime(path, ns=(time.time_ns(), note.mtime_ns))
        return True

    @staticmethod
    def _give_up(path: str) -> None:
        with suppress(OSError):
            os.unlink(unfinished_copy(path))


def _is_stalled(path: str) -> bool:
    """Whether the unfinished copy has not grown for a while: the process seems to be stopped."""
    try:
        return time.time() - os.stat(unfinished_copy(path)).st_mtime > STALLED
    except FileNotFoundError:
        return False
