"""Where checkpoints are kept: one small interface."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod


class StoreLock:
    """What a writer holds; of a store that has no locks, nothing."""

    @property
    def is_held(self) -> bool:
        """Whether no other writer can come before `close`."""
        return False

    def close(self) -> None:
        """Let go of it; may be called again."""
        return

    def close_with(self, owner: object) -> None:
        """Let go of it at the latest when ``owner`` is dropped, and hold it until then."""
        # As the process ends, the owner may still be in use.
        weakref.finalize(owner, self.close).atexit = False


class Store(ABC):
    """Bytes by step. What `save` acknowledges by returning survives; what it does not may not.

    One loop at a time writes, and holds what `lock` returns; any number may read meanwhile. The loop
    and a thread of its own, which writes, call the methods, one at a time.
    """

    def lock(self) -> StoreLock:
        """Become the one who writes, until the returned lock is closed, dropped or the process ends.

        Raises:
          NameInUse: if there is one already.
          OSError: if the system refuses.
        """
        return StoreLock()

    @abstractmethod
    def save(self, step: int, data: bytes) -> str:
        """Keep ``data`` as the checkpoint of ``step``; returns where.

        To save the same bytes again is to make sure of them: an interrupt may have come before the
        first time was acknowledged.

        Raises:
          FileExistsError: if there are other bytes for ``step``; they are left as they are.
          OSError: if it cannot be kept; no part of it is then found by `steps`, unless the
            system refuses to take it back too. Saving again is right in either case.
        """

    @abstractmethod
    def load(self, step: int) -> bytes:
        """The bytes of the checkpoint of ``step``.

        Raises:
          FileNotFoundError: if there is none.
          CorruptCheckpoint: if what is there cannot be a checkpoint.
        """

    @abstractmethod
    def steps(self) -> list[int]:
        """The steps there are checkpoints for, ascending."""

    @abstractmethod
    def remove(self, step: int) -> None:
        """Delete the checkpoint of ``step``.

        Raises:
          FileNotFoundError: if there is none.
        """

    @abstractmethod
    def set_aside(self, step: int, reason: str) -> str:
        """Keep the checkpoint of ``step`` out of `steps` without deleting it; returns where.

        Args:
          step: one of `steps`.
          reason: one word, ``"damaged"`` or ``"superseded"``.
        """

    @abstractmethod
    def has_damaged(self) -> bool:
        """Whether a damaged checkpoint was set aside."""

    def remove_unfinished(self) -> None:
        """Delete what saves that were cut short have left; called by the one whose lock is held."""
        return
