"""The parts on the disk, and claims to add parts."""

from __future__ import annotations

import enum
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, final

from .claim import Claim
from .part_file import Content, ForeignFile, Identity, PartFile, PartName
from .room import NoRoom, Room, Victims


class DiskFailure(Exception):
    """The disk of the cache refused an operation; the cause is the error."""


class Refusal(enum.Enum):
    """Why a part cannot be claimed."""

    ELSEWHERE = enum.auto()
    """Another thread or process fetches the part, or has just fetched it."""

    NO_ROOM = enum.auto()
    """There is no room for the part, or a foreign file lies at its path."""


@contextmanager
def on_disk() -> Iterator[None]:
    """Raise errors of the system as `DiskFailure`."""
    try:
        yield
    except OSError as error:
        raise DiskFailure from error


@final
class PartStore:
    """The parts in ``folder``.

    Args:
      folder: of the cache.
      most: limit on the bytes of all parts.
    """

    def __init__(self, folder: str, most: int) -> None:
        self._folder: Final = folder
        self._room = Room(folder, most)
        self._most: Final = most
        # The identities of files known to be whole, by path, and the bytes added since this was
        # empty.
        self._checked: dict[str, Identity] = {}
        self._checked_bytes = 0

    def read(self, part: PartName, size: int, start: int, end: int) -> memoryview | None:
        """The bytes ``start`` to ``end`` of a part of ``size`` bytes; None if missing or damaged.

        Raises:
          DiskFailure: if the part cannot be read.
        """
        path = part.path(self._folder)
        with on_disk():
            try:
                opened = PartFile.opened(path)
            except ForeignFile:
                return None
            if opened is None:
                return None
            try:
                if self._checked.get(path) == opened.identity:
                    data = opened.read(start, end)
                else:
                    content = opened.read_whole(size)
                    data = None if content is None else content[start:end]
                if data is None:
                    self._checked.pop(path, None)
                    return None
                self._note_whole(path, opened.identity)
                opened.note_use()
            finally:
                opened.close()
        return data

    def has(self, part: PartName) -> bool:
        """Whether a file exists at the path of ``part``."""
        return os.path.exists(part.path(self._folder))

    def has_room(self, size: int) -> bool:
        """Whether there seems to be room for a part of ``size`` bytes."""
        return self._room.has_room(size)

    def claim(self, part: PartName, size: int, victims: Victims) -> Claim | Refusal:
        """Claim a missing part; ``victims`` are removed if there is no room.

        Raises:
          DiskFailure: if the unfinished file cannot be made.
        """
        path = part.path(self._folder)
        with on_disk():
            try:
                claim = Claim.of(path, size)
                if claim is None:
                    return Refusal.ELSEWHERE
            except ForeignFile:
                return Refusal.NO_ROOM
            try:
                if os.path.lexists(path):
                    PartFile.check_own(path)
                    if self.read(part, size, 0, 0) is not None:  # the part has come in the meantime
                        claim.give_up()
                        return Refusal.ELSEWHERE
                self._room.reserve(size, victims, claim.take_room)
                claim.release = self._room.release
            except (NoRoom, ForeignFile):
                claim.give_up()
                return Refusal.NO_ROOM
            except BaseException:
                claim.give_up()
                raise
        return claim

    def commit(self, claim: Claim, content: Content) -> None:
        """Add the claimed part, unless a foreign file has appeared at its path.

        Raises:
          DiskFailure: if the part cannot be written; then the claim is given up.
        """
        with suppress(ForeignFile), on_disk():
            # Parts written by this process need no verification.
            self._note_whole(claim.path, claim.commit(content))

    def end(self, claim: Claim, identity: Identity) -> None:
        """End the claim of a part that another process has written, with this ``identity``."""
        claim.end()
        self._note_whole(claim.path, identity)

    def _note_whole(self, path: str, identity: Identity) -> None:
        """Note that the file at ``path`` is whole as long as it has this ``identity``."""
        if self._checked.get(path) != identity:
            size = identity[2]
            self._checked_bytes += size
            if self._checked_bytes > self._most:
                # Not all of the files fit, so some are gone; the others are verified once more.
                self._checked.clear()
                self._checked_bytes = size
            self._checked[path] = identity
