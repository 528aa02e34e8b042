"""Open a path that may not be a regular file, and write a file as a whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from typing import BinaryIO, Final

BINARY: Final = getattr(os, "O_BINARY", 0)
CLOSE_ON_EXEC: Final = getattr(os, "O_CLOEXEC", 0)
NO_FOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)
STRICT: Final = NO_FOLLOW | CLOSE_ON_EXEC | BINARY
"""For a file of the library: links are not followed, and started processes do not inherit it."""
# O_NONBLOCK: opening a FIFO must not wait for a writer.
READ: Final = os.O_RDONLY | CLOSE_ON_EXEC | BINARY | getattr(os, "O_NONBLOCK", 0)
NOT_A_FILE: Final = (errno.ELOOP, errno.EMLINK, errno.ENXIO, errno.EISDIR)
"""The errors of opening something other than a regular file."""


def open_regular(
    path: str | os.PathLike[str], flags: int = READ
) -> tuple[FileIO, os.stat_result] | None:
    """Open the file at ``path`` for reading; None if the path is not a regular file.

    Raises:
      OSError: if the file cannot be opened.
    """
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno in NOT_A_FILE or os.path.isdir(path):
            return None
        raise
    try:
        # `FileIO` alone closes the descriptor: if a signal handler raises here, a second close
        # would be wrong.
        file = FileIO(descriptor)
    except IsADirectoryError:
        os.close(descriptor)
        return None
    try:
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode):
            return file, status
    except BaseException:
        file.close()
        raise
    file.close()
    return None


@contextmanager
def replacing(path: str | os.PathLike[str], ending: str) -> Iterator[BinaryIO]:
    """Write a file under a temporary name with ``ending``, then rename the file to ``path``.

    The file is not forced to the disk.

    Raises:
      OSError: if the file cannot be written; then nothing is left of it.
    """
    temporary = os.path.join(os.path.dirname(path), f".tmp-{os.urandom(8).hex()}{ending}")
    try:
        with open(temporary, "xb") as file:
            yield file
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
