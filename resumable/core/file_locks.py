"""Lock and unlock an open file; the system unlocks it when the last process with it open ends."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from .home_process import in_forked_children
from .regular_files import STRICT

OPEN: Final = os.O_RDWR | os.O_CREAT | STRICT

_held: Final[set[int]] = set()
"""Descriptors from `open_locked`."""

if sys.platform == "win32":
    import msvcrt

    # Nobody can read a locked byte, so the lock covers a byte far after the content.
    FAR: Final = 1 << 30

    def lock(descriptor: int) -> None:
        """Lock the file for this holder alone.

        Raises:
          BlockingIOError: if the file is locked.
        """
        os.lseek(descriptor, FAR, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except PermissionError as error:
            raise BlockingIOError(error.errno, error.strerror) from error
        os.lseek(descriptor, 0, os.SEEK_SET)

    lock_shared = lock  # Windows has no shared locks here

    def unlock(descriptor: int) -> None:
        """Unlock the file, for all holders that share the opened file."""
        os.lseek(descriptor, FAR, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def lock(descriptor: int) -> None:
        """Lock the file for this holder alone.

        Raises:
          BlockingIOError: if the file is locked.
          OSError: if the file system has no locks.
        """
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def lock_shared(descriptor: int) -> None:
        """Lock the file, shared with other shared locks; raises the same as `lock`."""
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)

    def unlock(descriptor: int) -> None:
        """Unlock the file, for all holders that share the opened file."""
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def open_locked(path: str, check: Callable[[int, str], None] | None = None) -> int | None:
    """Open and lock the file at ``path``, made if missing; None if it is locked already.

    A forked child closes the descriptor, and the lock stays with this process.

    Args:
      path: of the file.
      check: called with the descriptor and ``path`` once the file is locked; may refuse the file.

    Returns:
      a descriptor for `close_locked`.

    Raises:
      OSError: if the file cannot be made or locked.
    """
    while True:
        descriptor = os.open(path, OPEN, 0o666)
        try:
            lock(descriptor)
            if is_at(descriptor, path):
                if check is not None:
                    check(descriptor, path)
                _held.add(descriptor)
                return descriptor
            os.close(descriptor)  # the file was removed or renamed before it was locked
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise


def close_locked(descriptor: int) -> None:
    """Unlock a file that `open_locked` has locked."""
    _held.discard(descriptor)
    try:
        unlock(descriptor)  # closing alone would leave the lock to a process just forked
    finally:
        os.close(descriptor)


def is_at(descriptor: int, path: str) -> bool:
    """Whether the open file is still at ``path``."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False


@in_forked_children
def _close_inherited() -> None:
    while _held:
        with suppress(OSError):
            os.close(_held.pop())
