"""The folders, stores and inputs named by a command line."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ..checkpoint.directory import Directory
from ..checkpoint.remote import Remote
from ..errors import InvalidArgument, NoValidCheckpoint


def store_at(run: str, name: str | None) -> Directory | Remote:
    """The store of the only input at ``run``, or of the input ``name``."""
    if "://" in run:
        store: Directory | Remote = Remote(run)
    else:
        store = Directory(folder_at(run, "RUN must be a folder of checkpoints or its URL"))
    names = store.names()
    if not names or name not in (None, *names):
        raise none_there("there is no checkpoint", run, name, names)
    return store.named(chosen_name(run, names) if name is None else name)


def chosen_name(place: str | Path, names: Sequence[str]) -> str:
    """The name of the only input at ``place``; with several inputs the user must choose."""
    if len(names) > 1:
        raise InvalidArgument(
            f"{place} holds several inputs, choose one with --name: {', '.join(names)}"
        )
    return names[0]


def none_there(what: str, run: str, name: str | None, names: Sequence[str]) -> NoValidCheckpoint:
    """The error ``what`` for the input ``name`` in ``run``; ``names`` are the existing inputs."""
    of_that_name = "" if name is None else f" of {name}"
    below = folders_below(Path(run)) if not names and "://" not in run else ""
    there = f", there are those of {', '.join(names)}" if names else below
    return NoValidCheckpoint(f"{what}{of_that_name} in {run}{there}")


def folder_at(path: str, rule: str) -> Path:
    """The folder at ``path`` on this machine; else raise an error beginning with ``rule``."""
    if os.path.isdir(path):
        return Path(path)
    why = ", which is no folder" if os.path.lexists(path) else ", which is not there"
    raise InvalidArgument(f"{rule}, got {path}{'' if '://' in path else why}")


def folders_below(folder: Path) -> str:
    """The end of a message: the folders in ``folder``, or a hint at checkpoints of torch."""
    folders = sorted(entry.name for entry in folder.iterdir() if entry.is_dir())
    looked = (folder, *map(folder.joinpath, folders[:10]))
    if written := [one for one in looked if (one / ".metadata").is_file()]:
        return (
            f"; {written[0]} was written by torch.distributed.checkpoint, and only dcp.load can read it. To use this "
            "command, save the input with a Checkpointer, whose listener can call dcp.save: see "
            "docs/frameworks/pytorch-savers.md"
        )
    return f"; its folders are {', '.join(folders[:10])}" if folders else ""
