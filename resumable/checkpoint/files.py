"""Files that survive a power cut, and safe reading of files that anybody may have written."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from io import BufferedReader
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO, Final

from ..core.regular_files import NO_FOLLOW, READ, STRICT, open_regular
from ..errors import CorruptCheckpoint
from .envelope import check_unread

# File systems without links report the lack by different errors.
NO_LINKS: Final = (
    *(errno.EPERM, errno.EACCES, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP),
    *(errno.EMLINK, errno.EXDEV, errno.EINVAL),
)
# Some file systems cannot sync a folder; nothing more can be done then.
CANNOT_SYNC: Final = (errno.EINVAL, errno.ENOTSUP)
# Windows syncs only files opened for writing.
SYNC: Final = READ | NO_FOLLOW | (os.O_RDWR if os.name == "nt" else 0)
# O_NONBLOCK: opening a FIFO must not wait for a reader.
APPEND: Final = os.O_RDWR | os.O_APPEND | os.O_CREAT | NO_FOLLOW | READ
CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | STRICT


def write_new_file(path: Path, data: bytes) -> None:
    """Write ``data`` to the new file ``path``, which must not exist, and to the disk."""
    descriptor = os.open(path, CREATE, 0o666)
    try:
        rest = memoryview(data)
        while rest:
            count = os.write(descriptor, rest)
            if count == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
            rest = rest[count:]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_if_new(path: Path, data: bytes) -> bool:
    """Write ``data`` to ``path`` and the disk, unless ``path`` exists; returns whether it wrote.

    The file appears whole. Several processes may call this at once: one of them writes.

    Raises:
      OSError: if the system refuses.
    """
    temporary = path.with_name(f".tmp-{token_hex(8)}-{path.name}")
    try:
        write_new_file(temporary, data)
        try:
            give_new_name(temporary, path)
        except FileExistsError:
            return False
        return True
    finally:
        temporary.unlink(missing_ok=True)
        sync_folder(path.parent)


def append_lines(path: Path, data: bytes, *, sync: bool = True) -> None:
    """Append whole lines ``data`` to the file ``path``; with ``sync``, write them to the disk.

    A missing file is made. A last line without an end is ended first, so only this line stays
    unreadable.

    Raises:
      FileExistsError: if ``path`` is not a regular file of JSON objects, one a line.
      OSError: if the system refuses; a part of ``data`` may be written.
    """
    descriptor = os.open(path, APPEND, 0o666)
    with open(descriptor, "rb", buffering=0) as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise FileExistsError(errno.EEXIST, "it must be a regular file", str(path))
        if status.st_size and file.read(1) != b"{":
            raise FileExistsError(errno.EEXIST, "it holds something else", str(path))
        if status.st_size:
            file.seek(-1, os.SEEK_END)
            data = data if file.read(1) == b"\n" else b"\n" + data
        if os.write(descriptor, data) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        if sync:
            os.fsync(descriptor)
    if sync and not status.st_size:
        sync_folder(path.parent)


def read_regular_file(path: Path) -> bytes:
    """The content of the file at ``path``.

    Raises:
      OSError: if the file cannot be read, or is no regular file.
    """
    with open_regular_file(path) as file:
        return file.read()


def open_regular_file(path: Path) -> BinaryIO:
    """The file at ``path``, opened for reading.

    Raises:
      OSError: if the file cannot be read, or is no regular file.
    """
    opened = open_regular(path, READ | NO_FOLLOW)
    if opened is None:
        raise OSError(f"{path}: it is not a regular file")
    return BufferedReader(opened[0])


def give_new_name(old: Path, new: Path) -> None:
    """Give the file ``old`` the name ``new``, which must be free; the name ``old`` may remain too.

    Raises:
      FileExistsError: if a file ``new`` exists; the file is left unchanged.
      OSError: if the system refuses the name.
    """
    if os.name == "nt":
        _rename(old, new)  # replaces no file on Windows
        return
    try:
        os.link(old, new, follow_symlinks=False)
    except OSError as error:
        named = file_identity(old)
        if named is not None and file_identity(new) == named:
            return  # over a network a reported failure may be a success
        if error.errno not in NO_LINKS:
            raise
        # Without a lock, another file may appear between these two calls.
        if file_identity(new) is not None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(new)) from None
        _rename(old, new)


def _rename(old: Path, new: Path) -> None:
    named = file_identity(old)
    try:
        os.rename(old, new)
    except OSError:
        if named is None or file_identity(new) != named:  # done all the same
            raise


def sync_if_equal(path: Path, data: bytes) -> bool:
    """Write ``path`` to the disk if it is a regular file with content ``data``; returns whether so.

    Raises:
      OSError: if the system cannot read the file, or cannot write to the disk.
    """
    opened = open_regular(path, SYNC)
    if opened is None:
        return False
    with BufferedReader(opened[0]) as file:
        if file.read(len(data) + 1) != data:
            return False
        os.fsync(file.fileno())
    return True


def file_identity(path: Path) -> tuple[int, int] | None:
    """Device and inode number of the file at ``path``, unique among existing files.

    None without a file.

    Raises:
      OSError: if the system does not report the numbers.
    """
    with suppress(FileNotFoundError):
        status = os.lstat(path)
        return status.st_dev, status.st_ino
    return None


def sync_folder(folder: Path) -> None:
    """Write the names of the files in ``folder`` to the disk."""
    if os.name == "nt":  # Windows cannot open folders
        return
    descriptor = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in CANNOT_SYNC:
            raise
    finally:
        os.close(descriptor)


def make_folders(folder: Path) -> None:
    """Make ``folder`` and its parents so they survive a power cut.

    Raises:
      OSError: if a folder cannot be made; FileExistsError if its name is taken.
    """
    if os.path.isdir(folder):
        # An earlier process may have been killed between making the folder and syncing the parent.
        with suppress(OSError):
            sync_folder(folder.parent)
        return
    if folder.parent != folder:  # equal for the root of a missing disk
        make_folders(folder.parent)
    made = _make_folder(folder)
    try:
        sync_folder(folder.parent)
    except BaseException:
        # So the next attempt makes and syncs the folder again.
        if made:
            with suppress(OSError):
                os.rmdir(folder)
        raise


def _make_folder(folder: Path) -> bool:
    """Whether this process made the folder, not another process meanwhile."""
    try:
        os.mkdir(folder)
    except FileExistsError:
        if not os.path.isdir(folder):
            raise
        return False
    return True


def read_checkpoint_file(path: Path) -> bytes:
    """The content of the regular file ``path``.

    Raises:
      FileNotFoundError: if the file does not exist.
      CorruptCheckpoint: if the file cannot be a checkpoint, or cannot be read.
      OSError: if the system refuses for a reason unrelated to the file.
    """
    opened = open_regular(path, READ | NO_FOLLOW)
    if opened is None:
        raise CorruptCheckpoint("it is not a regular file")
    raw, status = opened
    try:
        with BufferedReader(raw) as file:
            if check_unread(status.st_size, file.read):
                file.seek(0)
            return file.read(status.st_size)
    except OSError as error:
        if error.errno == errno.EIO:
            raise CorruptCheckpoint("it cannot be read: input/output error") from error
        raise
