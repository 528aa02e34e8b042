"""Flags to open a path that may not be a regular file, and the errors that tell so."""

from __future__ import annotations

import errno
import os
from typing import Final

BINARY: Final = getattr(os, "O_BINARY", 0)
CLOSE_ON_EXEC: Final = getattr(os, "O_CLOEXEC", 0)
NO_FOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)
# O_NONBLOCK: opening a FIFO must not wait for a writer.
READ: Final = os.O_RDONLY | CLOSE_ON_EXEC | BINARY | getattr(os, "O_NONBLOCK", 0)
NOT_A_FILE: Final = (errno.ELOOP, errno.EMLINK, errno.ENXIO, errno.EISDIR)
"""The errors of opening something other than a regular file."""
