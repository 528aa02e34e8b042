"""Checkpoints as files of one directory."""

# The commit: write under a temporary name in the same directory, fsync the file, link the file to
# its name (the system refuses a taken name), unlink the temporary name, fsync the directory. Only
# then is the save acknowledged. A crash at any moment leaves either no file of the new name or a
# complete one. A temporary file may be left too, and the next resume removes the temporary file.
#
# No other call is made, since each call releases the interpreter's lock, and the writing thread
# then waits for the lock while the loop computes. Anything else is looked up only after a call has
# failed.
#
# If a call fails, the commit is rolled back. If the system refuses the rollback too, or a second
# interrupt comes, the outcome is open: an unacknowledged whole checkpoint may exist. The next save
# of the step removes that checkpoint or makes sure of it.

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import final

from ..errors import InvalidArgument, InvalidType
from .files import (
    append_lines,
    file_identity,
    give_new_name,
    make_folders,
    read_checkpoint_file,
    read_regular_file,
    sync_folder,
    sync_if_equal,
    write_new_file,
)
from .locking import check_unlocked, lock_file
from .named_files import NamedFiles
from .ranks.part import WHOLE
from .store import StoreLock


@dataclass
class _Unacknowledged:
    """Files left by a save without an acknowledgement.

    Attributes:
      path: of the checkpoint.
      temporary: the path of the temporary file.
      named: whether the file surely has its name.
      written: the file's identity, once the identity had to be known.
    """

    path: Path
    temporary: Path
    named: bool = False
    written: tuple[int, int] | None = None


@final
class Directory(NamedFiles):
    """Files ``{name}-{step:012d}.ckpt`` in ``folder``, which is made if missing.

    The part of one of several ranks is ``{name}-{step:012d}.{run}-{rank:05d}-of-{ranks:05d}.ckpt``.
    Several names share a folder without touching each other's files. Permissions follow the umask.
    A file set aside gets the reason appended to its name.

    The changes of the run are in ``{name}-history.jsonl``, and its stats in ``{name}-stats.jsonl``,
    or ``{name}-{rank:05d}-of-{ranks:05d}-stats.jsonl``.

    The writer of a name locks the file ``.lock-{name}``. The system unlocks the file when the
    process ends. Where the file system has no locks, a RuntimeWarning says so, once for each
    folder, and a temporary file of an interrupted save stays.

    Args:
      folder: path of the directory; a relative path is resolved once, now.
      name: letters, digits, ``_`` and ``.``, not starting with a dot.

    Raises:
      InvalidArgument: if ``name`` has other characters, or ``folder`` is empty or a URL.
      InvalidType: if ``folder`` is not a path, or ``name`` not a string.
      OSError: if the folder cannot be made.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = rs.Directory(folder)
    ...     with rs.Checkpointer(store, rs.EverySteps(2)) as checkpointer:
    ...         items = list(checkpointer.resume(rs.range(5)))
    ...     store.steps()
    [2, 4, 5]
    """

    _in_doubt: _Unacknowledged | None

    def __init__(self, folder: str | os.PathLike[str], name: str = "input") -> None:
        if not isinstance(folder, (str, os.PathLike)):
            raise InvalidType(f"folder must be a path, got {folder!r}")
        if not os.fspath(folder) or "://" in os.fspath(folder):
            raise InvalidArgument(f"folder must be a path, got {folder!r}")
        # Absolute, so the folder stays the same when the process changes its working directory.
        self.folder = Path(folder).absolute()
        super().__init__(name)
        make_folders(self.folder)

    def lock(self) -> StoreLock:
        what = f"{self.name!r} in {self.folder}"
        part = self._names.part
        described = what if part == WHOLE else f"{what}, as {part},"
        lock = lock_file(self.folder / self._names.lock, described)
        try:
            # After our own lock: of two writers beginning at once, at least one then finds the lock
            # of the other.
            for file in filter(self._names.excludes, self._files()):
                check_unlocked(self.folder / file, f"{what}, by another number of ranks,")
        except BaseException:
            lock.close()
            raise
        return lock

    def save(self, step: int, data: bytes) -> str:
        path = self._path(step)
        if self._in_doubt is not None and self._in_doubt.path == path:
            self._roll_back()
        try:
            self._write_and_name(path, data)
        except FileExistsError:
            if not sync_if_equal(path, data):
                raise FileExistsError(
                    f"there is a checkpoint for step {step} already: {path}"
                ) from None
            sync_folder(self.folder)
        return str(path)

    def load(self, step: int) -> bytes:
        return read_checkpoint_file(self._path(step))

    def sync(self) -> None:
        sync_folder(self.folder)

    def remove(self, step: int) -> None:
        # Not synced: a power cut may leave one checkpoint more, never one fewer.
        os.unlink(self._path(step))

    def set_aside(self, step: int, reason: str) -> str:
        path = self._path(step)
        # An interrupted earlier attempt may have linked the file already.
        free = None, file_identity(path)

        def is_taken(name: str) -> bool:
            return file_identity(self.folder / name) not in free

        aside = self.folder / self._names.free_aside(step, reason, is_taken)
        give_new_name(path, aside)
        with suppress(FileNotFoundError):  # the file may have been renamed
            os.unlink(path)
        sync_folder(self.folder)
        return str(aside)

    def append_history(self, lines: bytes) -> None:
        append_lines(self.folder / self._names.history, lines)

    def append_stats(self, lines: bytes) -> None:
        append_lines(self.folder / self._names.stats, lines, sync=False)

    def history(self) -> bytes:
        try:
            return read_regular_file(self.folder / self._names.history)
        except FileNotFoundError:
            return b""

    def remove_unfinished(self) -> None:
        for file in self._files():
            if self._names.is_temporary(file):
                with suppress(OSError):  # a remaining file does no harm
                    os.unlink(self.folder / file)

    def __repr__(self) -> str:
        return f"Directory({str(self.folder)!r}, name={self.name!r})"

    def _files(self) -> list[str]:
        return os.listdir(self.folder)

    def _write_and_name(self, path: Path, data: bytes) -> None:
        left = _Unacknowledged(path, self.folder / self._names.new_temporary())
        self._in_doubt = left
        try:
            write_new_file(left.temporary, data)
            give_new_name(left.temporary, path)
            left.named = True
            with suppress(OSError):  # a remaining file does no harm
                os.unlink(left.temporary)
            sync_folder(self.folder)
        except BaseException:
            with suppress(OSError):
                self._roll_back()
            raise
        self._in_doubt = None

    def _roll_back(self) -> None:
        """Remove the files of the save in doubt."""
        left = self._in_doubt
        assert left is not None
        if left.written is None:
            left.written = file_identity(left.temporary)
        if left.written is None and left.named:
            left.written = file_identity(left.path)
        if left.written is not None and file_identity(left.path) == left.written:
            os.unlink(left.path)
        # Last, so until then no other file can be mistaken for the written file.
        with suppress(FileNotFoundError):
            os.unlink(left.temporary)
        self._in_doubt = None

    def _path(self, step: int) -> Path:
        return self.folder / self._names.of(step)
