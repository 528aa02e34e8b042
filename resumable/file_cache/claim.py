"""The right to fetch a part, held by one process at a time; a claim ends with its process."""

# The content is written to a locked unfinished file, and the whole file is renamed. Waiting
# processes open the same unfinished file. When the lock is free, either the part is finished, or
# the process with the lock failed or died, and the next process fetches.

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from typing import TypeAlias, final

from ..core.file_locks import close_locked, is_at, lock, open_locked
from ..core.regular_files import STRICT
from .part_file import (
    HEADER,
    MAGIC,
    Content,
    ForeignFile,
    Identity,
    finish_part,
    unfinished_path,
)

CheckOwn: TypeAlias = Callable[[int, str], None]
"""Takes a descriptor and a path; raises `ForeignFile` if no cache has begun to write the file."""


@final
class Claim:
    """A part that this process fetches; ends with the first of `commit`, `end` and `give_up`.

    A thread may give the claim up while another thread ends it.

    Args:
      path: of the part.
      descriptor: of the locked unfinished file.
      size: of the part, in bytes.

    Attributes:
      release: called with the size if the claim is given up; None if the part takes no room yet.
    """

    release: Callable[[int], None] | None = None

    def __init__(self, path: str, descriptor: int, size: int) -> None:
        self.size = size
        self.path = path
        self._descriptor = descriptor
        self._ends = Lock()  # taken by the thread that ends the claim, and never released

    @classmethod
    def of(cls, path: str, size: int) -> Claim | None:
        """Claim the part at ``path``, of ``size`` bytes; None if claimed already.

        Raises:
          ForeignFile: if a foreign file lies at the path of the unfinished file.
          OSError: if the file cannot be made or locked.
        """
        descriptor = lock_unfinished(unfinished_path(path), _check_own)
        return None if descriptor is None else cls(path, descriptor, size)

    def take_room(self) -> None:
        """Give the unfinished file the final size, which counts in the sum over the folder.

        Raises:
          OSError: if the disk is full.
        """
        os.ftruncate(self._descriptor, HEADER.size + self.size)

    def commit(self, content: Content) -> Identity:
        """Write the content, and finish the file; returns the identity of the file.

        After an error, the claim is given up.

        Raises:
          ForeignFile: if a foreign file has appeared at the path.
          OSError: if writing fails.
        """
        try:
            identity = finish_part(self.path, content, self._descriptor)
        except BaseException:
            self.give_up()
            raise
        self.end()
        return identity

    def end(self) -> None:
        """End the claim of a part that `finish_part` has finished."""
        if self._ends.acquire(blocking=False):
            close_locked(self._descriptor)

    def give_up(self) -> bool:
        """Give the claim up, and remove the unfinished file; False if the claim had ended."""
        if not self._ends.acquire(blocking=False):
            return False
        with suppress(OSError):
            os.unlink(unfinished_path(self.path))
        close_locked(self._descriptor)
        if self.release is not None:
            self.release(self.size)
        return True


def lock_unfinished(unfinished: str, check_own: CheckOwn) -> int | None:
    """Lock a file, made if missing; a descriptor for `close_locked`, or None if locked already.

    Raises:
      ForeignFile: if ``check_own`` does.
      OSError: if the file cannot be made or locked.
    """
    os.makedirs(os.path.dirname(unfinished), exist_ok=True)
    return open_locked(unfinished, check_own)


def remove_if_dead(unfinished: str, check_own: CheckOwn | None = None) -> bool:
    """Remove an unfinished file if its process has ended; returns whether."""
    try:
        descriptor = os.open(unfinished, os.O_RDWR | STRICT)
    except OSError:
        return False
    try:
        lock(descriptor)
        if not is_at(descriptor, unfinished):
            return False
        (check_own or _check_own)(descriptor, unfinished)
        os.unlink(unfinished)
        return True
    except (OSError, ForeignFile):
        return False
    finally:
        os.close(descriptor)


def _check_own(descriptor: int, path: str) -> None:
    """Refuse a file that no cache has begun to write, by the first bytes."""
    begin = os.read(descriptor, len(MAGIC))
    if begin.strip(b"\0") and begin != MAGIC:
        raise ForeignFile(path)
