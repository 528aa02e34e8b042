"""Find the checkpoint to resume from, and pass over damaged ones."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

from ..errors import CorruptCheckpoint, NewerFormat, NoValidCheckpoint
from .envelope import Checkpoint, decode
from .ranks.part import WHOLE
from .store import Store

T = TypeVar("T")


def read_checkpoint(store: Store, step: int) -> Checkpoint:
    """The checkpoint of ``step``.

    Raises:
      FileNotFoundError: if ``step`` has no checkpoint.
      CorruptCheckpoint: if the checkpoint is damaged; the message says how.
      NewerFormat: if a later version of the library wrote the checkpoint.
    """
    checkpoint = decode_named(f"the checkpoint of step {step} in {store!r}", store.load(step))
    if checkpoint.step != step:
        raise CorruptCheckpoint(f"it holds step {checkpoint.step}")
    if checkpoint.part != WHOLE:
        raise CorruptCheckpoint(f"it holds the part of {checkpoint.part}")
    return checkpoint


def decode_named(name: str, data: bytes) -> Checkpoint:
    """The checkpoint in the bytes ``data``.

    Raises:
      CorruptCheckpoint: if ``data`` is damaged.
      NewerFormat: if a later version of the library wrote ``data``; the message begins with
        ``name``.
    """
    try:
        return decode(data)
    except NewerFormat as error:
        raise NewerFormat(
            f"{name} was written by a later version of the library: {error}"
        ) from None


def read_valid(store: Store, step: int) -> Checkpoint:
    """The checkpoint of ``step``.

    Raises:
      NoValidCheckpoint: if ``step`` has no checkpoint, or a damaged checkpoint.
    """
    try:
        return read_checkpoint(store, step)
    except FileNotFoundError as error:
        raise NoValidCheckpoint(
            f"there is no checkpoint for step {step}, there are {store.steps() or 'none'}; was "
            "the model saved before the input, or did a retention remove it?"
        ) from error
    except CorruptCheckpoint as error:
        raise NoValidCheckpoint(f"the checkpoint of step {step} is damaged: {error}") from error


def newest_valid(store: Store, *, set_aside: bool = False) -> Checkpoint | None:
    """The newest valid checkpoint; None if the store has no checkpoint.

    Args:
      store: of the checkpoints.
      set_aside: whether to set damaged checkpoints aside; only the writer may do so. Each damaged
        checkpoint gives a warning in either case.

    Raises:
      NoValidCheckpoint: if checkpoints exist and all are damaged.
    """
    return newest_readable(store, partial(read_checkpoint, store), set_aside=set_aside)


def newest_readable(store: Store, read: Callable[[int], T], *, set_aside: bool = False) -> T | None:
    """The result of ``read`` for the newest readable step; as `newest_valid`.

    Args:
      store: of the checkpoints.
      read: called with a step; raises CorruptCheckpoint for a damaged checkpoint, and
        FileNotFoundError for a removed one.
      set_aside: as in `newest_valid`.
    """
    damaged: set[int] = set()
    vanished: set[int] = set()
    # Listed again each time: the writer may save a new checkpoint and remove an old one meanwhile.
    while steps := set(store.steps()) - damaged - vanished:
        step = max(steps)
        try:
            return read(step)
        except FileNotFoundError:
            vanished.add(step)
        except CorruptCheckpoint as error:
            damaged.add(step)
            what_was_done = _set_aside(store, step) if set_aside else "it was passed over"
            message = f"the checkpoint of step {step} is damaged: {error}; {what_was_done}"
            warnings.warn(message, RuntimeWarning, stacklevel=6 if set_aside else 4)
    if damaged or store.has_damaged():
        raise NoValidCheckpoint(
            f"every checkpoint of {store!r} is damaged; to start from the beginning, "
            "remove the damaged files"
        )
    return None


def supersede_after(store: Store, step: int) -> None:
    """Set aside the checkpoints after ``step``, since the run resumes from ``step``."""
    # The newest first: if an interrupt comes, the remaining checkpoints have no gap.
    for later in reversed(store.steps()):
        if later > step:
            with suppress(FileNotFoundError):  # another process of the run may do the same
                store.set_aside(later, "superseded")


def _set_aside(store: Store, step: int) -> str:
    try:
        return f"it was set aside as {store.set_aside(step, 'damaged')}"
    except OSError as error:
        return f"it could not be set aside ({error}), and was passed over"
