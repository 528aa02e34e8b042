"""Where checkpoints are kept: one small interface."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod

from ..errors import InvalidArgument
from .ranks.part import WHOLE, RankPart


class StoreLock:
    """The lock of a writer; this base class is for a store without locks, and locks nothing."""

    @property
    def is_held(self) -> bool:
        """Whether other writers are kept out until `close`."""
        return False

    def close(self) -> None:
        """Release the lock; may be called again."""
        return

    def close_with(self, owner: object) -> None:
        """Release the lock when ``owner`` is garbage-collected, unless `close` has done so before."""
        # Not at the end of the process, when the owner may still be in use.
        weakref.finalize(owner, self.close).atexit = False


class Store(ABC):
    """A place for the bytes of checkpoints, by step.

    A checkpoint survives once `save` has returned. One loop at a time writes, and holds the lock
    returned by `lock`; any number of processes may read meanwhile. The methods are called by the
    loop and by its writer thread, one call at a time.

    >>> class Counted(rs.Store):  # hands everything on to another store
    ...     def __init__(self, store):
    ...         self.store, self.saves = store, 0
    ...     def save(self, step, data):
    ...         self.saves += 1
    ...         return self.store.save(step, data)
    ...     def load(self, step):
    ...         return self.store.load(step)
    ...     def steps(self):
    ...         return self.store.steps()
    ...     def remove(self, step):
    ...         self.store.remove(step)
    ...     def set_aside(self, step, reason):
    ...         return self.store.set_aside(step, reason)
    ...     def has_damaged(self):
    ...         return self.store.has_damaged()
    >>> store = Counted(rs.Memory())
    >>> with rs.Checkpointer(store, rs.EverySteps(2)) as checkpointer:
    ...     items = list(checkpointer.resume(rs.range(5)))
    >>> store.saves
    3
    """

    def lock(self) -> StoreLock:
        """Become the only writer, until the lock is closed or dropped, or the process ends.

        Raises:
          NameInUse: if another writer exists.
          OSError: if the system refuses.
        """
        return StoreLock()

    @abstractmethod
    def save(self, step: int, data: bytes) -> str:
        """Keep ``data`` as the checkpoint of ``step``; returns the path.

        The same bytes may be saved again, as an interrupt may have come before the first call
        returned. The second call then makes sure of the bytes.

        Args:
          step: at least 0.
          data: the checkpoint, some hundred bytes for most pipelines.

        Raises:
          FileExistsError: if ``step`` has other bytes; the stored bytes are left unchanged.
          OSError: if ``data`` cannot be kept. `steps` then does not list ``step``, unless the
            system refuses to remove the written file. The same save may be tried again in both
            cases.
        """

    @abstractmethod
    def load(self, step: int) -> bytes:
        """The bytes of the checkpoint of ``step``.

        Raises:
          FileNotFoundError: if ``step`` has no checkpoint.
          CorruptCheckpoint: if the stored object cannot be a checkpoint.
        """

    @abstractmethod
    def steps(self) -> list[int]:
        """The steps with a checkpoint, ascending."""

    @abstractmethod
    def remove(self, step: int) -> None:
        """Delete the checkpoint of ``step``.

        Raises:
          FileNotFoundError: if ``step`` has no checkpoint.
        """

    @abstractmethod
    def set_aside(self, step: int, reason: str) -> str:
        """Keep the checkpoint of ``step`` out of `steps` without deleting it; returns the new path.

        Args:
          step: an element of `steps`.
          reason: a single word, ``"damaged"`` or ``"superseded"``.
        """

    @abstractmethod
    def has_damaged(self) -> bool:
        """Whether a damaged checkpoint was set aside."""

    def remove_unfinished(self) -> None:
        """Delete the remains of interrupted saves; called by the writer alone."""
        return

    def append_history(self, lines: bytes) -> None:
        """Append ``lines`` to the history, for people; called by the writer alone.

        Each line is a JSON object with a change of the run. By default nothing is kept. The
        previous save is valid whatever the outcome; an error becomes a warning.

        Raises:
          OSError: if the lines cannot be kept.
        """
        return

    def history(self) -> bytes | None:
        """All lines kept by `append_history`, empty before the first.

        None if this store keeps no lines.

        Raises:
          OSError: if the history cannot be read.
        """
        return None

    def append_stats(self, lines: bytes) -> None:
        """Append ``lines`` to the stats, for people and plots; called by the writer.

        Each line is a JSON object with the stats of the run. By default nothing is kept. Lines of
        several ranks are kept apart. The lines need not survive a power cut, and an error becomes a
        warning.

        Raises:
          OSError: if the lines cannot be kept.
        """
        return

    # A store for parts saved by several ranks also has the following three methods.

    def part(self, part: RankPart) -> Store:
        """The store of the same name in which one rank saves ``part`` of each step.

        The methods of the new store concern ``part`` alone, except `has_damaged` and `parts`, which
        concern all parts. Its lock admits writers of the other parts, and keeps out writers of
        another number of parts.

        Raises:
          InvalidArgument: if this store keeps no parts.
        """
        if part != WHOLE:
            raise InvalidArgument(f"ranks must be 1, as {self!r} keeps no parts of checkpoints")
        return self

    def parts(self) -> list[tuple[int, RankPart]]:
        """Step and part of all stored checkpoints not set aside, in any order."""
        return [(step, WHOLE) for step in self.steps()]

    def sync(self) -> None:
        """Make everything listed by `parts` survive, also recent saves of other writers."""
        return
