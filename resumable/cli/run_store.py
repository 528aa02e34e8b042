"""The store of a run, as a command line names it."""

from __future__ import annotations

from pathlib import Path

from ..checkpoint.directory import Directory
from ..checkpoint.remote import Remote
from ..errors import InvalidArgument, NoValidCheckpoint
from .inspect import folders_below


def store_at(run: str, name: str | None) -> Directory | Remote:
    """The store of the only input at ``run``, or of the one that has this ``name``."""
    if "://" in run:
        store: Directory | Remote = Remote(run)
    elif Path(run).is_dir():
        store = Directory(run)
    else:
        raise InvalidArgument(f"RUN must be a folder of checkpoints or its URL, got {run}")
    names = store.names()
    if name in names:
        return store.named(name)
    of_that_name = "" if name is None else f" of {name}"
    if name is not None or not names:
        below = folders_below(Path(run)) if not names and "://" not in run else ""
        there = f", there are those of {', '.join(names)}" if names else below
        raise NoValidCheckpoint(f"there is no checkpoint{of_that_name} in {run}{there}")
    if len(names) > 1:
        raise InvalidArgument(
            f"{run} holds several inputs, choose one with --name: {', '.join(names)}"
        )
    return store.named(names[0])
