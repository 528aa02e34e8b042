"""Lock and unlock an open file; the system unlocks it when the last process with it open ends."""

from __future__ import annotations

import os
import sys

if sys.platform == "win32":
    import msvcrt
    from typing import Final

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
