"""Read the checkpoint files of a folder without changing them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import final

from ..errors import CorruptCheckpoint, NewerFormat
from .envelope import Checkpoint, decode
from .files import read_checkpoint_file
from .names import parse_file_name


@final
@dataclass(frozen=True)
class FoundFile:
    """A file with the name of a checkpoint.

    Attributes:
      path: of the file.
      name: of the input; None if the file name is not that of a checkpoint.
      step: from the content if it is valid, else from the file name.
      size: in bytes.
      modified: seconds since the epoch.
      aside: why it was set aside; None if it was not, or if the file name is not that of a checkpoint.
      checkpoint: the content; None if that is not valid.
      problem: why the content is not valid; None if it is.
    """

    path: Path
    name: str | None
    step: int | None
    size: int
    modified: float
    aside: str | None
    checkpoint: Checkpoint | None
    problem: str | None


def survey(folder: Path) -> Iterator[FoundFile]:
    """Every checkpoint file in ``folder``, by name and step.

    Raises:
      OSError: if the folder cannot be read.
    """
    named = {name: parse_file_name(name) for name in os.listdir(folder)}
    known = {name: found for name, found in named.items() if found is not None}
    for name in sorted(known, key=lambda name: (known[name].name, known[name].step, name)):
        try:
            yield examine(folder / name)
        except FileNotFoundError:  # removed meanwhile
            continue
        except OSError as error:
            found = known[name]
            problem = f"it cannot be read: {error.strerror}"
            yield FoundFile(
                folder / name, found.name, found.step, 0, 0.0, found.aside, None, problem
            )


def examine(path: Path) -> FoundFile:
    """What the file at ``path`` holds, whatever its name.

    Raises:
      OSError: if it cannot be read.
    """
    status = os.lstat(path)
    named = parse_file_name(path.name)
    checkpoint, problem = None, None
    try:
        decoded = decode(read_checkpoint_file(path))
        if named is None or decoded.step == named.step:
            checkpoint = decoded
        else:
            problem = f"it holds step {decoded.step}"
    except (CorruptCheckpoint, NewerFormat) as error:
        problem = str(error)
    name, step, aside = (named.name, named.step, named.aside) if named else (None, None, None)
    if checkpoint is not None:
        step = checkpoint.step
    size, modified = status.st_size, status.st_mtime
    return FoundFile(path, name, step, size, modified, aside, checkpoint, problem)
