"""Where checkpoints are kept: one small interface."""

from __future__ import annotations

from abc import ABC, abstractmethod


class Store(ABC):
    """Bytes by step. What `save` acknowledges by returning survives; what it does not may not.

    One process at a time writes; any number may read meanwhile.
    """

    @abstractmethod
    def save(self, step: int, data: bytes) -> str:
        """Keep ``data`` as the checkpoint of ``step``; returns where.

        Raises:
          FileExistsError: if there is one for ``step`` already; it is left as it is.
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
        """Delete what saves that were cut short have left; called by the one who will write."""
        return
