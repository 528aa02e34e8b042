"""Find the checkpoint to resume from, past those that are damaged."""

from __future__ import annotations

import warnings
from contextlib import suppress

from ..errors import CorruptCheckpoint, NoValidCheckpoint
from .envelope import Checkpoint, decode
from .store import Store

__all__ = ["newest_valid", "read_checkpoint", "read_valid"]


def read_checkpoint(store: Store, step: int) -> Checkpoint:
    """The checkpoint of ``step``.

    Raises:
      FileNotFoundError: if there is none.
      CorruptCheckpoint: saying what is wrong with it.
      NewerFormat: if a later version of the library wrote it.
    """
    checkpoint = decode(store.load(step))
    if checkpoint.step != step:
        raise CorruptCheckpoint(f"it holds step {checkpoint.step}")
    return checkpoint


def read_valid(store: Store, step: int) -> Checkpoint:
    """The checkpoint of ``step``.

    Raises:
      NoValidCheckpoint: if there is none, or it is damaged.
    """
    try:
        return read_checkpoint(store, step)
    except FileNotFoundError as error:
        raise NoValidCheckpoint(
            f"there is no checkpoint for step {step}; there are {store.steps()}"
        ) from error
    except CorruptCheckpoint as error:
        raise NoValidCheckpoint(f"the checkpoint of step {step} is damaged: {error}") from error


def newest_valid(store: Store) -> Checkpoint | None:
    """The newest valid checkpoint; None if there is none yet.

    Damaged ones are set aside, with a warning each.

    Raises:
      NoValidCheckpoint: if there are checkpoints and all are damaged.
    """
    for step in reversed(store.steps()):
        # Another process, the one that writes, may remove an old one meanwhile.
        with suppress(FileNotFoundError):
            try:
                return read_checkpoint(store, step)
            except CorruptCheckpoint as error:
                aside = store.set_aside(step, "damaged")
                warnings.warn(
                    f"the checkpoint of step {step} is damaged: {error}; it was set aside as "
                    f"{aside}",
                    RuntimeWarning,
                    stacklevel=4,
                )
    if store.has_damaged():
        raise NoValidCheckpoint(
            f"every checkpoint of {store!r} is damaged; to start from the beginning, "
            "remove the files set aside"
        )
    return None
