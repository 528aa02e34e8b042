"""Where checkpoints are kept: one small interface."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod

from ..errors import InvalidArgument
from .ranks.part import WHOLE, RankPart


class StoreLock:
    """What a writer holds; this one is for a store without locks, and locks nothing."""

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
    """Where the bytes of checkpoints are kept, by their step.

    A checkpoint survives once `save` has returned. One loop at a time writes, and holds the lock that
    `lock` returns; any number of processes may read meanwhile. The methods are called by the loop and
    by its thread that writes, one call at a time.

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
        """Become the only writer, until the returned lock is closed or dropped, or the process ends.

        Raises:
          NameInUse: if there is a writer already.
          OSError: if the system refuses.
        """
        return StoreLock()

    @abstractmethod
    def save(self, step: int, data: bytes) -> str:
        """Keep ``data`` as the checkpoint of ``step``; returns where.

        The same bytes may be saved again, as an interrupt may have come before the first call
        returned. The second call then makes sure of them.

        Args:
          step: at least 0.
          data: the checkpoint, some hundred bytes for most pipelines.

        Raises:
          FileExistsError: if there are other bytes for ``step``; they are left as they are.
          OSError: if ``data`` cannot be kept. `steps` does not list ``step`` then, unless the system
            refuses to remove what was written. The same save may be tried again in both cases.
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
        """The steps that have a checkpoint, ascending."""

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
        """Delete what interrupted saves have left behind; called by the writer alone."""
        return

    def append_history(self, lines: bytes) -> None:
        """Keep ``lines`` behind those that were kept before, for people; called by the writer alone.

        Each is a JSON object that says what was changed in the run. By default they are not kept. The save
        before is valid whatever comes of this; an error becomes a warning.

        Raises:
          OSError: if they cannot be kept.
        """
        return

    def history(self) -> bytes | None:
        """All that `append_history` has kept, nothing yet if it is empty; None if this store keeps none.

        Raises:
          OSError: if it cannot be read.
        """
        return None

    def append_stats(self, lines: bytes) -> None:
        """Keep ``lines`` behind those that were kept before, for people and their plots; called by the writer.

        Each is a JSON object that says how the run is doing. By default they are not kept. Those of several
        ranks are kept apart. They need not survive a power cut, and an error becomes a warning.

        Raises:
          OSError: if they cannot be kept.
        """
        return

    # A store in which several ranks save parts of a step also has these three.

    def part(self, part: RankPart) -> Store:
        """The store of the same name in which one rank saves ``part`` of each step.

        Its methods concern that part alone, except `has_damaged` and `parts`, which concern all. Its lock
        admits writers of the other parts, and keeps out writers of another number of parts.

        Raises:
          InvalidArgument: if this store keeps no parts.
        """
        if part != WHOLE:
            raise InvalidArgument(f"ranks must be 1, as {self!r} keeps no parts of checkpoints")
        return self

    def parts(self) -> list[tuple[int, RankPart]]:
        """Step and part of all that is there and was not set aside, in any order."""
        return [(step, WHOLE) for step in self.steps()]

    def sync(self) -> None:
        """Make all that `parts` has listed survive, also what the writers of other parts have just saved."""
        return
