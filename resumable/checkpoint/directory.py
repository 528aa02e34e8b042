"""Checkpoints as files of one directory."""

# The commit: write under a temporary name in the same directory, fsync the file, rename it to a
# name that no file has, fsync the directory. Only then is the save acknowledged. A crash at any
# moment leaves either no file of the new name or a complete one.

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final, final

from ..errors import CorruptCheckpoint, InvalidArgument, InvalidType
from .store import Store

__all__ = ["Directory"]

SUFFIX: Final = ".ckpt"
LARGEST_FILE: Final = 1 << 32
NOT_A_FILE: Final = (errno.ELOOP, errno.EMLINK, errno.ENXIO, errno.EISDIR)
NO_FOLLOW: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
BINARY: Final = getattr(os, "O_BINARY", 0)


@final
class Directory(Store):
    """Files ``{name}-{step:012d}.ckpt`` in ``folder``, which is made if it is not there.

    Several names share a folder without touching each other's files.

    Args:
      folder: path of the directory.
      name: letters, digits, ``_`` and ``.``, not starting with a dot.

    Raises:
      InvalidArgument: if ``name`` has other characters.
      OSError: if the folder cannot be made.
    """

    def __init__(self, folder: str | os.PathLike[str], name: str = "input") -> None:
        if not isinstance(folder, (str, os.PathLike)):
            raise InvalidType(f"folder must be a path, got {folder!r}")
        if not isinstance(name, str):
            raise InvalidType(f"name must be a string, got {name!r}")
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.]*", name):
            raise InvalidArgument(
                f"name must be letters, digits, '_' and '.', not starting with '.', got {name!r}"
            )
        self.folder = Path(folder)
        self.name = name
        self._pattern = re.compile(rf"{re.escape(name)}-(\d{{12,}}){re.escape(SUFFIX)}")
        _make_durably(self.folder)

    def save(self, step: int, data: bytes) -> str:
        final = self._path(step)
        if os.path.lexists(final):
            raise FileExistsError(f"there is a checkpoint for step {step} already: {final}")
        temporary = self.folder / f".tmp-{self.name}-{secrets.token_hex(8)}"
        try:
            _write_durably(temporary, data)
            os.rename(temporary, final)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
        _sync_directory(self.folder)
        return str(final)

    def load(self, step: int) -> bytes:
        path = self._path(step)
        # O_NONBLOCK: opening a FIFO must not wait for a writer.
        flags = os.O_RDONLY | NO_FOLLOW | BINARY | getattr(os, "O_NONBLOCK", 0)
        try:
            descriptor = os.open(path, flags)
        except OSError as error:
            # Other errors, such as too many open files, say nothing about the checkpoint.
            if error.errno in NOT_A_FILE:
                raise CorruptCheckpoint("it is not a regular file") from error
            raise
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise CorruptCheckpoint("it is not a regular file")
            if status.st_size > LARGEST_FILE:
                raise CorruptCheckpoint(f"it has {status.st_size} bytes, too many for a checkpoint")
        except BaseException:
            os.close(descriptor)
            raise
        with open(descriptor, "rb") as file:
            try:
                return file.read()
            except OSError as error:
                if error.errno == errno.EIO:
                    raise CorruptCheckpoint("it cannot be read: input/output error") from error
                raise

    def steps(self) -> list[int]:
        found = []
        for name in os.listdir(self.folder):
            match = self._pattern.fullmatch(name)
            if match and name == self._path(int(match[1])).name:
                found.append(int(match[1]))
        return sorted(found)

    def set_aside(self, step: int, reason: str) -> str:
        path = self._path(step)
        for number in range(1000):
            aside = path.with_name(f"{path.name}.{reason}" + (f".{number}" if number else ""))
            if not os.path.lexists(aside):
                os.rename(path, aside)
                _sync_directory(self.folder)
                return str(aside)
        raise FileExistsError(f"too many files were set aside for {path}")

    def has_damaged(self) -> bool:
        pattern = re.compile(self._pattern.pattern + r"\.damaged(\.\d+)?")
        return any(pattern.fullmatch(name) for name in os.listdir(self.folder))

    def __repr__(self) -> str:
        return f"Directory({str(self.folder)!r}, name={self.name!r})"

    def _path(self, step: int) -> Path:
        return self.folder / f"{self.name}-{step:012d}{SUFFIX}"


def _write_durably(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_FOLLOW | BINARY, 0o666)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _make_durably(folder: Path) -> None:
    """Make ``folder`` and its parents, such that a power cut does not take them away."""
    if folder.is_dir():
        return
    _make_durably(folder.parent)
    folder.mkdir(exist_ok=True)
    _sync_directory(folder.parent)


def _sync_directory(folder: Path) -> None:
    if os.name == "nt":  # directories cannot be opened there
        return
    descriptor = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
