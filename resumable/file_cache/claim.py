"""The right to fetch a part: one process at a time has it, and it ends with the process."""

# The content is written to a file that is locked meanwhile, and given its name when it is whole. Who
# waits for the lock opens that same file; when the lock is free, the part is there under its name, or
# whoever had the lock failed or died, and the next one fetches.

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from typing import Final, TypeAlias, final

from ..core.file_locks import lock
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

OPEN: Final = os.O_RDWR | os.O_CREAT | STRICT

CheckOwn: TypeAlias = Callable[[int, str], None]
"""Refuses an open file at a path that no cache has begun to write, by `ForeignFile`."""

_open: Final[set[int]] = set()
"""Descriptors of the claims of this process. A forked child closes its copies, which leaves the locks."""


@final
class Claim:
    """A part that this process fetches; ends with the first of `commit`, `end` and `give_up`.

    One thread may give it up while another one says that the part is there.

    Args:
      path: of the part.
      descriptor: of the locked file that its content is written to.
      size: of the part, in bytes.
    """

    def __init__(self, path: str, descriptor: int, size: int) -> None:
        self.size = size
        self.path = path
        self._descriptor = descriptor
        self._ends = Lock()  # taken by the one that ends it, and never released

    @classmethod
    def of(cls, path: str, size: int) -> Claim | None:
        """Claim the part at ``path``, of ``size`` bytes; None if another one has claimed it.

        Raises:
          ForeignFile: if something else lies where its content would be written.
          OSError: if the file cannot be made or locked.
        """
        descriptor = lock_unfinished(unfinished_path(path), _check_own)
        return None if descriptor is None else cls(path, descriptor, size)

    def take_room(self) -> None:
        """Let the file have its size, so that whoever adds up what is in the folder counts it in full.

        Raises:
          OSError: if the disk is full.
        """
        os.ftruncate(self._descriptor, HEADER.size + self.size)

    def commit(self, content: Content) -> Identity:
        """Write the content, and give the file its name; returns its identity.

        Raises:
          ForeignFile: if somebody has put something else there meanwhile; then nothing is left of the part.
          OSError: if that fails; the same.
        """
        try:
            identity = finish_part(self.path, content, self._descriptor)
        except BaseException:
            self.give_up()
            raise
        self.end()
        return identity

    def end(self) -> None:
        """Let go of the part, which `finish_part` has given its name."""
        if self._ends.acquire(blocking=False):
            let_go(self._descriptor)

    def give_up(self) -> bool:
        """Let another one fetch the part; whether it was not ended before."""
        if not self._ends.acquire(blocking=False):
            return False
        with suppress(OSError):
            os.unlink(unfinished_path(self.path))
        let_go(self._descriptor)
        return True


def lock_unfinished(unfinished: str, check_own: CheckOwn) -> int | None:
    """Lock a file that is made if it is not there; a descriptor for `let_go`, or None if another one has it.

    Raises:
      ForeignFile: if ``check_own`` does.
      OSError: if the file cannot be made or locked.
    """
    while True:
        try:
            descriptor = os.open(unfinished, OPEN, 0o666)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(unfinished), exist_ok=True)
            descriptor = os.open(unfinished, OPEN, 0o666)
        try:
            lock(descriptor)
            if _is_at(descriptor, unfinished):
                check_own(descriptor, unfinished)
                _open.add(descriptor)
                return descriptor
            os.close(descriptor)  # it was removed or given its name before it was locked
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise


def let_go(descriptor: int) -> None:
    """Unlock what `lock_unfinished` has locked."""
    _open.discard(descriptor)
    os.close(descriptor)


def remove_if_dead(unfinished: str, check_own: CheckOwn | None = None) -> bool:
    """Remove what a process that has ended left of a part; whether it has."""
    try:
        descriptor = os.open(unfinished, os.O_RDWR | STRICT)
    except OSError:
        return False
    try:
        lock(descriptor)
        if not _is_at(descriptor, unfinished):
            return False
        (check_own or _check_own)(descriptor, unfinished)
        os.unlink(unfinished)
        return True
    except (OSError, ForeignFile):
        return False
    finally:
        os.close(descriptor)


def _check_own(descriptor: int, path: str) -> None:
    """Refuse a file that no cache has begun to write: it has another beginning."""
    begin = os.read(descriptor, len(MAGIC))
    if begin.strip(b"\0") and begin != MAGIC:
        raise ForeignFile(path)


def _is_at(descriptor: int, path: str) -> bool:
    """Whether the open file is still the one at ``path``."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False


def _close_inherited() -> None:
    while _open:
        with suppress(OSError):
            os.close(_open.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_inherited)
