"""The limit on the bytes of all parts in a folder, for all processes that use the folder."""

# A file has the number of bytes in use, and is changed under a lock. The number is raised before a
# part is written and lowered after a part was removed, so a killed process leaves the number too
# large, never too small. A process without room looks at all files, and corrects the number.

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple, TypeAlias, final

from ..core.file_locks import close_locked, open_locked
from .claim import remove_if_dead
from .copy_file import check_own_copy, remove_copy
from .part_file import HEADER, WHOLE, ForeignFile, PartFile, PartName, found_name

IN_USE: Final = ".in-use"
FOLDER: Final = re.compile("[0-9a-f]{2}")
DIGITS: Final = 20

SPARE: Final = 64
"""At least this fraction of the room, one 64th, is emptied at once."""

PATIENCE: Final = 10.0
"""Seconds to wait for the lock before its process is taken to be stopped."""


class KeptPart(NamedTuple):
    """A part in the folder, or a copy of a whole file.

    Attributes:
      name: of the part.
      path: of the file.
      size: of the file, in bytes.
      used_ns: time of the last use, in nanoseconds since the epoch of Unix.
    """

    name: PartName
    path: str
    size: int
    used_ns: int

    @property
    def is_whole(self) -> bool:
        """Whether this is a copy of a whole file."""
        return self.name.number == WHOLE

    def remove(self) -> bool:
        """Remove the file if a cache has written the file; returns whether."""
        if self.is_whole:
            return remove_copy(self.path)
        # The system cannot check and remove in one call, so the two calls follow each other
        # directly.
        try:
            PartFile.check_own(self.path)
        except (ForeignFile, OSError):
            return False
        with suppress(FileNotFoundError):
            os.unlink(self.path)
        return True


Victims: TypeAlias = Callable[[Sequence[KeptPart]], Sequence[KeptPart]]
"""Returns the parts that may be removed, in the order of removal."""


class NoRoom(Exception):
    """There is no room for a part, even without all removable parts."""


@final
class Room:
    """The room in a folder.

    Args:
      folder: of the cache; it exists.
      most: limit on the bytes of all parts, with their headers.
    """

    def __init__(self, folder: str, most: int) -> None:
        self._folder = folder
        self._most = most

    def reserve(self, size: int, victims: Victims, take: Callable[[], None]) -> None:
        """Reserve room for a part of ``size`` bytes; removes as many ``victims`` as necessary.

        Args:
          size: of the part.
          victims: chooses the parts that may be removed.
          take: called when there is room; gives the unfinished file the size of the part.

        Raises:
          NoRoom: if the victims are not enough, or another process does not release the lock.
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
        """Return the room of a part that was not written."""
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
        """The number of bytes in use, and a function to set the number, under the lock."""
        path = os.path.join(self._folder, IN_USE)
        deadline, pause = time.monotonic() + PATIENCE, 1e-4
        while (descriptor := open_locked(path)) is None:
            if time.monotonic() > deadline:
                raise NoRoom
            time.sleep(pause)
            pause = min(2 * pause, 0.02)
        try:
            digits = os.read(descriptor, DIGITS)
            # Other text comes from another program, or from an interrupted write.
            used = int(digits) if digits.isdigit() else self._most

            def write(number: int) -> None:
                os.lseek(descriptor, 0, os.SEEK_SET)
                os.write(descriptor, str(number).zfill(DIGITS).encode())

            yield used, write
        finally:
            close_locked(descriptor)


def part_folders(folder: str) -> list[str]:
    """The folders with parts."""
    with os.scandir(folder) as entries:
        return [entry.path for entry in entries if FOLDER.fullmatch(entry.name) and entry.is_dir()]


def kept_parts(folder: str) -> tuple[list[KeptPart], int]:
    """The finished parts in ``folder``, and the bytes of unfinished parts.

    Unfinished files of ended processes are removed.
    """
    parts, unfinished = list[KeptPart](), 0
    for path in part_folders(folder):
        with suppress(FileNotFoundError), os.scandir(path) as entries:
            for entry in entries:
                found = found_name(entry.name)
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
