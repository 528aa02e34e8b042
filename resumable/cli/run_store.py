"""The store of a run, as a command line names it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..checkpoint.directory import Directory
from ..checkpoint.remote import Remote
from ..errors import InvalidArgument, NoValidCheckpoint
from .inspect import folders_below, why_no_folder


def store_at(run: str, name: str | None) -> Directory | Remote:
    """The store of the only input at ``run``, or of the one that has this ``name``."""
    if "://" in run:
        store: Directory | Remote = Remote(run)
    elif Path(run).is_dir():
        store = Directory(run)
    else:
        raise InvalidArgument(
            f"RUN must be a folder of checkpoints or its URL, got {run}{why_no_folder(run)}"
        )
    names = store.names()
    if name in names:
        return store.named(name)
    if name is not None or not names:
        raise none_there("there is no checkpoint", run, name, names)
    if len(names) > 1:
        raise InvalidArgument(
            f"{run} holds several inputs, choose one with --name: {', '.join(names)}"
        )
    return store.named(names[0])


def none_there(what: str, run: str, name: str | None, names: Sequence[str]) -> NoValidCheckpoint:
    """The error that says ``what`` of the input ``name`` in ``run``, which has those of ``names``."""
    of_that_name = "" if name is None else f" of {name}"
    below = folders_below(Path(run)) if not names and "://" not in run else ""
    there = f", there are those of {', '.join(names)}" if names else below
    return NoValidCheckpoint(f"{what}{of_that_name} in {run}{there}")
