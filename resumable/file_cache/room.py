"""What the parts in a folder may take in all, for all processes that use it."""

# The number of bytes in use stands in a file, which is changed under a lock. It is raised before a part
# is written and lowered after one was removed, so a process that is killed leaves it too large, never
# too small. Whoever finds no room looks at all files, and sets it right.

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple, TypeAlias, final

from ..core.file_locks import lock, unlock
from ..core.regular_files import STRICT
from .claim import remove_if_dead
from .copy_file import COPY, check_own_copy, remove_copy
from .part_file import HEADER, WHOLE, ForeignFile, PartFile, PartName, found_name

FLAGS: Final = os.O_RDWR | os.O_CREAT | STRICT
IN_USE: Final = ".in-use"
FOLDER: Final = re.compile("[0-9a-f]{2}")
COPY_NAME: Final = re.compile(r"([0-9a-f]{32})(\.copy|\.copy\.tmp)")
DIGITS: Final = 20

SPARE: Final = 64
"""The share of the room that is emptied at once."""

PATIENCE: Final = 10.0
"""Seconds to wait for a process that holds the lock, and seems to be stopped."""


class KeptPart(NamedTuple):
    """A part in the folder, or a copy of a whole file.

    Attributes:
      name: which.
      path: its file.
      size: of the file, in bytes.
      used_ns: when it was used last, in nanoseconds since the epoch of Unix.
    """

    name: PartName
    path: str
    size: int
    used_ns: int

    @property
    def is_whole(self) -> bool:
        """Whether it is a copy of a whole file."""
        return self.name.number == WHOLE

    def remove(self) -> bool:
        """Remove it, unless it is something else that has only the name; whether it is removed."""
        if self.is_whole:
            return remove_copy(self.path)
        # The system cannot compare and remove in one call, so nothing stands between the two.
        try:
            PartFile.check_own(self.path)
        except (ForeignFile, OSError):
            return False
        with suppress(FileNotFoundError):
            os.unlink(self.path)
        return True


Victims: TypeAlias = Callable[[Sequence[KeptPart]], Sequence[KeptPart]]
"""Chooses parts that may be removed; the first ones first."""


class NoRoom(Exception):
    """There is no room for a part, and nothing that may be removed for it."""


@final
class Room:
    """The room in a folder.

    Args:
      folder: of the cache; it exists.
      most: bytes that all parts may take, with their headers.
    """

    def __init__(self, folder: str, most: int) -> None:
        self._folder = folder
        self._most = most

    def reserve(self, size: int, victims: Victims, take: Callable[[], None]) -> None:
        """Take room for a part of ``size`` bytes; removes ``victims`` as far as they are needed.

        Args:
          size: of the part.
          victims: chooses what may be removed.
          take: called when there is room; lets the unfinished file of the part have its size.

        Raises:
          NoRoom: if these are not enough, or another process does not let go of the lock.
          OSError: if the folder cannot be written to.
        """
        needed = HEADER.size + size
        with self._in_use() as (used, write):
            if used + needed > self._most:
                parts, unfinished = kept_parts(self._folder)
                used = unfinished + sum(part.size for part in parts)
                if used + needed > self._most:
                    # A little more, since looking at all files takes longer than fetching a part.
                    most = self._most - max(needed, self._most // SPARE)
                    chosen = victims(parts)
                    if used - sum(part.size for part in chosen) + needed <= self._most:
                        used = self._remove(chosen, used, most)
            if used + needed > self._most:
                write(used)
                raise NoRoom
            write(used + needed)
            take()

    def release(self, size: int) -> None:
        """Give back what was reserved for a part that was not written."""
        with suppress(NoRoom, OSError), self._in_use() as (used, write):
            write(max(used - HEADER.size - size, 0))

    def has_room(self, size: int) -> bool:
        """Whether there seems to be room without removing anything."""
        try:
            with open(os.path.join(self._folder, IN_USE), "rb") as file:
                return int(file.read(DIGITS) or 0) + HEADER.size + size <= self._most
        except (OSError, ValueError):
            return True

    @staticmethod
    def _remove(victims: Sequence[KeptPart], used: int, most: int) -> int:
        for part in victims:
            if used <= most:
                break
            if part.remove():
                used -= part.size
        return used

    @contextmanager
    def _in_use(self) -> Iterator[tuple[int, Callable[[int], None]]]:
        """The number of bytes in use, and a function that sets it, under the lock."""
        descriptor = os.open(os.path.join(self._folder, IN_USE), FLAGS, 0o666)
        try:
            _wait_for(descriptor)
            try:
                digits = os.read(descriptor, DIGITS)
                # What is no number was not written here, or not to its end.
                used = int(digits) if digits.isdigit() else self._most

                def write(number: int) -> None:
                    os.lseek(descriptor, 0, os.SEEK_SET)
                    os.write(descriptor, str(number).zfill(DIGITS).encode())

                yield used, write
            finally:
                unlock(descriptor)
        finally:
            os.close(descriptor)


def _found_copy(file_name: str) -> tuple[PartName, bool] | None:
    """The copy that a file of this name is, and whether it is finished; None if it is none."""
    match = COPY_NAME.fullmatch(file_name)
    return None if match is None else (PartName(match[1], WHOLE), match[2] == COPY)


def _wait_for(descriptor: int) -> None:
    deadline, pause = time.monotonic() + PATIENCE, 1e-4
    while True:
        try:
            return lock(descriptor)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise NoRoom from None
            time.sleep(pause)
            pause = min(2 * pause, 0.02)


def part_folders(folder: str) -> list[str]:
    """The folders in which parts lie."""
    with os.scandir(folder) as entries:
        return [entry.path for entry in entries if FOLDER.fullmatch(entry.name) and entry.is_dir()]


def kept_parts(folder: str) -> tuple[list[KeptPart], int]:
    """The parts in ``folder``, and the bytes of those that are being fetched.

    What processes that have ended left unfinished is removed.
    """
    parts, unfinished = list[KeptPart](), 0
    for path in part_folders(folder):
        with suppress(FileNotFoundError), os.scandir(path) as entries:
            for entry in entries:
                found = found_name(entry.name) or _found_copy(entry.name)
                if found is None or not entry.is_file(follow_symlinks=False):
                    continue
                with suppress(FileNotFoundError):
                    status = entry.stat(follow_symlinks=False)
                    name, finished = found
                    check_own = check_own_copy if name.number == WHOLE else None
                    if finished:
                        kept = KeptPart(name, entry.path, status.st_size, status.st_atime_ns)
                        parts.append(kept)
                    elif not remove_if_dead(entry.path, check_own):
                        unfinished += status.st_size
    return parts, unfinished
