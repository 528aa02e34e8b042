"""Checkpoints as files of one directory."""

# The commit: write under a temporary name in the same directory, fsync the file, rename it to a
# name that no file has, fsync the directory. Only then is the save acknowledged. A crash at any
# moment leaves either no file of the new name or a complete one.
#
# If a call fails, what was done is taken back. Only when the system refuses that too is the
# outcome open: the checkpoint may be found, and then it is whole, though nobody was told so. It
# is taken back when the same step is saved again.

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import final

from ..errors import InvalidArgument, InvalidType
from .files import file_identity, make_folders, read_checkpoint_file, sync_folder, write_new_file
from .names import CheckpointNames
from .store import Store


@final
class Directory(Store):
    """Files ``{name}-{step:012d}.ckpt`` in ``folder``, which is made if it is not there.

    Several names share a folder without touching each other's files. Permissions follow the
    umask. A file set aside gets the reason appended to its name.

    Args:
      folder: path of the directory; a relative one is that of now, wherever the process goes.
      name: letters, digits, ``_`` and ``.``, not starting with a dot.

    Raises:
      InvalidArgument: if ``name`` has other characters.
      OSError: if the folder cannot be made.
    """

    def __init__(self, folder: str | os.PathLike[str], name: str = "input") -> None:
        if not isinstance(folder, (str, os.PathLike)):
            raise InvalidType(f"folder must be a path, got {folder!r}")
        if not os.fspath(folder) or "://" in os.fspath(folder):
            raise InvalidArgument(f"folder must be a path, got {folder!r}")
        # Absolute, so that it stays where it is when the process goes elsewhere.
        self.folder = Path(folder).absolute()
        self._names = CheckpointNames(name)
        # What a save that failed may have left, and by what it is known.
        self._in_doubt: tuple[Path, tuple[int, int]] | None = None
        make_folders(self.folder)

    @property
    def name(self) -> str:
        """The name of the input."""
        return self._names.name

    def save(self, step: int, data: bytes) -> str:
        path = self._path(step)
        if self._in_doubt is not None and self._in_doubt[0] == path:
            self._take_back()
        if file_identity(path) is not None:
            raise FileExistsError(f"there is a checkpoint for step {step} already: {path}")
        temporary = self.folder / self._names.new_temporary()
        written = None
        try:
            written = write_new_file(temporary, data)
            os.rename(temporary, path)
            sync_folder(self.folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            # A rename may have failed by what it reported only.
            if written is not None:
                self._in_doubt = path, written
                with suppress(OSError):
                    self._take_back()
            raise
        return str(path)

    def load(self, step: int) -> bytes:
        return read_checkpoint_file(self._path(step))

    def steps(self) -> list[int]:
        return self._names.steps_among(os.listdir(self.folder))

    def remove(self, step: int) -> None:
        # Not synced: after a power cut there may be one checkpoint more, never one fewer.
        os.unlink(self._path(step))

    def set_aside(self, step: int, reason: str) -> str:
        def is_taken(name: str) -> bool:
            return file_identity(self.folder / name) is not None

        aside = self.folder / self._names.free_aside(step, reason, is_taken)
        os.rename(self._path(step), aside)
        sync_folder(self.folder)
        return str(aside)

    def has_damaged(self) -> bool:
        return any(self._names.is_aside(file, "damaged") for file in os.listdir(self.folder))

    def remove_unfinished(self) -> None:
        for file in os.listdir(self.folder):
            if self._names.is_temporary(file):
                with suppress(OSError):  # what is left is in nobody's way
                    os.unlink(self.folder / file)

    def __repr__(self) -> str:
        return f"Directory({str(self.folder)!r}, name={self.name!r})"

    def _take_back(self) -> None:
        assert self._in_doubt is not None
        path, written = self._in_doubt
        if file_identity(path) == written:
            os.unlink(path)
        self._in_doubt = None

    def _path(self, step: int) -> Path:
        return self.folder / self._names.of(step)
