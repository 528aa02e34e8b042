"""Write the state of an input into a folder that Orbax commits, and read the state back."""

from __future__ import annotations

import os
from pathlib import Path

import jax
from etils import epath

from resumable.checkpoint.files import write_if_new
from resumable.checkpoint.input_folder import (
    InputFile,
    SavedInput,
    check_same,
    input_file,
    is_input_file,
    saved_input,
    state_for_process,
)
from resumable.checkpoint.saveable_input import SaveableInput
from resumable.core.stage import Stage
from resumable.state.value import State

__all__ = ["read_input", "read_state", "take_file", "write_file"]


def take_file(saveable: SaveableInput, primary: int | None) -> InputFile | None:
    """The process's file for the current state of the input; None if another process writes.

    Args:
      saveable: the input.
      primary: number of the process that writes a state equal on all processes; None if each
        process has a separate storage, and so writes every file it needs.
    """
    process, count = jax.process_index(), jax.process_count()
    file = input_file(saveable.iterator, saveable.get_state, saveable.step, process, count)
    return file if not file.is_shared or primary in (None, process) else None


def write_file(folder: epath.Path, file: InputFile | None) -> None:
    """Write ``file`` into ``folder``, which exists, and to the disk.

    Two processes that share a rank may write the same file.

    Raises:
      StateMismatch: if another process has written another state into the file.
      OSError: if the system refuses.
    """
    if file is None:
        return
    if "://" in os.fspath(folder):  # an object appears whole or not at all
        if (folder / file.name).exists():
            check_same(file, (folder / file.name).read_bytes(), os.fspath(folder))
        (folder / file.name).write_bytes(file.data)
        return
    place = Path(folder) / file.name
    if not write_if_new(place, file.data):
        check_same(file, place.read_bytes(), os.fspath(folder))


def read_input(folder: epath.Path) -> SavedInput:
    """The saved input in ``folder``.

    Raises:
      NoValidCheckpoint: if ``folder`` holds no state of an input.
      CorruptCheckpoint, NewerFormat, StateMismatch: if a file cannot be used, with the file's name.
      OSError: if the folder cannot be read.
    """
    files = {
        path.name: path.read_bytes() if is_input_file(path.name) else b""
        for path in folder.iterdir()
    }
    return saved_input(files, os.fspath(folder))


def read_state(folder: epath.Path, stage: Stage[object] | None, primary: int | None) -> State:
    """The state at which this process continues; the parts of all processes are joined.

    Args:
      folder: written by `write_file`, by any number of processes.
      stage: the last stage of the pipeline; None if unknown.
      primary: as for `take_file`, of the present processes.

    Raises:
      NoValidCheckpoint, CorruptCheckpoint, NewerFormat, StateMismatch: for a missing, damaged or
        different part, with its name.
      OSError: if the folder cannot be read.
    """
    return state_for_process(
        read_input(folder),
        stage,
        jax.process_index(),
        jax.process_count(),
        os.fspath(folder),
        own_files=primary is None,
    )
