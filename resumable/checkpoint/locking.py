"""A lock on a file, released by the system when the holding process ends."""

# The file is never deleted: a process that had opened the file before could then lock it, while
# another process makes the file again and locks the new file. The content is for people, and for
# the error of a second writer.
#
# A forked child inherits the descriptor, and with it the lock. The child closes the descriptor, and
# the lock stays with the parent. Only the parent unlocks.

from __future__ import annotations

import errno
import json
import os
import platform
import stat
import time
import warnings
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, final

from ..core.file_locks import lock, lock_shared, unlock
from ..core.home_process import HomeProcess, in_forked_children
from ..core.regular_files import STRICT
from ..errors import NameInUse, shorten
from .store import StoreLock

# O_NONBLOCK: opening a FIFO must not wait for a reader.
LOOK: Final = STRICT | getattr(os, "O_NONBLOCK", 0)
NOT_ALLOWED: Final = (errno.EACCES, errno.EPERM, errno.EROFS)
# The file system has no locks, no locks for a file opened for reading, or no room for the file.
NO_LOCKS: Final = (
    *(errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL, errno.EBADF),
    *(errno.ENOSPC, errno.EDQUOT),
)
MOST_BYTES: Final = 500

_descriptors: Final[dict[HomeProcess, int]] = {}
"""The open descriptors of this process; each key belongs to its lock alone."""
_warned: Final[set[Path]] = set()


def lock_file(path: Path, what: str) -> StoreLock:
    """Lock the file ``path``, which is made if missing.

    Without locks in the file system, nothing is held, after one warning for each folder. Without
    permission to write, nothing is held either.

    Args:
      path: of the file, in an existing folder.
      what: names the locked thing in the error.

    Raises:
      NameInUse: if another loop, of this or another process, has locked the file.
      OSError: if ``path`` is not a regular file, or the system refuses.
    """
    try:
        held = FileLock(path)
        held.acquire()
    except BlockingIOError as error:
        raise _in_use(path, what) from error
    except OSError as error:
        if error.errno in NO_LOCKS:
            _warn_once(path.parent, error)
        elif error.errno not in NOT_ALLOWED:
            raise
        return StoreLock()
    return held


def check_unlocked(path: Path, what: str) -> None:
    """Check that nobody has locked the file ``path``; several processes may check at the same time.

    Args:
      path: of the file.
      what: names the locked thing in the error.

    Raises:
      NameInUse: if another loop, of this or another process, has locked the file.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | LOOK)
    except OSError:  # no file, or no lock file
        return
    try:
        lock_shared(descriptor)
        # Closing alone would leave the lock to a fork with the inherited descriptor.
        unlock(descriptor)
    except BlockingIOError as error:
        raise _in_use(path, what) from error
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
    finally:
        os.close(descriptor)


@final
class FileLock(StoreLock):
    """The open file ``path``, closed together with this object; `acquire` locks the file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._process = HomeProcess()
        # Not at the end of the process, when a save may still run; the system unlocks then.
        weakref.finalize(self, _let_go, self._process).atexit = False
        _descriptors[self._process] = self._descriptor = _open(path)

    @property
    def is_held(self) -> bool:
        return self._process in _descriptors

    def acquire(self) -> None:
        """Lock the file, or raise BlockingIOError at once, and write the holder into the file."""
        try:
            if not stat.S_ISREG(os.fstat(self._descriptor).st_mode):
                raise FileExistsError(errno.EEXIST, "it must be a regular file", str(self._path))
            lock(self._descriptor)
            with suppress(OSError):  # the lock is held all the same
                os.ftruncate(self._descriptor, 0)
                os.write(self._descriptor, _signature())
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        _let_go(self._process)


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | LOOK, 0o666)
    except OSError as error:
        if error.errno not in NOT_ALLOWED:
            raise
    try:  # a read-only file of another user can be locked, but not written
        return os.open(path, os.O_RDONLY | LOOK)
    except FileNotFoundError as error:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path)) from error


def _signature() -> bytes:
    since = time.strftime("%Y-%m-%d %H:%M:%S %z")
    holder = {"host": platform.node(), "process": os.getpid(), "since": since}
    return json.dumps(holder).encode()


def _let_go(process: HomeProcess) -> None:
    """Close the descriptor of ``process``; a second call finishes an interrupted first call."""
    descriptor = _descriptors.get(process)
    # A finalizer may run in a forked child before the child has closed inherited descriptors.
    if descriptor is None or not process.is_this_one():
        return
    # In this order a fork between any two lines inherits no lock.
    with suppress(OSError):
        unlock(descriptor)
    del _descriptors[process]
    with suppress(OSError):
        os.close(descriptor)


@in_forked_children
def _close_inherited() -> None:
    """Close all locks in a forked child."""
    while _descriptors:
        _, descriptor = _descriptors.popitem()
        with suppress(OSError):
            os.close(descriptor)


def _in_use(path: Path, what: str) -> NameInUse:
    holder = _holder(path)
    host, process = holder.get("host"), holder.get("process")
    if not isinstance(host, str) or not isinstance(process, int):
        host = process = None
        who = "another process"
    else:
        here = (host, process) == (platform.node(), os.getpid())
        who = f"{'this process, ' if here else 'process '}{process} on {shorten(host)},"
        who += f" since {shorten(holder.get('since'))}"
    return NameInUse(
        f"{what} is being written by {who}; only one loop at a time writes a name: close or end "
        "that one, choose another name, or let the ranks of one job say rank and ranks",
        host,
        process,
    )


def _holder(path: Path) -> dict[str, Any]:
    """The data that the holder of the lock has written into the file; empty if unreadable."""
    with suppress(OSError, ValueError, RecursionError):
        descriptor = os.open(path, os.O_RDONLY | LOOK)
        try:
            found = json.loads(os.read(descriptor, MOST_BYTES))
        finally:
            os.close(descriptor)
        if isinstance(found, dict):
            return found
    return {}


def _warn_once(folder: Path, error: OSError) -> None:
    if folder in _warned:
        return
    _warned.add(folder)
    warnings.warn(
        f"nothing in {folder} can be locked ({error.strerror}), so a second writer would not be "
        "noticed; see to it that only one process at a time writes a name",
        RuntimeWarning,
        stacklevel=7,
    )
